"""Simulated datasets under the random parameter sets of their testbed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.configuration.physics import UNITS
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.dataset import SIMULATED, STATUS
from tpcsweep.testbeds.simulation.model import (
    WORDS,
    Cells,
    drawn,
    instance_cores,
    solve,
    used_origins,
    worded,
)


def datasets(summary: xr.Dataset) -> Iterator[xr.Dataset]:
    """A simulated dataset under each of its testbed's random parameter sets: what claims are judged on, set by set.

    Throughput and CPU are those of the fixed point; the interval is the throughput alone.

    Raises:
        ValueError: for what is no simulated dataset, and for one of several testbeds' parameters.
    """
    settings = settings_of(summary)
    cells, shape = columns_of(summary), summary["throughput"].shape
    sets = drawn(settings.parameters, settings.draws)
    there = (summary["status"] == STATUS.index("ok")).values
    for number in range(settings.draws):
        p = {name: value[number, 0] if np.ndim(value) else value for name, value in sets.items()}
        throughput, at = solve(cells, p, settings.queues)
        cores = used_origins(cells) * instance_cores(cells, p)
        found = {
            "throughput": throughput,
            **{
                f"{side}_cpu": cores * np.minimum(throughput / at.ceilings[f"cpu_{side}"], 1)
                for side in ("source", "destination")
            },
        }
        found |= {f"throughput_{end}": throughput for end in ("low", "high")}
        over = summary["throughput"].dims
        yield summary.assign(
            {name: (over, np.where(there, values.reshape(shape), np.nan)) for name, values in found.items()}
        )


def settings_of(summary: xr.Dataset) -> Simulation:
    """The testbed that a dataset was simulated on, as its cells tell. Raises ValueError."""
    if summary.attrs.get("testbed_kind") != SIMULATED:
        raise ValueError("not a simulated dataset: it has no parameter sets")
    told = {orjson.dumps(orjson.loads(str(one))["simulation"]) for one in summary["provenance_record"].values}
    if len(told) != 1:
        raise ValueError(f"cells of {len(told)} sets of parameters: run snakemake again on one testbed")
    settings = orjson.loads(told.pop())
    of_dataset, of_model = set(settings["parameters"]), set(UNITS)
    if of_dataset != of_model:
        both = (("unknown", of_dataset - of_model), ("missing", of_model - of_dataset))
        named = "; ".join(f"{what}: {', '.join(sorted(names))}" for what, names in both if names)
        raise ValueError(f"simulated by another version of the model (parameters {named}): simulate it again")
    settings["parameters"] = {
        name: {"value": value, "low": low, "high": high, "unit": UNITS[name], "source": "as the dataset says"}
        for name, (value, low, high) in settings["parameters"].items()
    }
    return Simulation.model_validate({"kind": SIMULATED, **settings})


def columns_of(summary: xr.Dataset) -> Cells:
    """The parameters of a dataset's cells, flattened in the order of its dimensions."""

    def column(name: str) -> NDArray[Any]:
        values: NDArray[Any] = summary[name].broadcast_like(summary["throughput"]).values.ravel()
        return values

    numbers = [column(name).astype(float) for name in Cells._fields if name in summary.coords]
    return Cells(*numbers, *worded(*(column(name) for name in WORDS)))
