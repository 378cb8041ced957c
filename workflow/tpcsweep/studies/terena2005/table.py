"""The one table of terena2005: what was published, what a formula gives, what was simulated and what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tpcsweep import tcp
from tpcsweep.claims.effects import Interval
from tpcsweep.claims.terena2005 import RECOVERIES
from tpcsweep.paths.plan import LARGEST_BANDWIDTH
from tpcsweep.studies.terena2005.cases import MEASURED, SIMULATED, Case
from tpcsweep.studies.terena2005.outcomes import Made, Outcome, interval
from tpcsweep.studies.terena2005.published import IRREPRODUCIBLE, SHARES, UTILISATIONS

MEASURE = "not measured: snakemake terena2005_measured"
CPU_PER_GBIT = 5.0
"""CPU-seconds of ns-3 for a Gbit in packets of 1500 bytes, where this was written."""
NOTHING = "—"
TIMEOUTS = 0.01
"""Loss from which on windows are so small that timeouts matter (J. Padhye and others, SIGCOMM 1998)."""

Key = tuple[str, str, float, float, tuple[int, ...], float]


@dataclass(frozen=True)
class Row:
    """A row of the table; every cell is text for people."""

    id: str
    setting: str
    published: str
    formula: str
    simulated: str
    """By ns-3."""
    measured: str
    """On a real kernel."""
    note: str = ""


def rows(outcomes: Iterable[Outcome]) -> list[Row]:
    """Give all rows: those that were published, then those at a smaller scale, then what is not tried."""
    found = {(outcome.made, key(outcome.case)): outcome for outcome in outcomes}
    table = _Table(found)
    return [*table.recoveries(), *table.utilisations(), *table.fairness(), *table.rest(), *_untried()]


def key(case: Case) -> Key:
    """What makes two cases the same setting, however long and often they are run."""
    return case.kind, case.control, case.bandwidth, case.rtt, case.mtus, case.loss


class _Table:
    def __init__(self, found: dict[tuple[Made, Key], Outcome]) -> None:
        self._found = found
        self._shown: set[Key] = set()

    def recoveries(self) -> Iterator[Row]:
        for row in RECOVERIES:
            at: Key = ("recovery", "reno", row.bandwidth, row.rtt, (row.mtu,), 0.0)
            # Between half of the rate and all of it.
            gbit = 0.75 * row.bandwidth * row.by_formula
            hours = gbit * CPU_PER_GBIT * 1500 / row.mtu / 3600
            yield Row(
                f"terena2005.{row.id}",
                f"{row.path}: {setting(row.bandwidth, row.rtt, row.mtu)}",
                duration(row.published),
                duration(row.by_formula),
                self._text(
                    "simulated",
                    at,
                    _seconds,
                    f"not simulated: about {rounded(hours, 2)} h of CPU; scaled below",
                ),
                self._text(
                    "measured", at, _seconds, "not measured: " + _beyond(row.bandwidth, row.by_formula)
                ),
                "" if row.agrees else "the published time is not what the publication's own formula gives",
            )

    def utilisations(self) -> Iterator[Row]:
        for row in UTILISATIONS:
            at: Key = ("loss", "reno", row.bandwidth, row.rtt, (row.mtu,), row.loss)
            shortest = "not measured: no path here is as short; 0.5 ms below"
            yield Row(
                f"terena2005.{row.id}",
                f"{row.path}: {setting(row.bandwidth, row.rtt, row.mtu)}, loss {100 * row.loss:g} %",
                percent(row.published),
                _mathis(row.bandwidth, row.rtt, row.mtu, row.loss),
                self._text("simulated", at, _used, "not simulated"),
                self._text("measured", at, _used, shortest),
                "formula: an ACK for each packet; delayed ACKs in brackets" if row.rtt > 1 else "",
            )

    def fairness(self) -> Iterator[Row]:
        by_formula = tcp.shares([row.mtu for row in SHARES])
        for row, share in zip(SHARES, by_formula, strict=True):
            yield Row(
                f"terena2005.{row.id}",
                f"two Reno streams, {setting(row.bandwidth, row.rtt, row.mtu)}, 4000 s",
                f"{row.published * 1000:.0f} Mbit/s",
                f"{share * row.bandwidth * 1000:.0f} Mbit/s",
                "not simulated: about an hour of CPU; scaled below",
                "not measured: an hour; scaled below",
                "formula: shares as the MSS, of a path that is full",
            )

    def rest(self) -> Iterator[Row]:
        """Settings of ours: a smaller rate or RTT, or other congestion control."""
        cases = {key(case): case for case in (*SIMULATED, *MEASURED)}
        for at, case in cases.items():
            if at in self._shown:
                continue
            if case.kind == "mtu_fairness":
                yield from self._shares(case)
                continue
            pick = _seconds if case.kind == "recovery" else _used
            lost = f", loss {100 * case.loss:g} %" if case.kind == "loss" else ""
            yield Row(
                "terena2005.recovery" if case.kind == "recovery" else "terena2005.loss",
                f"{case.control}: {setting(case.bandwidth, case.rtt, case.mtus[0])}{lost}",
                NOTHING,
                _by_formula(case),
                self._text("simulated", at, pick, _unsimulated(case)),
                self._text("measured", at, pick, _unmeasured(at)),
                "the formula knows no timeouts" if case.loss >= TIMEOUTS and case.control != "bbr" else "",
            )

    def _shares(self, case: Case) -> Iterator[Row]:
        for mtu, share in zip(case.mtus, tcp.shares(case.mtus), strict=True):

            def got(outcome: Outcome, mtu: int = mtu) -> str:
                return _megabits(interval(outcome.goodputs(mtu)))

            at = key(case)
            yield Row(
                "terena2005.mtu_fairness",
                f"two Reno streams, {setting(case.bandwidth, case.rtt, mtu)}",
                NOTHING,
                f"{share * case.bandwidth * 1000:.1f} Mbit/s",
                self._text("simulated", at, got, "not simulated"),
                self._text("measured", at, got, _unmeasured(at)),
            )

    def _text(self, made: Made, at: Key, pick: Callable[[Outcome], str], otherwise: str) -> str:
        self._shown.add(at)
        outcome = self._found.get((made, at))
        if outcome is None:
            wanted = made == "measured" and at in {key(case) for case in MEASURED}
            return MEASURE if wanted else otherwise
        if outcome.refused is not None:
            return f"not measured: {outcome.refused}"
        broken = f"{len(outcome.broken)} of {len(outcome.repetitions)} stalled or crashed"
        if len(outcome.broken) == len(outcome.repetitions):
            return broken
        return pick(outcome) + (f" ({broken})" if outcome.broken else "")


def _untried() -> Iterator[Row]:
    for row in IRREPRODUCIBLE:
        yield Row(f"terena2005.{row.id}", row.what, row.published, NOTHING, "not tried", "not tried", row.why)


def _by_formula(case: Case) -> str:
    where = case.bandwidth, case.rtt, case.mtus[0]
    match case.kind, case.control:
        case "recovery", "reno":
            return duration(tcp.recovery_time(*where))
        case "recovery", "cubic":
            return duration(tcp.cubic_recovery_time(*where))
        case "loss", "reno":
            return _mathis(*where, case.loss)
        case "loss", "cubic":
            return percent(tcp.cubic_utilisation(*where, case.loss))
    return "none"


def _mathis(bandwidth: float, rtt: float, mtu: int, loss: float) -> str:
    each, delayed = (tcp.utilisation(bandwidth, rtt, mtu, loss, acks) for acks in (1, 2))
    return percent(each) if delayed == each else f"{percent(each)} ({percent(delayed)})"


def _unsimulated(case: Case) -> str:
    if case.control == "bbr":
        return "not simulated: ns-3's BBR is unchecked"
    return "not simulated: as short as the published path above" if case.rtt < 1 else "not simulated"


def _unmeasured(at: Key) -> str:
    return MEASURE if at in {key(case) for case in MEASURED} else "not measured: simulated alone"


def _beyond(bandwidth: float, seconds: float) -> str:
    most = LARGEST_BANDWIDTH["delayline"]
    if bandwidth > most:
        return f"{bandwidth:g} Gbit/s is more than a delay line carries ({most:g}); scaled below"
    return f"{duration(seconds)} for each loss; scaled below"


def _seconds(outcome: Outcome) -> str:
    found = interval(outcome.seconds)
    if found is None:
        return "not recovered in time"
    late = f" ({outcome.unrecovered} not recovered in time)" if outcome.unrecovered else ""
    return _with_ends(found, "s") + late


def _used(outcome: Outcome) -> str:
    found = interval(outcome.utilisations)
    assert found is not None  # what broke and what was refused has been said before
    return _with_ends(Interval(*(100 * value for value in (found.value, found.low, found.high))), "%")


def _megabits(found: Interval | None) -> str:
    assert found is not None
    return _with_ends(Interval(*(1000 * value for value in (found.value, found.low, found.high))), "Mbit/s")


def _with_ends(found: Interval, unit: str) -> str:
    if math.isnan(found.low):
        return f"{rounded(found.value, 3)} {unit}"
    half = found.high - found.value
    if half < 1e-9 * found.value:  # repetitions that are the same, but for the arithmetic
        half = 0.0
    return f"{rounded(found.value, 3)} ± {rounded(half, 1)} {unit}"


def setting(bandwidth: float, rtt: float, mtu: int) -> str:
    """Give a path in words."""
    rate = f"{bandwidth:g} Gbit/s" if bandwidth >= 1 else f"{bandwidth * 1000:g} Mbit/s"
    return f"{rate}, {rtt:g} ms, MTU {'64k' if mtu == 65536 else mtu}"


def rounded(value: float, digits: int) -> str:
    """Give a number with so many digits, and never with an exponent above 10⁻⁴ and below 10⁶."""
    return f"{float(f'{value:.{digits}g}'):g}"


def duration(seconds: float) -> str:
    """Give a time as people say it, three digits of it."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{seconds / 60:.3g} min"
    hours, rest = divmod(seconds, 3600)
    return f"{hours:.0f} h {rest / 60:.3g} min"


def percent(share: float) -> str:
    """Give a share in percent, three digits of it."""
    return f"{100 * share:.3g} %"


def markdown(table: Sequence[Row]) -> str:
    """Give the table as Markdown."""
    heads = ("id", "setting", "published", "formula", "simulated (ns-3)", "measured (kernel)", "note")
    lines = [heads, ("---",) * len(heads)]
    lines += [(r.id, r.setting, r.published, r.formula, r.simulated, r.measured, r.note) for r in table]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
