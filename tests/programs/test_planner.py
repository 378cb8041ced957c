# SPDX-License-Identifier: Apache-2.0
"""The planner of command and page on a quiet demo in which one cell stalled: no answer is below the data."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tpcsweep.analysis.models import fit, formulas, saved_fits
from tpcsweep.analysis.models import saved_fits as models
from tpcsweep.analysis.page_sections import SECTIONS
from tpcsweep.data import folding, opening
from tpcsweep.pages import making

from tests.support.browser import Visit, visiting
from tests.support.commands import tpcsweep
from tests.support.synthetic import with_ends, write_sweep

AXES = {"origins": [1, 2], "cores": [0.15, 0.6], "rtt": [5.0, 50.0], "streams": [1, 2, 4], "repetition": [1]}
FAR = [0.118, 0.237, 0.471]
RATES = [[[0.731, 0.941, 0.953], FAR], [[0.735, 0.978, 0.992], FAR]]
"""Gbit/s by cores, RTT and streams."""
HALF = 0.0127  # share of a cell's throughput that its interval extends to each side
ANSWERS = {
    (0.4, 50): (0.15, 1, 4),
    (0.9, 5): (0.15, 1, 4),
    (0.93, 5): (0.6, 1, 2),
    (0.3, 20): (0.15, 1, 2),
    (0.6, 5): (0.15, 1, 1),
}
"""Cores, origins and streams of the answer, by target in Gbit/s and RTT in ms; only 20 ms is between measured RTTs."""
ASK = """([target, rtt]) => {
  const form = document.getElementById("plan");
  form.elements.target.value = target;
  form.elements.rtt.value = rtt;
  form.dispatchEvent(new Event("input"));
  return document.getElementById("planned").textContent;
}"""
ANSWER = re.compile(
    r"streams (\d+), cores ([\d.]+), origins (\d+) at RTT [\d.]+ ms: ([\d.]+) Gbit/s is reached .*"
    r"expected ([\d.]+)\.$"
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of results with cells, fits of a few formulas, and the page."""
    folder = tmp_path_factory.mktemp("results")
    file = folder / "demo/dataset.nc"
    folded = folding.fold(write_sweep(folder, AXES), AXES)
    cells = folded.summary["throughput"]
    rates = np.broadcast_to(np.array(RATES)[None, ..., None], cells.shape).copy()
    rates[1] *= np.random.default_rng(2).normal(1, 0.004, rates[1].shape)
    rates[1, 1, 1, 0] *= 0.01
    for name, values in with_ends(rates, HALF * rates).items():
        folded.summary[name] = (cells.dims, values)
    folding.write(folded, file)
    few = {name: formulas.MODELS[name] for name in ("window", "usl", "combined", "constant")}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(models, "MODELS", few)
        patched.setattr(models, "fit", partial(fit.fit, resamples=5))
        saved_fits.fit_all(opening.load(file), file.with_name("models.json"))
    making.make_page(file, file.with_name("index.html"), listed=True, analyses=SECTIONS)
    return file.parent


@pytest.fixture(scope="module")
def visit(demo: Path) -> Iterator[Visit]:
    with visiting(demo / "index.html") as visit:
        yield visit


@pytest.mark.parametrize(("target", "rtt"), ANSWERS)
def test_command_and_page_answer_as_the_cells(demo: Path, visit: Visit, target: float, rtt: float) -> None:
    planned = json.loads(tpcsweep("plan", f"{target}Gbit/s", "--rtt", f"{rtt}ms", demo, "--json").stdout)
    assert planned["reached"]
    best = planned["cheapest"]
    assert (best["cores"], best["origins"], best["streams"]) == ANSWERS[target, rtt]
    found = ANSWER.match(visit.run(ASK, [str(target), str(rtt)]))
    assert found is not None
    streams, cores, origins, assured, expected = map(float, found.groups())
    assert (cores, origins, streams) == ANSWERS[target, rtt]
    assert target <= assured < expected < assured / 0.85


def test_the_page_says_no_less_than_any_cell(demo: Path, visit: Visit) -> None:
    cells = opening.load(demo / "dataset.nc")["throughput"]
    for cell in cells.stack(cell=cells.dims).T:
        question = [f"{0.93 * float(cell):.3g}", f"{float(cell['rtt']):g}"]
        found = ANSWER.match(visit.run(ASK, question))
        assert found is not None, question
        assert float(found[2]) <= 1.25 * float(cell["cores"]), question
