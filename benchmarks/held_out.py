# SPDX-License-Identifier: Apache-2.0
"""How well intervals, comparisons, predictions and plans cover data that they have not seen.

python -m benchmarks.held_out [FILE]

FILE is the table of the WAN study of 2020. Prints tables, in at most 15 minutes of two idle CPUs. Nothing is measured.
`benchmarks.steadiness`, `benchmarks.between_runs` and `benchmarks.plans` print more of each subject.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
import yaml
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tpcsweep.analysis.models.fit import fit
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.learned import LEARNED
from tpcsweep.analysis.models.observations import Observations, observe
from tpcsweep.analysis.models.predictor import Predictor
from tpcsweep.data.importing.import_settings import Import
from tpcsweep.data.importing.table_import import import_table
from tpcsweep.measuring.steady import analyse

from benchmarks import between_runs
from benchmarks.series import FAMILIES, KINDS, drawn
from benchmarks.steadiness import LONGEST, judged, late
from tests.support import coverage, plans

ROOT = Path(__file__).resolve().parents[1]
SEEDS = range(20, 26)
PLAN_SEEDS = range(20, 22)
LEFT_OUT = 0.25
"""Share of the deployments that is left out."""
SURFACE = "`nine_sizes.nc`"
LENGTHS = (11, 18, 60)
"""Lengths of synthetic cells, s."""
CELLS = 96
"""Synthetic cells of each series and length: four sweeps of the demo's grid."""
SHARED = (0.0, 0.01, 0.02)
"""Luck that all cells of a run share."""

Row = Sequence[object]
Fitter = Callable[[Observations], Predictor]
FITTERS: dict[str, Fitter] = {"rao_ramp": partial(fit, MODELS["rao_ramp"], resamples=40), **LEARNED}


def of_intervals(pool: Executor) -> Iterator[Row]:
    """Yield the coverage of all cells and of unflagged ones with their share, by kind of noise, and of an early end."""
    for kind, names in KINDS.items():
        row = []
        for length in LENGTHS:
            held, clean = map(np.concatenate, zip(*pool.map(partial(of_length, length), names), strict=True))
            row += [percent(held.mean()), of_share(held, clean)]
        row.append(percent(np.concatenate([*pool.map(of_early_end, names)]).mean()))
        yield kind, *row


