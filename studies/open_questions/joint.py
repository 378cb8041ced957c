# SPDX-License-Identifier: Apache-2.0
"""Three published facts on emulated RTTs, judged together on simulations of every possible set-up.

(a) from 0.1 to 10 ms throughput falls five-fold; (b) from 10 to 60 ms it is not as 1/RTT; (c) at 120 ms it is about 1
Gbit/s for any number of streams. Cells are those of the published figure, by the fixed point.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from arithmetic import DELAYS
from numpy.typing import NDArray
from tpcsweep.analysis.claims.claim import Outcome, judge_claim
from tpcsweep.analysis.claims.claim_cells import claim_cells as rows_of
from tpcsweep.analysis.claims.judging import CLAIMS
from tpcsweep.data.effects import Region
from tpcsweep.data.labels import SIMULATED, coordinates
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.loading import load
from tpcsweep.testbeds.simulation.fixed_point import Array, central, model_cells, random_sets, solve, solved
from tpcsweep.testbeds.simulation.settings import Simulation

FACTS = {
    "five-fold": "chep2023.rtt_fivefold",
    "no 1/RTT": "chep2023.rtt_not_linear",
    "1 Gbit/s": "chep2023.rtt120_cap",
}
"""Facts in the order (a), (b), (c), with their claims."""
MTUS = (9000, 1500)
BUFFERS = {"1 GB": 10**9, "4 MiB": 4 * 2**20}
"""Largest TCP windows: that of the figure's sweep, and the kernel's default for sending."""
PACKETS: Mapping[str, Mapping[str, float]] = {
    "one segment": {"queue_segments": 1, "queue_pacing": 0},
    "two segments": {"queue_segments": 2, "queue_pacing": 0},
    "by rate": {"queue_segments": 2},
}
"""Possible units of netem's limit; "by rate" means packets as large as a stream's rate makes them."""
QUEUES = {"each interface": "origin", "one for all": "path"}
NONE = "no limit"

_RTTS = (0.1, 10.0, 60.0, 120.0)
_PANEL = (2, 128.0)  # origins and cores that the publication states as numbers
_FEWEST = 10  # fewest streams in the facts, which must not depend on streams


@dataclass(frozen=True)
class Simulated:
    """Set-up of the published figure."""

    unknown: Mapping[str, Any]
    """Set-up for people."""
    cells: Mapping[str, Any]
    physics: Mapping[str, float]
    queues: str


def setups() -> Iterator[Simulated]:
    """Yield every set-up with netem's limit, and every one without."""
    for mtu, (buffers, most) in itertools.product(MTUS, BUFFERS.items()):
        ends = {"MTU": mtu, "buffers": buffers}
        given = {"mtu": mtu, "tcp_buffer": most}
        for packets, delay, queues in itertools.product(PACKETS, DELAYS, QUEUES):
            unknown = {**ends, "packets": packets, "delay": delay, "queues": queues}
            physics = {**PACKETS[packets], "queue_delay": DELAYS[delay]}
            yield Simulated(unknown, given, physics, QUEUES[queues])
        unknown = {**ends, "packets": NONE, "delay": "", "queues": ""}
        yield Simulated(unknown, {**given, "queue_limit": None}, {}, "path")


def published() -> SweepStudy:
    """Return the published figure, on the testbed that simulates it."""
    config = {"sweep": "config/published/chep2023_fig4.yaml", "testbed": "simulation-chep2023"}
    return load(config, Path(__file__).parents[2])


def table(figure: SweepStudy, draws: int) -> pd.DataFrame:
    """Return one row for each set-up, with both readings.

    Args:
        figure: The published figure.
        draws: Random sets of the parameters that a set-up leaves open.

    Returns:
        The unknowns; the effect of each fact by its claim over the whole figure; in `holds` the facts whose claims
            hold; and in columns of the fact's name and `: sets` the share of the sets in which it holds on the panel
            that the publication states as numbers; `all: sets` is the share of all facts at one number of streams.
    """
    assert isinstance(figure.testbed, Simulation)
    middle, sets = central(figure.testbed.parameters), random_sets(figure.testbed.parameters, draws)
    rows = []
    for setup in setups():
        fixed = {name: np.array(value) for name, value in setup.physics.items()}
        whole, panel = (over(figure, setup, p | fixed) for over, p in ((by_claims, middle), (by_panel, sets)))
        rows.append({**setup.unknown, **whole, **panel})
    return pd.DataFrame(rows)


def by_claims(figure: SweepStudy, setup: Simulated, p: Mapping[str, Array]) -> dict[str, Any]:
    """Return the effects of the facts' claims on all cells of the figure, and the facts whose claims hold."""
    axes = figure.grid.axes
    parameters = [cell.parameters.model_copy(update=dict(setup.cells)) for cell in figure.grid.cells]
    fixed = {name: value for name, value in parameters[0].model_dump().items() if name not in axes}
    shape = [len(values) for values in axes.values()]
    places = [[list(axes[name]).index(cell.axes[name]) for cell in figure.grid.cells] for name in axes]
    order = np.argsort(np.ravel_multi_index(places, shape))
    figures = solved(model_cells(parameters), p, setup.queues)
    variables = {name: (list(axes), values[order].reshape(shape)) for name, values in figures.items()}
    summary = xr.Dataset(variables, coordinates(axes, fixed), {"testbed_kind": SIMULATED})
    rows = rows_of(summary)
    found = {fact: judge_claim(CLAIMS[claim], summary, rows) for fact, claim in FACTS.items()}
    effects = {
        fact: verdict.effect.interval.value if verdict.effect else np.nan for fact, verdict in found.items()
    }
    held = [fact for fact, verdict in found.items() if verdict.outcome is Outcome.HOLDS]
    return {**effects, "holds": ", ".join(held)}


def by_panel(figure: SweepStudy, setup: Simulated, p: Mapping[str, Array]) -> dict[str, float]:
    """Return the share of parameter sets in which each fact holds with 2 origins of 128 cores.

    Any number of streams suffices, which is generous: the number of streams of the first two was not published.
    """
    cells = [
        cell.parameters.model_copy(update={**setup.cells, **({"queue_limit": None} if rtt < 1 else {})})
        for rtt in _RTTS
        for cell in figure.grid.cells
        if (cell.parameters.origins, cell.parameters.cores, cell.parameters.rtt) == (*_PANEL, rtt)
        and cell.parameters.streams >= _FEWEST
    ]
    throughput = np.atleast_2d(solve(model_cells(cells), p, setup.queues)[0])
    bare, near, far, farthest = np.moveaxis(throughput.reshape(len(throughput), len(_RTTS), -1), 1, 0)
    exponent = np.log(far / near) / np.log(_RTTS[2] / _RTTS[1])
    regions = {fact: CLAIMS[claim].region for fact, claim in FACTS.items()}
    each = {
        "five-fold": _within(regions["five-fold"], near / bare),
        "no 1/RTT": ~_within(regions["no 1/RTT"], exponent),
        "1 Gbit/s": _within(regions["1 Gbit/s"], farthest).all(axis=1, keepdims=True),
    }
    every = np.logical_and.reduce(np.broadcast_arrays(*each.values()))
    shares = {**each, "all": every}
    return {f"{fact}: sets": float(np.mean(held.any(axis=1))) for fact, held in shares.items()}


def _within(region: Region, values: Array) -> NDArray[np.bool_]:
    return (region.low <= values) & (values <= region.high)
