# SPDX-License-Identifier: Apache-2.0
"""The equation: that it solves the model that it says, that `plan` says the same, and that its page is of it."""

import contextlib
import re
from pathlib import Path as File
from typing import Any

import equation_tables
import numpy as np
import pandas as pd
import pytest
from equation import Needed, Path, needed
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.learned import fit_process
from tpcsweep.analysis.models.observations import observe

from tests.support.notebooks import executed
from tests.support.pictures import hues, pixels

ROOT = File(__file__).parents[2]
CONSTANTS = {
    "base": 0.1, "window": 0.5, "background": 1e-10, "handshakes": 4.0, "redirection": 13.0, "setup": 0.2,
    "per_core": 5.0, "instance": 40.0, "contention": 0.05, "crowding": 2e-3, "coherency": 1e-3, "client": 50.0,
    "efficiency": 0.97, "sharpness": 4.0,
}  # fmt: skip


def throughput(found: Needed, path: Path, streams: int | None = None) -> float:
    """What the model `combined` says of a setting."""
    values: dict[str, Any] = vars(path) | vars(found) | {"tcp_streams": 1, "loss": 0}
    values |= {"streams": streams or found.streams}
    points = {name: np.array([value], float) for name, value in values.items()}
    return float(MODELS["combined"](points, CONSTANTS)[0])


@given(
    target=st.floats(0.05, 0.9),
    rtt=st.floats(1, 150),
    buffer=st.sampled_from([None, 2**20, 2**26]),
    origins=st.sampled_from([1, 2, 4]),
)
def test_the_model_agrees(target: float, rtt: float, buffer: float | None, origins: int) -> None:
    path = Path(rtt, 1.0, 2**28, tcp_buffer=buffer)
    found = needed(target, path, CONSTANTS, origins)
    # Whole streams are a little more than is needed; what they ask for beyond the servers costs by the contention.
    assert 0.99 * target <= throughput(found, path) <= 1.3 * target
    if found.streams > 1:
        assert throughput(found, path, found.streams - 1) < 1.01 * target


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("equation")
    with contextlib.chdir(ROOT / "studies/equation"):
        return executed(File("equation.ipynb"), folder=str(folder), resamples=3)


def test_the_notebook_writes_tables_and_a_figure(notebook: dict[str, Any]) -> None:
    for name, rows in {"constants": len(CONSTANTS), "plan": 16, "scale": 7}.items():
        assert len(pd.read_csv(notebook["folder"] / f"{name}.csv")) == rows
    assert hues(pixels(notebook["folder"] / "equation.png")) > 0


def test_plan_says_nearly_the_same(notebook: dict[str, Any]) -> None:
    fitted, table = notebook["fitted"], notebook["planned"].query("`target (Gbit/s)` >= 0.4")
    assert len(table) == 12
    planned = [*zip(table["streams by plan"], table["streams"], strict=True)]
    process = fit_process(observe(notebook["summary"]))  # the model that the command `plan` asks
    for target, rtt in ((0.6, 2.0), (0.6, 100.0)):  # 0.4 needs fewer cores than any cell has
        found = needed(target, equation_tables.path_of(rtt, fitted), fitted.values, 1)
        planned.append((equation_tables.planned_streams(process, target, rtt, found), found.streams))
    for by_plan, streams in planned:
        assert abs(by_plan - streams) <= max(1, 0.25 * streams)


def test_the_page_has_what_the_equation_says(notebook: dict[str, Any]) -> None:
    text = (ROOT / "studies/equation/README.md").read_text()
    rows = re.findall(r"^\| (\d+) Gbit/s \| (\d+) ms \| (\d+) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    columns = ["target (Gbit/s)", "RTT (ms)", "cores", "origins", "streams"]
    assert np.array(rows, float) == pytest.approx(notebook["scale"][columns].to_numpy(), rel=0.1)
    for name in ("window", "redirection", "per_core", "efficiency", "sharpness"):
        [value] = re.findall(rf"^\| `{name}` \|.*?\| ([\d.]+)[^|]*\|", text, re.MULTILINE)
        assert float(value) == pytest.approx(notebook["fitted"].values[name], rel=0.02)
