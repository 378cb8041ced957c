# SPDX-License-Identifier: Apache-2.0
"""Blind prediction: models conditioned on figures 2 to 4 of chep2024 predict figures 5 to 8.

A fact is a number of a figure's curve, between two ends. The random parameter sets that agree with the facts of the
first figures are kept, and predict the facts of the others. All functions are pure. docs/studies.md has the
result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray
from tpcsweep.analysis.claims.predicates import target_region
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.common.numbers import plain
from tpcsweep.data.effects import MARGIN
from tpcsweep.data.tables import observations
from tpcsweep.testbeds.loading import load
from tpcsweep.testbeds.simulation.fixed_point import Array, ModelCells, payload_on_path, random_sets, solve
from tpcsweep.testbeds.simulation.physics import Estimate, Physics
from tpcsweep.testbeds.simulation.settings import Simulation

FITTED = (2, 3, 4)
"""Figures on which sets are conditioned; the others are predicted."""
STREAMS = (1, 5, 10, 20, 30, 40, 50, 70, 90, 120, 160, 200)
"""Streams of every curve, as in the figures' sweeps."""
DRAWS = 4000
KEPT = 0.01
"""Share of sets to keep if none agrees with every fact: those with the smallest misfit."""
SEED = 2024
NEAR = 1.1
"""Factor within which a predicted number equals the stated one, as for the claim chep2024.server_cap."""
TAIL = 0.05
"""Share of the kept sets on each side of a prediction's interval."""

BLIND: Mapping[str, tuple[float | None, float | None, float | None]] = {
    "core_rate_source": (3.9, 0.5, 20),
    "core_rate_destination": (3.9, 0.5, 20),
    "instance_cores": (16, 8, 32),
    "server_rate": (None, None, None),
}
"""Wider ranges (value, low, high) of parameters whose simulation ranges follow published totals."""
RANGES: Mapping[str, tuple[float, float]] = {
    "base": (0.03, 0.1),
    "window": (0.5, 0.75),
    "handshakes": (4, 8),
    "redirection": (10, 16),
    "setup": (0.02, 0.6),
    "per_core": (0.5, 20),
    "instance": (4, 640),
    "contention": (1e-3, 0.1),
    "crowding": (1e-6, 1e-3),
    "coherency": (1e-9, 1e-2),
    "efficiency": (0.915, 0.989),
    "sharpness": (3, 16),
}
"""Ranges of the parameters of `combined`, on a logarithmic scale; all others are without effect."""


@dataclass(frozen=True)
class Fact:
    """Bounded number of a curve over streams: its maximum, or the last value over the maximum."""

    figure: int
    text: str
    origins: int
    cores: float
    bandwidth: float
    """Gbit/s."""
    rtt: float
    """ms."""
    low: float = 0.0
    high: float = math.inf
    of: Literal["most", "last over most"] = "most"
    streams: tuple[int, ...] = STREAMS

    def off(self, values: Array) -> Array:
        """Return the decimal logarithm of the excess over `high` (positive) or `low` (negative), 0 inside."""
        return np.asarray(np.log10(values / np.clip(values, self.low, self.high)))

    def agrees(self, values: Array) -> NDArray[np.bool_]:
        """Return whether values are inside, or within a factor of NEAR of a single stated number."""
        return np.abs(self.off(values)) <= (math.log10(NEAR) if self.low == self.high else 0)


def _stated() -> Iterable[Fact]:
    hundred, most = target_region(100).low, target_region(200).low
    one = "100 Gbit/s are not reached at {} ms with one origin"
    for figure, cores in ((2, 16), (3, 32)):
        for rtt in (5.0, 40.0, 120.0):
            yield Fact(figure, one.format(plain(rtt)), 1, cores, 100, rtt, high=hundred)
        text = "more streams have less, past some number, at 5 ms"
        yield Fact(figure, text, 1, cores, 100, 5, high=1 - MARGIN, of="last over most")
    yield Fact(4, "two origins reach 100 Gbit/s at 5 ms", 2, 32, 100, 5, low=hundred)
    yield Fact(4, "two origins do not reach 100 Gbit/s at 120 ms", 2, 32, 100, 120, high=hundred)
    few = tuple(count for count in STREAMS if count < 100)
    for rtt in (5.0, 40.0, 120.0):
        text = f"four origins reach 100 Gbit/s at {plain(rtt)} ms, with fewer than 100 streams"
        yield Fact(5, text, 4, 64, 100, rtt, low=hundred, streams=few)
    flat = "more streams do no harm to a full path, at 5 ms"
    yield Fact(5, flat, 4, 64, 100, 5, low=1 - MARGIN, of="last over most")
    yield Fact(6, "128 cores do not reach 200 Gbit/s on a path of 200", 8, 128, 200, 5, high=most)
    yield Fact(7, "128 cores reach 200 Gbit/s on a path of 400", 8, 128, 400, 5, low=most)
    many = (*STREAMS, 300, 400, 500)
    yield Fact(8, "one server has about 260 Gbit/s at 0 ms", 8, 128, 400, 0, 260, 260, streams=many)


STATED = tuple(_stated())
"""Statements of chep2024's text on figures 2 to 8; unstated RTTs and origins are those of the sweeps."""


def of_curves(summary: xr.Dataset) -> tuple[Fact, ...]:
    """Return points of digitised curves (`config/imports/chep2024-curves.yaml`) as facts."""
    rows = observations(summary)
    rows = rows[rows["reason"] == ""]
    return tuple(
        Fact(
            int(row["figure"]),
            f"curves on a path of {plain(row['bandwidth'])} Gbit/s",
            *(int(row["origins"]), row["cores"], row["bandwidth"], row["rtt"]),
            *(row["throughput"], row["throughput"]),
            streams=(int(row["streams"]),),
        )
        for row in rows.to_dict("records")
    )


