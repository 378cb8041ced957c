# SPDX-License-Identifier: Apache-2.0
"""The notebooks that show figures of a sweep, each run on its own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import pytest
from tpcsweep import dataset
from tpcsweep.configuration.parameters import Value
from tpcsweep.configuration.sweep import Notebooks

from tests.support import synthetic
from tests.support.notebooks import code_of, executed
from tests.support.pictures import hues, pixels
from tests.support.workflow import ROOT

Axes = Mapping[str, Sequence[Value]]
FOUR: Axes = {"rtt": [5.0, 50.0], "streams": [1, 2], "repetition": [1]}


def test_every_notebook_that_sweeps_may_ask_for_is_there_and_takes_its_places() -> None:
    for name, field in Notebooks.model_fields.items():
        code = code_of(ROOT / f"notebooks/{name}.ipynb")
        (model,) = (kind for kind in get_args(field.annotation) if kind is not type(None))
        space: dict[str, Any] = {}
        exec(code[0], space)
        given = {key for key in space if not key.startswith("_")}
        assert given == {"dataset", "figures", *model.model_fields}
    assert code_of(ROOT / "notebooks/compare.ipynb")


SURFACE = {"throughput_heatmap", "throughput_surface", "throughput_lines", "goodput_series", "cpu"}


@pytest.mark.parametrize(
    ("name", "sweep", "axes", "made"),
    [
        ("surface", "demo", {**FOUR, "streams": [1, 2, 4]}, SURFACE),
        ("limits", "demo", FOUR, {"limits"}),
        ("curves", "netem-limit", {"queue_limit": [1000, None], **FOUR, "rtt": [5.0]}, {"curves"}),
        ("releases", "releases", {"xrootd": ["5.8.1", "5.9.9"], **FOUR, "rtt": [5.0]}, {"releases"}),
    ],
)
def test_notebooks_run_alone(tmp_path: Path, name: str, sweep: str, axes: Axes, made: set[str]) -> None:
    results = tmp_path / "results" / sweep
    files = synthetic.write_sweep(tmp_path / "cells", axes)
    dataset.write(dataset.fold(files, axes), results / "dataset.nc")
    executed(ROOT / f"notebooks/{name}.ipynb", tmp_path)
    found = {path.name for path in (results / "figures").iterdir()}
    tables = {f"{name}.csv"} if name in Notebooks.model_fields else set()
    assert found == {f"{figure}.{end}" for figure in made for end in ("png", "svg")} | tables
    for figure in made:
        shown = pixels(results / f"figures/{figure}.png")
        assert hues(shown) > 0
        # The same picture in another format: as large, and with panels in it.
        drawing = ElementTree.parse(results / f"figures/{figure}.svg").getroot()
        points = [float(drawing.attrib[side].removesuffix("pt")) for side in ("height", "width")]
        assert [point / 72 * 150 for point in points] == pytest.approx(list(shown.shape[:2]), abs=1)
        assert any(one.get("id", "").startswith("axes_") for one in drawing.iter())
