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
from tpcsweep.studies.terena2005.outcomes import Made, interval
from tpcsweep.studies.terena2005.outcomes import Outcome as Run
from tpcsweep.studies.terena2005.published import SHARES, UTILISATIONS
from tpcsweep.studies.terena2005.sources import SHIPPED

FIGURE = "terena2005"
DATA = ("by formula", "simulated", "measured")

Part = tuple[Region, Interval | None, str]
"""What a published row needs, what was found there (None: nothing), and what that is."""


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
    missing = [what for _, found, what in parts if found is None]
    there = [(region, found, what) for region, found, what in parts if found is not None]
    decision = both([region.decide(found) for region, found, _ in there])
    if missing:
        outcome = Outcome.FAILS if decision is False else Outcome.OPEN
    else:
        outcome = {True: Outcome.HOLDS, False: Outcome.FAILS, None: Outcome.UNDECIDED}[decision]
    # What decides is shown: the first row that is not as published, else the first one.
    others = (part for part in there if part[0].decide(part[1]) is not True)
    _, shown, what = next(others, there[0] if there else (None, None, ""))
    reasons = [f"{what}: {found.value:.3g}, needed: {region}" for region, found, what in there]
    reasons += [f"not {data}: {', '.join(missing)}"] if missing else []
    return {
        "claim": name,
        "figure": FIGURE,
        "verdict": outcome.value,
        "outcome": outcome.value,
        "data": data,
        "effect": what or None,
        "value": shown.value if shown else None,
        "low": shown.low if shown else None,
        "high": shown.high if shown else None,
        "units": "1" if shown else None,
        "published": CLAIMS[name].text,
        "reason": "; ".join(reasons),
    }


def _losses(data: str, runs: Sequence[Run]) -> Iterator[Part]:
    for row, region in zip(UTILISATIONS, (Region(low=0.9), about(0.012)), strict=True):
        setting = row.bandwidth, row.rtt, row.mtu, row.loss
        found: Interval | None = _exact(tcp.utilisation(*setting))
        if data != DATA[0]:
            run = _run(data, runs, "loss", row.bandwidth, row.rtt, (row.mtu,), row.loss)
            found = interval(run.utilisations) if run else None
        yield region, found, f"utilisation, {row.path}"


def _recoveries(data: str, runs: Sequence[Run]) -> Iterator[Part]:
    for row in RECOVERIES:
        # As rounded by the publication; a simulation or measurement is about as published.
        half = row.rounded_to / 2 / row.published
        region = Region(1 - half, 1 + half)
        found: Interval | None = _exact(row.by_formula / row.published)
        if data != DATA[0]:
            run = _run(data, runs, "recovery", row.bandwidth, row.rtt, (row.mtu,), 0.0)
            region = about(1)
            found = interval([seconds / row.published for seconds in run.seconds]) if run else None
            # ns-3 without random losses gives the same each time: one run has all there is.
            if found is not None and run is not None and run.made == "simulated" and len(run.seconds) == 1:
                found = _exact(found.value)
        yield region, found, f"time over published, {row.path} {row.bandwidth:g} Gbit/s, MTU {row.mtu}"


def _shares(data: str, runs: Sequence[Run]) -> Iterator[Part]:
    by_formula = tcp.shares([row.mtu for row in SHARES])
    mtus = tuple(row.mtu for row in SHARES)
    for row, share in zip(SHARES, by_formula, strict=True):
        found: Interval | None = _exact(share * row.bandwidth / row.published)
        if data != DATA[0]:
            run = _run(data, runs, "mtu_fairness", row.bandwidth, row.rtt, mtus, 0.0)
            found = interval([rate / row.published for rate in run.goodputs(row.mtu)]) if run else None
        yield about(1), found, f"rate over published, MTU {row.mtu}"


def _run(
    data: str,
    runs: Sequence[Run],
    kind: str,
    bandwidth: float,
    rtt: float,
    mtus: tuple[int, ...],
    loss: float,
) -> Run | None:
    """The run of a published setting with Reno, if there is one that was not refused."""
    wanted = data, kind, "reno", bandwidth, rtt, mtus, loss
    return next((run for run in runs if run.refused is None and _key(run.made, run) == wanted), None)


def _key(made: Made, run: Run) -> tuple[Any, ...]:
    case = run.case
    return made, case.kind, case.control, case.bandwidth, case.rtt, case.mtus, case.loss


def _exact(value: float) -> Interval:
    return Interval(value, value, value)
