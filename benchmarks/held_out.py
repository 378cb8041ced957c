# SPDX-License-Identifier: Apache-2.0
"""Statistical guarantees on unseen data: comparisons of equal datasets, left-out runs, known laws.

python -m benchmarks.held_out FILE

FILE is the table of the WAN study of 2020. Prints one table. Needs some minutes of one CPU; nothing is measured.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
import yaml
from numpy.typing import NDArray
from tpcsweep.comparing import compare
from tpcsweep.comparing.effects import SAME
from tpcsweep.configuration.imports import Import
from tpcsweep.dataset.labels import about_flags
from tpcsweep.importing.tables import import_table
from tpcsweep.models import MODELS, fit, fit_process, fit_table, observe
from tpcsweep.models.base import with_defaults

from tests.support.coverage import LAWS
from tests.support.made_up import TRUTHS, measured

ROOT = Path(__file__).resolve().parents[1]
PAIRS = 60
NOISE = 0.02
"""Relative noise of single measurements, which their intervals include."""
AXES = {"rtt": [0.0, 5.0, 10.0, 20.0, 50.0, 100.0], "streams": list(range(1, 9))}
EQUALS = {
    "one repetition, luck of 2 %": (1, 0.02, 0.0),
    "one repetition, luck of 5 %": (1, 0.05, 0.0),
    "three repetitions, luck of 2 % each": (3, 0.02, 0.0),
    "three repetitions, luck of 5 % each": (3, 0.05, 0.0),
    "three repetitions that share luck of 2 %": (3, 0.0, 0.02),
}
"""Repetitions, luck of each measurement, and shared luck of a cell's repetitions."""

Row = tuple[str, str]


def equals(repetitions: int, own: float, shared: float, generator: np.random.Generator) -> xr.Dataset:
    """Return 48 equal cells with noise that their intervals include, and luck that they do not."""
    shape = (6, 8, repetitions)
    noise = generator.normal(size=shape) * np.hypot(NOISE, own) + shared * generator.normal(size=(6, 8, 1))
    found = np.exp(noise)
    half = 1.96 * NOISE * found
    dims = (*AXES, "repetition")
    variables = {name: (dims, found + sign * half) for name, sign in SIGNS.items()}
    flags = (dims, np.zeros(shape, np.int32), about_flags())
    coordinates = {**AXES, "repetition": range(1, repetitions + 1)}
    return xr.Dataset({**variables, "flags": flags}, coordinates, {"measurement_confidence": 0.95})


SIGNS = {"throughput": 0, "throughput_low": -1, "throughput_high": 1}


def of_equals() -> Iterator[Row]:
    """Yield the share of comparisons of equals in which a cell, value or the overall effect differs."""
    for name, (repetitions, own, shared) in EQUALS.items():
        generator, different = np.random.default_rng(0), 0
        for _ in range(PAIRS):
            found = compare(*(equals(repetitions, own, shared, generator) for _ in range(2)))
            verdicts = {found.overall.verdict, *found.parts["verdict"], *found.cells["verdict"]}
            different += verdicts != {SAME}
        yield f"equals, {name}: any difference found", f"{100 * different / PAIRS:.0f} %"


def of_runs(file: Path) -> Iterator[Row]:
    """Yield errors of predicting each run of the WAN study from the other two, for cells that these cover."""
    text = (ROOT / "config/imports/nrp-wan-2020.yaml").read_text(encoding="utf-8")
    observations = observe(import_table(Import.model_validate(yaml.safe_load(text)), file, "wan").summary)
    runs = observations.runs
    assert runs is not None
    fitters = {"`rao_ramp`": lambda some: fit(MODELS["rao_ramp"], some, resamples=40)}
    fitters |= {"`gaussian_process`": fit_process, "`table`": fit_table}
    for name, fitter in fitters.items():
        off: list[NDArray[np.float64]] = []
        inside: list[NDArray[np.bool_]] = []
        for run in np.unique(runs):
            model, held = fitter(observations.take(runs != run)), observations.take(runs == run)
            known = ~model.domain.outside(held.frame[list(observations.axes)])
            held = held.take(known)
            answer = model.predict(held.frame[[*model.domain.ranges, *model.domain.words]])
            low, high = (answer[f"throughput_{end}"].to_numpy() for end in ("low", "high"))
            off.append(np.abs(answer["throughput"].to_numpy() / held.throughput - 1))
            inside.append((low <= held.throughput) & (held.throughput <= high))
        share = 100 * np.concatenate(inside).mean()
        yield (
            f"WAN, a run left out, {name}: median error, in 95 % intervals",
            f"{np.median(np.concatenate(off)):.3f}, {share:.0f} %",
        )


def of_laws() -> Iterator[Row]:
    """Yield errors between the cells of a process fitted to known laws with 8 % of noise."""
    for law, axes in LAWS.items():
        values, _, fixed = TRUTHS[law]
        lines = [np.array(sorted(line), float) for line in axes.values()]
        middles = [np.sqrt(line[1:] * np.maximum(line[:-1], 0.5)) for line in lines]
        points = pd.DataFrame(list(itertools.product(*middles)), columns=list(axes))
        truth = MODELS[law](with_defaults(points.assign(**fixed)), values)
        how = {"fixed": fixed, "noise": 0.08, "repetitions": 3}
        off = [
            np.abs(
                fit_process(observe(measured(MODELS[law], values, axes, seed=seed, **how))).estimate(points)
                / truth
                - 1
            ).mean()
            for seed in range(6)
        ]
        yield f"process, law `{law}`: mean error between cells", f"{np.mean(off):.3f}"


def main() -> None:
    print("| estimate | value |\n|---|---|")
    for row in itertools.chain(of_equals(), of_runs(Path(sys.argv[1])), of_laws()):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
