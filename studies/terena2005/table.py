# SPDX-License-Identifier: Apache-2.0
"""Published values of terena2005 against formulas, simulations and measurements: table and verdicts.

The verdicts use the published settings only: runs at another rate or RTT decide nothing about them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import formulas
from cases import MEASURED, SHARES, SHIPPED, SIMULATED, UTILISATIONS, Case, Stream
from runs import Made, Run, interval
from tpcsweep.claims.base import Outcome
from tpcsweep.claims.earlier import RECOVERIES, Recovery
from tpcsweep.claims.effects import Interval, Region, about_region, all_true
from tpcsweep.claims.judging import CLAIMS
from tpcsweep.numbers import plain, short
from tpcsweep.tcp import recovery_time

MEASURE = "not measured: snakemake -s studies/terena2005/Snakefile measured"
NOTHING = "—"
TIMEOUTS = 0.01
"""Loss above which windows are so small that timeouts matter (J. Padhye and others, SIGCOMM 1998)."""
BY_FORMULA = "by formula"
DATA = (BY_FORMULA, "simulated", "measured")

Runs = dict[tuple[str, Case], Run]  # runs by origin and case


@dataclass(frozen=True)
class Row:
    """Row of the table; every cell is text for people."""

    id: str
    setting: str
    published: str
    formula: str
    simulated: str  # by ns-3
    measured: str  # on a real kernel
    note: str = ""


def published_case(row: Recovery | Stream) -> Case:
    """Return the full-scale case of a published row."""
    if isinstance(row, Recovery):
        return Case(row.id, "recovery", row.bandwidth, row.rtt, 0, mtus=(row.mtu,))
    if row.loss:
        return Case(row.id, "loss", row.bandwidth, row.rtt, 0, loss=row.loss, mtus=(row.mtu,))
    return Case(row.id, "mtu_fairness", row.bandwidth, row.rtt, 0, mtus=tuple(share.mtu for share in SHARES))


def rows(runs: Iterable[Run]) -> list[Row]:
    """Return all rows: the published settings, then smaller scales and other congestion controls."""
    at: Runs = {(run.made, run.case): run for run in runs}
    found = []
    for row in (*RECOVERIES, *UTILISATIONS, *SHARES):
        case, start = published_case(row), f"{row.path}: "
        if isinstance(row, Recovery):
            value = duration(row.published)
            note = "" if row.agrees else "the published time is not what the publication's own formula gives"
        elif row.loss:
            value = percent(row.published)
            note = "formula: an ACK for each packet; delayed ACKs in brackets" if row.rtt > 1 else ""
        else:
            value, start = f"{row.published * 1000:.0f} Mbit/s", "two Reno streams, "
            note = "formula: shares as the MSS, of a path that is full"
        found.append(_row(at, row.id, case, row.mtu, start, value, note))
    published = {published_case(row) for row in (*RECOVERIES, *UTILISATIONS, *SHARES)}
    for case in dict.fromkeys((*SIMULATED, *MEASURED)):
        if case not in published:
            start = "two Reno streams, " if case.kind == "mtu_fairness" else f"{case.control}: "
            note = "the formula knows no timeouts" if case.loss >= TIMEOUTS and case.control != "bbr" else ""
            found += [_row(at, case.kind, case, mtu, start, NOTHING, note) for mtu in case.mtus]
    return found


def markdown(table: Iterable[Row]) -> str:
    """Return the table as Markdown."""
    heads = ("id", "setting", "published", "formula", "simulated (ns-3)", "measured (kernel)", "note")
    lines = [heads, ("---",) * len(heads), *map(astuple, table)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(runs: Runs, name: str, case: Case, mtu: int, start: str, published: str, note: str) -> Row:
    rate = (
        f"{plain(case.bandwidth)} Gbit/s" if case.bandwidth >= 1 else f"{plain(case.bandwidth * 1000)} Mbit/s"
    )
    lost = f", loss {plain(100 * case.loss)} %" if case.loss else ""
    setting = f"{start}{rate}, {plain(case.rtt)} ms, MTU {'64k' if mtu == 65536 else mtu}{lost}"
    simulated, measured = (_text(runs, made, case, mtu) for made in ("simulated", "measured"))
    return Row(f"terena2005.{name}", setting, published, _by_formula(case, mtu), simulated, measured, note)


def _text(runs: Runs, made: Made, case: Case, mtu: int) -> str:
    """Return the result of a case, or of its flow with one MTU."""
    run = runs.get((made, case))
    if run is None:
        return MEASURE if made == "measured" and case in MEASURED else f"not {made}"
    if run.refused is not None:
        return f"not measured: {run.refused}"
    broken = f"{len(run.broken)} of {len(run.repetitions)} stalled or crashed"
    if len(run.broken) == len(run.repetitions):
        return broken
    match run.case.kind:
        case "recovery":
            late = f" ({run.unrecovered} not recovered in time)" if run.unrecovered else ""
            said = _with_ends(run.seconds, 1, "s") + late if run.seconds else "not recovered in time"
        case "loss":
            said = _with_ends(run.utilisations, 100, "%")
        case "mtu_fairness":
            said = _with_ends(run.goodputs(mtu), 1000, "Mbit/s")
    return said + (f" ({broken})" if run.broken else "")


def _with_ends(values: Sequence[float], factor: float, unit: str) -> str:
    """Return the mean of values times a factor, with half of its interval if there are several values."""
    mean = interval(values)
    assert mean is not None  # runs without any value have another text
    middle, half = factor * mean.value, factor * (mean.high - mean.value)
    if math.isnan(half):
        return f"{rounded(middle, 3)} {unit}"
    # Equal repetitions differ only by rounding.
    return f"{rounded(middle, 3)} ± {rounded(half if half > 1e-9 * middle else 0.0, 1)} {unit}"


def _by_formula(case: Case, mtu: int) -> str:
    where = case.bandwidth, case.rtt, mtu
    match case.kind, case.control:
        case "recovery", "reno":
            return duration(recovery_time(*where))
        case "recovery", "cubic":
            return duration(formulas.cubic_recovery_time(*where))
        case "loss", "reno":
            each, delayed = (percent(formulas.utilisation(*where, case.loss, acks)) for acks in (1, 2))
            return each if delayed == each else f"{each} ({delayed})"
        case "loss", "cubic":
            return percent(formulas.cubic_utilisation(*where, case.loss))
        case "mtu_fairness", _:
            share = formulas.shares(case.mtus)[case.mtus.index(mtu)]
            return f"{short(share * case.bandwidth * 1000)} Mbit/s"
    return "none"


def rounded(value: float, digits: int) -> str:
    return plain(float(f"{value:.{digits}g}"))


def duration(seconds: float) -> str:
    """Return a time with three digits, in s, min, or h and min."""
    if seconds < 120:
        return f"{short(seconds)} s"
    if seconds < 3600:
        return f"{short(seconds / 60)} min"
    hours, rest = divmod(seconds, 3600)
    return f"{hours:.0f} h {short(rest / 60)} min"


def percent(share: float) -> str:
    """Return a share in percent with three digits."""
    return f"{short(100 * share)} %"


@dataclass(frozen=True)
class _Part:
    """Published row in a claim: effects by formula and of runs, with the regions that confirm each."""

    subject: str
    case: Case
    by_formula: float
    exactly: Region
    values: Callable[[Run], list[float]]
    region: Region


def verdicts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return one row for each claim and kind of data, with the columns of published figures."""
    at: Runs = {(run.made, run.case): run for run in runs if run.refused is None}
    claims = {
        "terena2005.loss": [*_utilisations()],
        "terena2005.recovery": [*_recoveries()],
        "terena2005.mtu_fairness": [*_fairness()],
    }
    found = [_verdict(name, data, parts, at) for name, parts in claims.items() for data in DATA]
    if any(run.shipped for run in runs):
        for row in found:
            row["testbed"] = f"shipped: examples/{SHIPPED.name}" if row["data"] == "measured" else None
    return found


