# SPDX-License-Identifier: Apache-2.0
"""Made-up histories: a folded sweep measured every week, with noise from run to run and whatever changes."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import xarray as xr
from tpcsweep.analysis.history.runs import Run, read_run
from tpcsweep.data import folding
from tpcsweep.sweeps.parameters import Value

from tests.support.synthetic import write_sweep

AXES: dict[str, Sequence[Value]] = {"rtt": [5.0, 50.0], "streams": [1, 2, 4], "repetition": [1]}
CELLS = 6
FIRST = datetime(2026, 1, 4, 3, tzinfo=UTC)
NOISE = 0.03  # from run to run, as a share


def folded(folder: Path, **what: object) -> xr.Dataset:
    """A sweep as its file has it: see `write_sweep`."""
    made = folding.fold(write_sweep(folder, AXES, **what), AXES)
    folding.write(made, folder / "dataset.nc")
    summary = xr.load_dataset(folder / "dataset.nc")
    # Of the made-up cells no client is known; texts may become longer.
    summary["client_cpu"] = summary["client_cpu"].fillna(0.1)
    return summary.assign(message=summary["message"].astype(object))


def week(number: int) -> datetime:
    return FIRST + timedelta(weeks=number)


def weekly(
    once: xr.Dataset, count: int, change: Callable[[int, xr.Dataset], xr.Dataset] | None = None, seed: int = 0
) -> list[xr.Dataset]:
    """A sweep in so many weeks; `change` gives what a week's is instead, by the week's number."""
    generator, runs = np.random.default_rng(seed), []
    for number in range(count):
        summary = times(once.copy(deep=True), np.exp(NOISE * generator.normal(size=once.throughput.shape)))
        summary["started"] = summary["started"] + np.timedelta64(7 * number, "D")
        summary = summary.assign_attrs(measured_until=f"{week(number):%Y-%m-%dT%H:%M:%SZ}")
        runs.append(change(number, summary) if change else summary)
    return runs


def times(summary: xr.Dataset, factor: object) -> xr.Dataset:
    figures = ("throughput", "throughput_low", "throughput_high")
    return summary.assign({name: summary[name].copy(data=summary[name].values * factor) for name in figures})


def with_software(summary: xr.Dataset, **versions: str) -> xr.Dataset:
    records = [json.loads(record) for record in summary["provenance_record"].values.tolist()]
    for record in records:
        record["software"] |= versions
    return summary.assign(provenance_record=("record", [json.dumps(record) for record in records]))


def runs_of(datasets: Sequence[xr.Dataset]) -> list[Run]:
    return [read_run(f"{number}.nc", summary) for number, summary in enumerate(datasets)]
