"""Verdicts on the claims of terena2005 from its table: by formula, simulated by ns-3, measured on a kernel.

Only the published settings count: what was tried at another rate or RTT decides nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tpcsweep import tcp
from tpcsweep.claims import CLAIMS, Outcome
from tpcsweep.claims.effects import Interval, Region, about, both
from tpcsweep.claims.terena2005 import RECOVERIES
from tpcsweep.studies.terena2005.cases import SHIPPED, Setting
from tpcsweep.studies.terena2005.outcomes import Outcome as Run
from tpcsweep.studies.terena2005.outcomes import interval
from tpcsweep.studies.terena2005.published import SHARES, UTILISATIONS

FIGURE = "terena2005"
BY_FORMULA = "by formula"
DATA = (BY_FORMULA, "simulated", "measured")

Part = tuple[Region, Interval | None, str]
"""What a published row needs, its interval in the data (None: nothing was run), and what that is of."""


def verdicts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Give a row for each claim and each kind of data, as those of published figures are."""
    judged: dict[str, Callable[[str, Sequence[Run]], Iterator[Part]]] = {
        "terena2005.loss": _losses,
        "terena2005.recovery": _recoveries,
        "terena2005.mtu_fairness": _shares,
    }
    rows = [_row(name, data, list(parts(data, runs))) for name, parts in judged.items() for data in DATA]
    if any(run.shipped for run in runs):
        for row in rows:
            row["testbed"] = f"shipped: examples/{SHIPPED.name}" if row["data"] == "measured" else None
    return rows


def _row(name: str, data: str, parts: Sequence[Part]) -> dict[str, Any]:
    missing = [subject for _, interval, subject in parts if interval is None]
    judged = [(region, interval, subject) for region, interval, subject in parts if interval is not None]
    decision = both(region.decide(interval) for region, interval, _ in judged)
    if missing:
        outcome = Outcome.FAILS if decision is False else Outcome.OPEN
    else:
        outcome = {True: Outcome.HOLDS, False: Outcome.FAILS, None: Outcome.UNDECIDED}[decision]
    # What decides is shown: the first row that is not as published, else the first one.
    others = (part for part in judged if part[0].decide(part[1]) is not True)
    _, shown, effect = next(others, judged[0] if judged else (None, None, None))
    reasons = [f"{subject}: {interval.value:.3g}, needed: {region}" for region, interval, subject in judged]
    reasons += [f"not {data}: {', '.join(missing)}"] if missing else []
    return {
        "claim": name,
        "figure": FIGURE,
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


def _losses(data: str, runs: Sequence[Run]) -> Iterator[Part]:
    for row, region in zip(UTILISATIONS, (Region(low=0.9), about(0.012)), strict=True):
        used = _exact(tcp.utilisation(row.bandwidth, row.rtt, row.mtu, row.loss))
        if data != BY_FORMULA:
            run = _run(data, runs, Setting("loss", row.bandwidth, row.rtt, (row.mtu,), row.loss))
            used = interval(run.utilisations) if run else None
        yield region, used, f"utilisation, {row.path}"


def _recoveries(data: str, runs: Sequence[Run]) -> Iterator[Part]:
    for row in RECOVERIES:
        # As rounded by the publication; a simulation or measurement is about as published.
        half = row.rounded_to / 2 / row.published
        region = Region(1 - half, 1 + half)
        ratio = _exact(row.by_formula / row.published)
        if data != BY_FORMULA:
            region = about(1)
            run = _run(data, runs, Setting("recovery", row.bandwidth, row.rtt, (row.mtu,)))
            ratio = interval([seconds / row.published for seconds in run.seconds]) if run else None
            # ns-3 without random losses gives the same each time: one run has all there is.
            if ratio and run and data == "simulated" and len(run.seconds) == 1:
                ratio = _exact(ratio.value)
        yield region, ratio, f"time over published, {row.path} {row.bandwidth:g} Gbit/s, MTU {row.mtu}"


def _shares(data: str, runs: Sequence[Run]) -> Iterator[Part]:
    mtus = tuple(row.mtu for row in SHARES)
    for row, share in zip(SHARES, tcp.shares(mtus), strict=True):
        ratio = _exact(share * row.bandwidth / row.published)
        if data != BY_FORMULA:
            run = _run(data, runs, Setting("mtu_fairness", row.bandwidth, row.rtt, mtus))
            ratio = interval([rate / row.published for rate in run.goodputs(row.mtu)]) if run else None
        yield about(1), ratio, f"rate over published, MTU {row.mtu}"


def _run(data: str, runs: Sequence[Run], setting: Setting) -> Run | None:
    """The run of a published setting, if there is one that was not refused."""
    matching = (
        run for run in runs if run.refused is None and (run.made, run.case.setting) == (data, setting)
    )
    return next(matching, None)


def _exact(value: float) -> Interval | None:
    return Interval(value, value, value)