def of_length(length: int, name: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return judged(name, analyse, length, CELLS)[1:]


def of_early_end(name: str) -> NDArray[np.bool_]:
    draw, truth = FAMILIES[name]
    cells = drawn(draw, np.random.default_rng(1), CELLS // 2, LONGEST)
    found = [late(analyse, cell)[0] for cell in cells]
    return np.array([one.low <= truth <= one.high for one in found])


def of_share(held: NDArray[np.bool_], clean: NDArray[np.bool_]) -> str:
    return f"{percent(held[clean].mean()) if clean.any() else '–'} of {percent(clean.mean())}"


def of_equals(pool: Executor) -> Iterator[Row]:
    """Yield how often two equal sides differ in any verdict, and how often the overall interval holds 1."""
    sides = [*itertools.product(SHARED, (1, 2, 3))]
    seeds = [[1, runs, round(1000 * shared)] for shared, runs in sides]
    for side, found in zip(
        sides, pool.map(between_runs.equals, seeds, *zip(*sides, strict=True)), strict=True
    ):
        yield f"{100 * side[0]:g} %", side[1], *found


def predicted(model: Predictor, held: Observations) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the relative error of each left-out measurement, and whether it is in its 95 % interval."""
    answer = model.predict(held.frame[[*model.domain.ranges, *model.domain.words]])
    low, high = (answer[f"throughput_{end}"].to_numpy() for end in ("low", "high"))
    off = np.abs(answer["throughput"].to_numpy() / held.throughput - 1)
    return off, (low <= held.throughput) & (held.throughput <= high)


def of_left_out(pool: Executor) -> Iterator[Row]:
    """Yield errors and coverage for left-out deployments of hidden laws with 3 % of stalls, and of the surface."""
    for data, name in itertools.product([*plans.EVERY, SURFACE], LEARNED):
        off, inside = zip(*pool.map(partial(left_out, data, name), SEEDS), strict=True)
        middle = np.mean([np.median(one) for one in off])
        yield data, f"`{name}`", f"{middle:.3f}", percent(np.concatenate(inside).mean())


def left_out(data: str, name: str, seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return `predicted` for a quarter of the deployments, predicted from the others."""
    ds = (
        xr.load_dataset(ROOT / "studies/equation/nine_sizes.nc")
        if data == SURFACE
        else plans.made_up(data, plans.MEDIUM, plans.Luck(), seed)
    )
    observations = observe(ds)
    deployments = observations.frame["deployment"].unique()
    chosen = np.random.default_rng(seed).permutation(deployments)[: round(LEFT_OUT * len(deployments))]
    out = observations.frame["deployment"].isin(chosen).to_numpy()
    with threadpool_limits(1):
        return predicted(LEARNED[name](observations.take(~out)), observations.take(out))


def of_repeated(pool: Executor) -> Iterator[Row]:
    """Yield the coverage of one more measurement of measured cells, and of those in another run, by law."""
    for law, name in itertools.product(coverage.LAWS, (None, "gaussian_process")):
        fitter = partial(fit, MODELS[law], resamples=40) if name is None else LEARNED[name]
        shares = [
            np.mean([*pool.map(partial(world, law, fitter), SEEDS)])
            for world in (coverage.of_same, coverage.of_new_run)
        ]
        yield f"`{law}`", "the law" if name is None else f"`{name}`", *map(percent, shares)


def of_runs(file: Path, _pool: Executor) -> Iterator[Row]:
    """Yield errors of predicting each run of the WAN study from the other two, for cells that these cover."""
    text = (ROOT / "config/imports/nrp-wan-2020.yaml").read_text(encoding="utf-8")
    observations = observe(import_table(Import.model_validate(yaml.safe_load(text)), file, "wan").summary)
    runs = observations.runs
    assert runs is not None
    for name, fitter in FITTERS.items():
        found = []
        for run in np.unique(runs):
            model, held = fitter(observations.take(runs != run)), observations.take(runs == run)
            known = ~model.domain.outside(held.frame[list(observations.axes)])
            found.append(predicted(model, held.take(known)))
        off, inside = map(np.concatenate, zip(*found, strict=True))
        yield f"`{name}`", f"{np.median(off):.3f}", percent(inside.mean())


def of_plans(pool: Executor) -> Iterator[Row]:
    """Yield how often plans answer and suffice, on hidden laws over 96 cells, between measured RTTs too."""
    for name, laws in (("five laws", plans.LAWS), ("four unseen laws", plans.UNSEEN)):
        asked = pool.map(planned, *zip(*itertools.product(laws, PLAN_SEEDS), strict=True))
        rows = plans.judged(pd.concat(asked, ignore_index=True))
        for stated, some in rows.groupby("stated"):
            shares = (some["answered"].mean(), some["sufficient"].mean(), some["cheap"].fillna(0).mean())
            yield name, percent(stated), len(some), *map(percent, shares)


def planned(law: str, seed: int) -> pd.DataFrame:
    return pd.DataFrame(plans.on_law(law, plans.MEDIUM, plans.Luck(), seed))


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def main() -> None:
    tables: dict[tuple[str, ...], Callable[[Executor], Iterator[Row]]] = {
        (
            "intervals of cells",
            *(f"{length} s{which}" for length in LENGTHS for which in ("", ", unflagged")),
            f"early end, {LONGEST} s at most",
        ): of_intervals,
        ("luck that runs share", "runs a side", "equals called different", "interval holds 1"): of_equals,
        ("a quarter of the deployments left out", "model", "median error", "in 95 % intervals"): of_left_out,
        ("law", "model", "one more measurement, in 95 % intervals", "the same in another run"): of_repeated,
        (
            "plans, 96 cells",
            "stated",
            "questions",
            "answered",
            "sufficient",
            "at most 25 % more cores",
        ): of_plans,
    }
    if sys.argv[1:]:
        tables["WAN, a run left out", "median error", "in 95 % intervals"] = partial(
            of_runs, Path(sys.argv[1])
        )
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for columns, rows in tables.items():
            print(f"\n| {' | '.join(columns)} |\n|{len(columns) * '---|'}")
            for row in rows(pool):
                print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
