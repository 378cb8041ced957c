# SPDX-License-Identifier: Apache-2.0
"""What terena2005 published beside formulas, simulations and measurements: as a table, and as verdicts on claims.

The verdicts are on the published settings alone: what was tried at another rate or RTT decides nothing of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from cases import (
    IRREPRODUCIBLE,
    MEASURED,
    SHARES,
    SHIPPED,
    SIMULATED,
    UTILISATIONS,
    Case,
)
from runs import Made, Run, interval
from tpcsweep import tcp
from tpcsweep.claims import CLAIMS, Outcome, Verdict
from tpcsweep.claims.base import Effect
from tpcsweep.claims.earlier import RECOVERIES
from tpcsweep.claims.effects import Interval, Region, about, both
from tpcsweep.paths.plan import LARGEST_BANDWIDTH

MEASURE = "not measured: snakemake -s studies/terena2005/Snakefile measured"
CPU_PER_GBIT = 5.0  # CPU-seconds of ns-3 for a Gbit in packets of 1500 bytes, where this was written
NOTHING = "—"
TIMEOUTS = 0.01
"""Loss from which on windows are so small that timeouts matter (J. Padhye and others, SIGCOMM 1998)."""

BY_FORMULA = "by formula"
DATA = (BY_FORMULA, "simulated", "measured")

Runs = Mapping[tuple[str, Case], Run]  # runs by how they were made, and by their cases
Part = tuple[Region, Interval | None, str]
"""The region that a published row needs, the interval in the data (None if there was no run), and what that is of."""

_RECOVERIES = {
    row: Case(row.id, "recovery", row.bandwidth, row.rtt, 0, mtus=(row.mtu,)) for row in RECOVERIES
}
_UTILISATIONS = {row: Case(row.id, "loss", row.bandwidth, row.rtt, 0, loss=row.loss) for row in UTILISATIONS}


@dataclass(frozen=True)
class Row:
    """A row of the table; every cell is text for people."""

    id: str
    setting: str
    published: str
    formula: str
    simulated: str  # by ns-3
    measured: str  # on a real kernel
    note: str = ""


def rows(runs: Iterable[Run]) -> list[Row]:
    """Give all rows: those that were published, then those at a smaller scale, then what is not tried."""
    at = _by_setting(runs)
    untried = [
        Row(f"terena2005.{name}", setting, published, NOTHING, "not tried", "not tried", why)
        for name, setting, published, why in IRREPRODUCIBLE
    ]
    return [*_recoveries(at), *_utilisations(at), *_fairness(), *_scaled(at), *untried]


def _by_setting(runs: Iterable[Run]) -> Runs:
    return {(run.made, run.case): run for run in runs}


def _recoveries(runs: Runs) -> Iterator[Row]:
    for row, case in _RECOVERIES.items():
        # Between half of the rate and all of it.
        gbit = 0.75 * row.bandwidth * row.by_formula
        hours = gbit * CPU_PER_GBIT * 1500 / row.mtu / 3600
        unsimulated = f"not simulated: about {rounded(hours, 2)} h of CPU; scaled below"
        unmeasured = f"not measured: {_beyond(row.bandwidth, row.by_formula)}"
        yield Row(
            f"terena2005.{row.id}",
            f"{row.path}: {path(row.bandwidth, row.rtt, row.mtu)}",
            duration(row.published),
            duration(row.by_formula),
            _text(runs, "simulated", case, unsimulated),
            _text(runs, "measured", case, unmeasured),
            "" if row.agrees else "the published time is not what the publication's own formula gives",
        )


def _utilisations(runs: Runs) -> Iterator[Row]:
    for row, case in _UTILISATIONS.items():
        unmeasured = "not measured: no path here is as short; 0.5 ms below"
        yield Row(
            f"terena2005.{row.id}",
            f"{row.path}: {path(row.bandwidth, row.rtt, row.mtu)}, loss {100 * row.loss:g} %",
            percent(row.published),
            _mathis(row.bandwidth, row.rtt, row.mtu, row.loss),
            _text(runs, "simulated", case, "not simulated"),
            _text(runs, "measured", case, unmeasured),
            "formula: an ACK for each packet; delayed ACKs in brackets" if row.rtt > 1 else "",
        )


def _fairness() -> Iterator[Row]:
    by_formula = tcp.shares([row.mtu for row in SHARES])
    for row, share in zip(SHARES, by_formula, strict=True):
        yield Row(
            f"terena2005.{row.id}",
            f"two Reno streams, {path(row.bandwidth, row.rtt, row.mtu)}, 4000 s",
            f"{row.published * 1000:.0f} Mbit/s",
            f"{share * row.bandwidth * 1000:.0f} Mbit/s",
            "not simulated: about an hour of CPU; scaled below",
            "not measured: an hour; scaled below",
            "formula: shares as the MSS, of a path that is full",
        )


def _scaled(runs: Runs) -> Iterator[Row]:
    """Settings of ours: a smaller rate or RTT, or other congestion control."""
    published = {*_RECOVERIES.values(), *_UTILISATIONS.values()}
    for case in dict.fromkeys((*SIMULATED, *MEASURED)):
        if case in published:
            continue
        lost = f", loss {100 * case.loss:g} %" if case.kind == "loss" else ""
        for place, mtu in enumerate(case.mtus):
            flows = "two Reno streams, " if case.kind == "mtu_fairness" else f"{case.control}: "
            yield Row(
                f"terena2005.{case.kind}",
                f"{flows}{path(case.bandwidth, case.rtt, mtu)}{lost}",
                NOTHING,
                _by_formula(case, place),
                _text(runs, "simulated", case, _unsimulated(case), mtu),
                _text(runs, "measured", case, "not measured: simulated alone", mtu),
                "the formula knows no timeouts" if case.loss >= TIMEOUTS and case.control != "bbr" else "",
            )


def _text(runs: Runs, made: Made, case: Case, otherwise: str, mtu: int = 0) -> str:
    """The result of a case, or of its flow with one MTU; `otherwise` where it was not run."""
    run = runs.get((made, case))
    if run is None:
        return MEASURE if made == "measured" and case in MEASURED else otherwise
    if run.refused is not None:
        return f"not measured: {run.refused}"
    broken = f"{len(run.broken)} of {len(run.repetitions)} stalled or crashed"
    if len(run.broken) == len(run.repetitions):
        return broken
    return _result(run, mtu) + (f" ({broken})" if run.broken else "")


def _result(run: Run, mtu: int) -> str:
    match run.case.kind:
        case "recovery":
            late = f" ({run.unrecovered} not recovered in time)" if run.unrecovered else ""
            return _with_ends(run.seconds, 1, "s") + late if run.seconds else "not recovered in time"
        case "loss":
            return _with_ends(run.utilisations, 100, "%")
        case "mtu_fairness":
            return _with_ends(run.goodputs(mtu), 1000, "Mbit/s")


def _with_ends(values: Sequence[float], factor: float, unit: str) -> str:
    """The mean of values, times a factor, with half of its interval, which one value has not."""
    mean = interval(values)
    assert mean is not None  # what broke and what was refused has been said before
    mean = mean.map(lambda value: factor * value)
    if math.isnan(mean.low):
        return f"{rounded(mean.value, 3)} {unit}"
    half = mean.high - mean.value
    if half < 1e-9 * mean.value:  # repetitions that are the same, but for the arithmetic
        half = 0.0
    return f"{rounded(mean.value, 3)} ± {rounded(half, 1)} {unit}"


def _by_formula(case: Case, place: int) -> str:
    where = case.bandwidth, case.rtt, case.mtus[place]
    match case.kind, case.control:
        case "recovery", "reno":
            return duration(tcp.recovery_time(*where))
        case "recovery", "cubic":
            return duration(tcp.cubic_recovery_time(*where))
        case "loss", "reno":
            return _mathis(*where, case.loss)
        case "loss", "cubic":
            return percent(tcp.cubic_utilisation(*where, case.loss))
        case "mtu_fairness", _:
            return f"{tcp.shares(case.mtus)[place] * case.bandwidth * 1000:.1f} Mbit/s"
    return "none"


def _mathis(bandwidth: float, rtt: float, mtu: int, loss: float) -> str:
    each, delayed = (tcp.utilisation(bandwidth, rtt, mtu, loss, acks) for acks in (1, 2))
    return percent(each) if delayed == each else f"{percent(each)} ({percent(delayed)})"


def _unsimulated(case: Case) -> str:
    if case.control == "bbr":
        return "not simulated: ns-3's BBR is unchecked"
    return "not simulated: as short as the published path above" if case.rtt < 1 else "not simulated"


def _beyond(bandwidth: float, seconds: float) -> str:
    most = LARGEST_BANDWIDTH["delayline"]
    if bandwidth > most:
        return f"{bandwidth:g} Gbit/s is more than a delay line carries ({most:g}); scaled below"
    return f"{duration(seconds)} for each loss; scaled below"


def path(bandwidth: float, rtt: float, mtu: int) -> str:
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
    lines = [heads, ("---",) * len(heads), *map(astuple, table)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def verdicts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Give a row for each claim and each kind of data, as those of published figures are."""
    judged: dict[str, Callable[[str, Runs], Iterator[Part]]] = {
        "terena2005.loss": _utilisation_parts,
        "terena2005.recovery": _recovery_parts,
        "terena2005.mtu_fairness": _fairness_parts,
    }
    at = _by_setting(run for run in runs if run.refused is None)
    rows = [_verdict(name, data, list(parts(data, at))) for name, parts in judged.items() for data in DATA]
    if any(run.shipped for run in runs):
        for row in rows:
            row["testbed"] = f"shipped: examples/{SHIPPED.name}" if row["data"] == "measured" else None
    return rows


