# SPDX-License-Identifier: Apache-2.0
"""Predictions of unseen data: left-out runs and known laws.

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
import yaml
from numpy.typing import NDArray
from tpcsweep.analysis.models.fit import fit
from tpcsweep.analysis.models.formula import with_defaults
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.learned import fit_process, fit_table
from tpcsweep.analysis.models.observations import observe
from tpcsweep.data.importing.import_settings import Import
from tpcsweep.data.importing.table_import import import_table

from tests.support.coverage import LAWS
from tests.support.made_up import TRUTHS, measured

ROOT = Path(__file__).resolve().parents[1]
Row = tuple[str, str]


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
    for row in itertools.chain(of_runs(Path(sys.argv[1])), of_laws()):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
