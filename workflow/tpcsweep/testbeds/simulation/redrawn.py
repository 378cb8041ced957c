# SPDX-License-Identifier: Apache-2.0
"""Simulated datasets under the random parameter sets of their testbed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import orjson
import xarray as xr

from tpcsweep.configuration.physics import UNITS
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.dataset import SIMULATED, STATUS
from tpcsweep.testbeds.simulation.model import (
    NUMBERS,
    WORDS,
    Array,
    Cells,
    drawn,
    instance_cores,
    solve,
    used_origins,
)


def datasets(summary: xr.Dataset) -> Iterator[xr.Dataset]:
    """A simulated dataset under each of its testbed's random parameter sets: what claims are judged on, set by set.

    Throughput and CPU are those of the fixed point; the interval is the throughput alone.

    Raises:
        ValueError: for what is no simulated dataset, and for one of several testbeds' parameters.
    """
    settings = settings_of(summary)
    cells, over = columns_of(summary), summary["throughput"]
    ok = (summary["status"] == STATUS.index("ok")).values
    # How a second lies to the mean is a matter of the course, which is the same in all.
    largest = summary.get("throughput_max", xr.zeros_like(over) * np.nan) / over
    sets = drawn(settings.parameters, settings.draws)
    for number in range(settings.draws):
        p = {name: value[number, 0] if np.ndim(value) else value for name, value in sets.items()}
        figures = solved(cells, p, settings.queues)
        figures["throughput_max"] = largest.values.ravel() * figures["throughput"]
        yield summary.assign(
            {
                name: (over.dims, np.where(ok, values.reshape(over.shape), np.nan))
                for name, values in figures.items()
            }
        )


def solved(cells: Cells, p: Mapping[str, Array], queues: str) -> dict[str, Array]:
    """The variables of a dataset that the fixed point gives, each (cells,): throughput without a spread, and CPU."""
    throughput, at = solve(cells, p, queues)
    cores = used_origins(cells) * instance_cores(cells, p)
    return {
        **dict.fromkeys(("throughput", "throughput_low", "throughput_high"), throughput),
        **{
            f"{side}_cpu": cores * np.minimum(throughput / at.ceilings[f"cpu_{side}"], 1)
            for side in ("source", "destination")
        },
    }


def settings_of(summary: xr.Dataset) -> Simulation:
    """The testbed that a dataset was simulated on, as its cells tell. Raises ValueError."""
    if summary.attrs.get("testbed_kind") != SIMULATED:
        raise ValueError("not a simulated dataset: it has no parameter sets")
    records = summary["provenance_record"].values
    known = {orjson.dumps(orjson.loads(str(record))["simulation"]) for record in records}
    if len(known) != 1:
        raise ValueError(f"cells of {len(known)} sets of parameters: run snakemake again on one testbed")
    settings = orjson.loads(known.pop())
    of_dataset, of_model = set(settings["parameters"]), set(UNITS)
    if of_dataset != of_model:
        differences = (("unknown", of_dataset - of_model), ("missing", of_model - of_dataset))
        named = "; ".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in differences if names)
        raise ValueError(f"simulated by another version of the model (parameters {named}): simulate it again")
    settings["parameters"] = {
        name: {"value": value, "low": low, "high": high, "unit": UNITS[name], "source": "as the dataset says"}
        for name, (value, low, high) in settings["parameters"].items()
    }
    return Simulation.model_validate({"kind": SIMULATED, **settings})


def columns_of(summary: xr.Dataset) -> Cells:
    """The parameters of a dataset's cells, flattened in the order of its dimensions."""
    over = summary["throughput"]
    return Cells.of({name: summary[name].broadcast_like(over).values.ravel() for name in (*NUMBERS, *WORDS)})