def _verdict(name: str, data: str, parts: Sequence[Part]) -> dict[str, Any]:
    missing = [subject for _, interval, subject in parts if interval is None]
    judged = [(region, interval, subject) for region, interval, subject in parts if interval is not None]
    decision = both(region.decide(interval) for region, interval, _ in judged)
    if missing:
        outcome = Outcome.FAILS if decision is False else Outcome.OPEN
    else:
        outcome = {True: Outcome.HOLDS, False: Outcome.FAILS, None: Outcome.UNDECIDED}[decision]
    # What decides is shown: the first row that is not as published, else the first one.
    others = (part for part in judged if part[0].decide(part[1]) is not True)
    _, shown, quantity = next(others, judged[0] if judged else (None, None, ""))
    reasons = [f"{subject}: {interval.value:.3g}, needed: {region}" for region, interval, subject in judged]
    reasons += [f"not {data}: {', '.join(missing)}"] if missing else []
    effect = Effect(quantity, shown) if shown else None
    row = Verdict(CLAIMS[name], outcome, "; ".join(reasons), data, effect).to_dict()
    del row["evidence"], row["tested"]
    return {**row, "figure": "terena2005", "outcome": outcome.value}


def _utilisation_parts(data: str, runs: Runs) -> Iterator[Part]:
    for (row, case), region in zip(_UTILISATIONS.items(), (Region(low=0.9), about(0.012)), strict=True):
        used = _exact(tcp.utilisation(row.bandwidth, row.rtt, row.mtu, row.loss))
        if data != BY_FORMULA:
            run = runs.get((data, case))
            used = interval(run.utilisations) if run else None
        yield region, used, f"utilisation, {row.path}"