Predictor = Callable[[pd.DataFrame], Array]
"""Function that returns Gbit/s as (sets, cells) for cells with the columns of `ModelCells`."""


def simulation(physics: Physics, queues: str) -> Predictor:
    """Return the simulation's fixed point, with sets from the parameters' ranges or wider ones in BLIND."""
    wider = {
        name: Estimate(value=value, low=low, high=high, unit=getattr(physics, name).unit, source="blind")
        for name, (value, low, high) in BLIND.items()
    }
    sets = random_sets(physics.model_copy(update=wider), DRAWS)
    return lambda cells: solve(_columns(cells), sets, queues)[0]


def combined() -> Predictor:
    """Return the model `combined`, with sets from RANGES."""
    model, generator = MODELS["combined"], np.random.default_rng(SEED)
    sets: dict[str, Any] = {}  # arrays, one for each number that the model uses
    for parameter in model.parameters:
        neutral = parameter.guess if parameter.neutral is None else parameter.neutral
        low, high = RANGES.get(parameter.name, (neutral, neutral))
        sets[parameter.name] = low * (high / low if low else 1.0) ** generator.uniform(size=(DRAWS, 1))
    return lambda cells: model({name: cells[name].to_numpy(float) for name in model.axes}, sets)


def full_path(cells: pd.DataFrame) -> Array:
    """Predict a full path except headers, without other knowledge."""
    columns = _columns(cells)
    return np.atleast_2d(columns.bandwidth * payload_on_path(columns, {"framing": np.array(38.0)}))


def predictors() -> dict[str, Predictor]:
    """Return the simulation as its testbed ships, `combined`, and a full path."""
    study = {"sweep": "config/published/chep2024_fig5.yaml", "testbed": "simulation"}
    testbed = load(study, Path(__file__).parents[2]).testbed
    assert isinstance(testbed, Simulation)
    by_simulation = simulation(testbed.parameters, testbed.queues)
    return {"simulation": by_simulation, "combined": combined(), "a full path": full_path}


def table(facts: Sequence[Fact], predictors: Mapping[str, Predictor]) -> pd.DataFrame:
    """Return one row for each predicted panel and predictor; a panel has the facts of a text in a figure.

    Columns: `figure`, `stated`, `by`, `points` (facts of the panel), `sets` (number kept) and `agreed` (number that
    agree with every fact of the first figures); `median`, `low` and `high` of the kept sets, for a panel of one point;
    `error`, the decimal logarithm of the median over the fact or its missed end (median magnitude for several points);
    `right`, the share of points with which kept sets agree, and `before`, with which all sets agree.
    """
    cells, ends = _cells(facts)
    rows = []
    for by, predictor in predictors.items():
        curves = np.split(predictor(cells), ends, axis=1)
        pairs = [(fact, _figure(fact, curve)) for fact, curve in zip(facts, curves, strict=True)]
        misfit = np.mean([np.abs(fact.off(value)) for fact, value in pairs if fact.figure in FITTED], axis=0)
        kept = misfit <= np.quantile(misfit, KEPT)
        panels: dict[tuple[int, str], list[tuple[Fact, Array]]] = {}
        for fact, value in pairs:
            if fact.figure not in FITTED:
                panels.setdefault((fact.figure, fact.text), []).append((fact, value))
        for (figure, text), panel in panels.items():
            agree = np.mean([fact.agrees(value) for fact, value in panel], axis=0)
            errors = [float(fact.off(np.median(value[kept]))) for fact, value in panel]
            alone = len(panel) == 1
            said = panel[0][1][kept] if alone else np.array([np.nan])
            low, median, high = np.quantile(said, [TAIL, 0.5, 1 - TAIL])
            rows.append(
                {
                    "figure": figure,
                    "stated": text,
                    "by": by,
                    "points": len(panel),
                    "sets": int(kept.sum()),
                    "agreed": int((misfit == 0).sum()),
                    "median": median,
                    "low": low,
                    "high": high,
                    "error": errors[0] if alone else float(np.median(np.abs(errors))),
                    "right": agree[kept].mean(),
                    "before": agree.mean(),
                }
            )
    return pd.DataFrame(rows)


def _figure(fact: Fact, curve: Array) -> Array:
    most = curve.max(axis=1)
    return most if fact.of == "most" else np.asarray(curve[:, -1] / most)


def _cells(facts: Sequence[Fact]) -> tuple[pd.DataFrame, list[int]]:
    """Return the concatenated cells of all facts, and the start indices of all facts except the first."""
    axes = ("origins", "cores", "rtt", "bandwidth")
    rows = [
        {"streams": streams, **{name: getattr(fact, name) for name in axes}}
        for fact in facts
        for streams in fact.streams
    ]
    fixed: dict[str, Any] = {"queue_limit": np.inf, "mtu": 9000, "tcp_buffer": 1e9, "file_size": 4e9}
    fixed |= {"tcp_streams": 1, "loss": 0.0, "endpoint": "redirector", "tool": "gfal-copy"}
    fixed |= {"layer": "memory_to_memory", "encryption": "usual"}
    ends = np.cumsum([len(fact.streams) for fact in facts])[:-1]
    return pd.DataFrame(rows).assign(**fixed), ends.tolist()


def _columns(cells: pd.DataFrame) -> ModelCells:
    return ModelCells.from_columns({name: cells[name].to_numpy() for name in cells})
