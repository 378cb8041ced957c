# SPDX-License-Identifier: Apache-2.0
"""Prediction errors of all models on unseen data; `benchmarks.held_out` has the coverage of intervals.

python -m benchmarks.models wan FILE        a run of the WAN study of 2020, from its other two
python -m benchmarks.models usl             a synthetic surface that rises and falls, without intervals
python -m benchmarks.models scores DATASET  left-out cells, like `snakemake`

FILE is the study's table. Nothing is measured.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
import yaml
from numpy.typing import NDArray
from tpcsweep.analysis.models.choice import choose
from tpcsweep.analysis.models.fit import fit
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.learned import LEARNED
from tpcsweep.analysis.models.observations import Observations, observe
from tpcsweep.analysis.models.predictor import Predictor
from tpcsweep.data.importing.import_settings import Import
from tpcsweep.data.importing.table_import import import_table

ROOT = Path(__file__).resolve().parents[1]
Fitter = Callable[[Observations], Predictor]


def fitters() -> Iterator[tuple[str, Fitter]]:
    """Yield all models and learned predictors, by name."""
    for name, model in MODELS.items():
        yield name, partial(fit, model)
    yield from LEARNED.items()


def wan(file: str) -> None:
    """Leave out each run in turn; NaN if a model could not be fitted."""
    settings = Import.model_validate(
        yaml.safe_load((ROOT / "config/imports/nrp-wan-2020.yaml").read_text(encoding="utf-8"))
    )

    def rows(condition: str) -> Observations:
        chosen = settings.model_copy(update={"where": condition})
        return observe(import_table(chosen, Path(file), "wan").summary)

    print("| left out | by | median error | in the 95 % interval |\n|---|---|---|---|")
    for run in (1, 2, 3):
        others, held = rows(f"run != {run}"), rows(f"run == {run}")
        known = held.frame["streams"].isin(others.frame["streams"]).to_numpy()
        parts = {"": np.full(len(held), True)} | (
            {} if known.all() else {", streams as in the others": known}
        )
        for name, fitter in fitters():
            found = fitter(others)
            for part, chosen in parts.items():
                about = f"run {run}{part}, {chosen.sum()} rows"
                show(about, name, found, held.frame[chosen], held.throughput[chosen])


def usl() -> None:
    """Fit to a surface with three repetitions and 5 % noise, and predict at its points and between them."""
    values = {
        "rate": 0.5,
        "streams_contention": 0.1,
        "streams_coherency": 2e-3,
        "cores_contention": 0.05,
        "cores_coherency": 5e-3,
    }
    streams, cores = np.array([1, 2, 4, 8, 16, 32, 64]), np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    frame = grid(streams, cores)
    between = grid(np.array([3, 6, 12, 24, 48]), np.sqrt(cores[1:] * cores[:-1]))
    others = {"origins_contention": 0.0, "origins_coherency": 1e-9}

    def truth(points: pd.DataFrame) -> NDArray[np.float64]:
        columns = {name: points[name].to_numpy(float) for name in ("streams", "cores")}
        fixed = {"tcp_streams": np.ones(len(points)), "origins": np.ones(len(points))}
        return MODELS["usl"](columns | fixed, values | others)

    noise = 1 + 0.05 * np.random.default_rng(0).standard_normal((3, len(frame)))
    throughput = (truth(frame) * noise).reshape(3, len(streams), len(cores))
    dims = ("repetition", "streams", "cores")
    coordinates = {"repetition": [1, 2, 3], "streams": streams, "cores": cores}
    observations = observe(
        xr.Dataset({"throughput": (dims, throughput)}, coordinates).transpose(*dims[1:], dims[0])
    )
    print("| asked | by | median error | in the 95 % interval |\n|---|---|---|---|")
    for name, fitter in fitters():
        found = fitter(observations)
        for where, points in (("measured", frame), ("between", between)):
            again = truth(points) * (1 + 0.05 * np.random.default_rng(1).standard_normal(len(points)))
            show(where, name, found, points, again)
    print(f"\nbest: {choose(MODELS, observations, {}).best}")


def grid(streams: NDArray[np.int64], cores: NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame(list(itertools.product(streams, cores)), columns=["streams", "cores"])


def show(
    about: str, name: str, found: Predictor, points: pd.DataFrame, measured: NDArray[np.float64]
) -> None:
    """Print the prediction error and the share of measurements in their intervals."""
    axes = [*found.domain.ranges, *found.domain.words]
    answer = found.predict(points[axes])
    off = np.abs(answer["throughput"].to_numpy() / measured - 1)
    inside = (measured >= answer["throughput_low"]) & (measured <= answer["throughput_high"])
    print(f"| {about} | `{name}` | {np.median(off):.3f} | {100 * float(inside.mean()):.0f} % |", flush=True)


def scores(path: str) -> None:
    observations = observe(xr.load_dataset(path))
    found = choose(MODELS, observations, {})
    print(f"{path}: {len(observations)} rows\n\n| model | score | tied | skill |\n|---|---|---|---|")
    for row in found.scores.to_dict("records"):
        tied = "yes" if row["tied"] else ""
        print(f"| `{row['model']}` | {row['score']:.4g} | {tied} | {row['skill']:.2f} |")
    print(f"\nbest: {found.best}", *found.problems, sep="\n")


def main() -> None:
    commands = {"wan": wan, "usl": usl, "scores": scores}
    name, *rest = sys.argv[1:]
    commands[name](*rest)


if __name__ == "__main__":
    main()