def _recovery_parts(data: str, runs: Runs) -> Iterator[Part]:
    for row, case in _RECOVERIES.items():
        # As rounded by the publication; a simulation or measurement is about as published.
        half = row.rounded_to / 2 / row.published
        region = Region(1 - half, 1 + half)
        ratio = _exact(row.by_formula / row.published)
        if data != BY_FORMULA:
            region = about(1)
            run = runs.get((data, case))
            ratio = interval([seconds / row.published for seconds in run.seconds]) if run else None
            # ns-3 without random losses gives the same each time: one run has all there is.
            if ratio and run and data == "simulated" and len(run.seconds) == 1:
                ratio = _exact(ratio.value)
        yield region, ratio, f"time over published, {row.path} {row.bandwidth:g} Gbit/s, MTU {row.mtu}"


def _fairness_parts(data: str, runs: Runs) -> Iterator[Part]:
    mtus = tuple(row.mtu for row in SHARES)
    for row, share in zip(SHARES, tcp.shares(mtus), strict=True):
        ratio = _exact(share * row.bandwidth / row.published)
        if data != BY_FORMULA:
            run = runs.get((data, Case("", "mtu_fairness", row.bandwidth, row.rtt, 0, mtus=mtus)))
            ratio = interval([rate / row.published for rate in run.goodputs(row.mtu)]) if run else None
        yield about(1), ratio, f"rate over published, MTU {row.mtu}"


def _exact(value: float) -> Interval | None:
    return Interval(value, value, value)