def _utilisations() -> Iterator[_Part]:
    for row, region in zip(UTILISATIONS, (Region(low=0.9), about_region(0.012)), strict=True):
        used = formulas.utilisation(row.bandwidth, row.rtt, row.mtu, row.loss)
        subject = f"utilisation, {row.path}"
        yield _Part(subject, published_case(row), used, region, lambda run: run.utilisations, region)


def _recoveries() -> Iterator[_Part]:
    for row in RECOVERIES:
        # the formula must give the published value within its rounding
        half = row.rounded_to / 2 / row.published

        def values(run: Run, published: float = row.published) -> list[float]:
            return [seconds / published for seconds in run.seconds]

        subject = f"time over published, {row.path} {plain(row.bandwidth)} Gbit/s, MTU {row.mtu}"
        exactly, ratio = Region(1 - half, 1 + half), row.by_formula / row.published
        yield _Part(subject, published_case(row), ratio, exactly, values, about_region(1))


def _fairness() -> Iterator[_Part]:
    for row, share in zip(SHARES, formulas.shares([row.mtu for row in SHARES]), strict=True):

        def values(run: Run, row: Stream = row) -> list[float]:
            return [rate / row.published for rate in run.goodputs(row.mtu)]

        subject, ratio = f"rate over published, MTU {row.mtu}", share * row.bandwidth / row.published
        yield _Part(subject, published_case(row), ratio, about_region(1), values, about_region(1))


def _verdict(name: str, data: str, parts: Sequence[_Part], runs: Runs) -> dict[str, Any]:
    missing, judged = [], []
    for part in parts:
        region = part.exactly if data == BY_FORMULA else part.region
        run = runs.get((data, part.case))
        values = [part.by_formula] if data == BY_FORMULA else part.values(run) if run else []
        seen = interval(values)
        # A formula, and ns-3 without random losses, give the same each time: one value is exact.
        if (
            seen
            and len(values) == 1
            and (data == BY_FORMULA or (data, part.case.kind) == ("simulated", "recovery"))
        ):
            seen = Interval(seen.value, seen.value, seen.value)
        if seen is None:
            missing.append(part.subject)
        else:
            judged.append((region, seen, part.subject))
    decision = all_true(region.decide(seen) for region, seen, _ in judged)
    if missing:
        outcome = Outcome.FAILS if decision is False else Outcome.OPEN
    else:
        outcome = {True: Outcome.HOLDS, False: Outcome.FAILS, None: Outcome.UNDECIDED}[decision]
    # The verdict shows the first row that contradicts, otherwise the first one.
    others = (part for part in judged if part[0].decide(part[1]) is not True)
    _, shown, effect = next(others, judged[0] if judged else (None, None, None))
    reasons = [f"{subject}: {short(seen.value)}, needed: {region}" for region, seen, subject in judged]
    reasons += [f"not {data}: {', '.join(missing)}"] if missing else []
    return {
        "claim": name,
        "figure": "terena2005",
        "verdict": outcome.value,
        "outcome": outcome.value,
        "data": data,
        "effect": effect,
        "value": shown.value if shown else None,
        "low": shown.low if shown else None,
        "high": shown.high if shown else None,
        "units": "1" if shown else None,
        "published": CLAIMS[name].text,
        "reason": "; ".join(reasons),
    }
