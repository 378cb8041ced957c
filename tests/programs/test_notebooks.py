# SPDX-License-Identifier: Apache-2.0
"""Notebooks: those that ship, each run on its own, and how they are run."""

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import nbformat
import pytest
from tpcsweep.data import folding
from tpcsweep.running import notebooks
from tpcsweep.sweeps.sweep import Notebooks

from tests.support import hostile, synthetic
from tests.support.notebooks import code_of, executed, parameters
from tests.support.odd import FOUR, Axes
from tests.support.pictures import hues, pixels
from tests.support.workflow import ROOT


def test_every_notebook_that_sweeps_may_ask_for_is_there_and_takes_its_places() -> None:
    for name, field in Notebooks.model_fields.items():
        (model,) = (kind for kind in get_args(field.annotation) if kind is not type(None))
        assert parameters(ROOT / f"notebooks/{name}.ipynb") == {"dataset", "figures", *model.model_fields}
    assert code_of(ROOT / "notebooks/compare.ipynb")


REPEATED: Axes = {"repetition": [1, 2, 3]}
SURFACE = {"throughput_heatmap", "throughput_surface", "throughput_lines", "goodput_series", "cpu"}


@pytest.mark.parametrize(
    ("name", "sweep", "axes", "made"),
    [
        ("surface", "demo", {**FOUR, "rtt": [5.0, 20.0, 50.0], "streams": [1, 2, 4]}, SURFACE),
        ("limits", "demo", FOUR, {"limits"}),
        ("curves", "netem-limit", {"queue_limit": [1000, None], **FOUR, "rtt": [5.0]}, {"curves"}),
        ("releases", "releases", {"xrootd": ["5.8.1", "5.9.9"], **FOUR, "rtt": [5.0]}, {"releases"}),
        (
            "effects",
            "host-tuning@hosts",
            {"tuning": ["stock", "fq"], "streams": [1, 2], **REPEATED},
            {"effects"},
        ),
    ],
)
def test_notebooks_run_alone(tmp_path: Path, name: str, sweep: str, axes: Axes, made: set[str]) -> None:
    results = tmp_path / "results" / sweep
    files = synthetic.write_sweep(tmp_path / "cells", axes)
    folding.write(folding.fold(files, axes), results / "dataset.nc")
    executed(ROOT / f"notebooks/{name}.ipynb", tmp_path)
    found = {path.name for path in (results / "figures").iterdir()}
    tables = {f"{name}.csv"} if name in (*Notebooks.model_fields, "effects") else set()
    assert found == {f"{figure}.{end}" for figure in made for end in ("png", "svg")} | tables
    for figure in made:
        shown = pixels(results / f"figures/{figure}.png")
        assert hues(shown, 1e-4) > 0  # a point is enough
        # The same picture in another format: as large, and with panels in it.
        drawing = ElementTree.parse(results / f"figures/{figure}.svg").getroot()
        points = [float(drawing.attrib[side].removesuffix("pt")) for side in ("height", "width")]
        assert [point / 72 * 150 for point in points] == pytest.approx(list(shown.shape[:2]), abs=1)
        assert any(one.get("id", "").startswith("axes_") for one in drawing.iter())


Patch = pytest.MonkeyPatch
NUMBER = 2
MEET = f"""
import pathlib, time
pathlib.Path("{{number}}.up").touch()
while len(list(pathlib.Path().glob("*.up"))) < {NUMBER}:
    time.sleep(0.01)
print("number {{number}}")
"""
"""What each does: it waits until all of them run."""


def write(file: Path, *codes: str) -> None:
    """Write a notebook, the first cell of which has the parameters."""
    first, *_ = cells = [nbformat.v4.new_code_cell(code) for code in codes]
    first.metadata.tags = ["parameters"]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), file)


def test_notebooks_that_run_at_once_do_not_meet(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    fork, running = multiprocessing.get_context("fork"), []
    for number in range(NUMBER):
        write(tmp_path / f"{number}.ipynb", MEET.format(number=number))
        files = Path(f"{number}.ipynb"), Path(f"{number}.done.ipynb")
        running.append(fork.Process(target=notebooks.run_notebook, args=(*files, {})))
        running[-1].start()
    for number, one in enumerate(running):
        one.join(300)
        assert one.exitcode == 0
        (cell,) = nbformat.read(tmp_path / f"{number}.done.ipynb", as_version=4).cells
        assert cell.outputs[0].text == f"number {number}\n"
    assert not list(tmp_path.glob("kernel-*"))


def test_a_notebook_gets_parameters_and_modules_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    (folder / "beside.py").write_text("NUMBER = 42\n")
    parameters = 'base = "demo:cores=0.15"  # what is compared with\nrest = 1'
    write(folder / "one.ipynb", parameters, "import beside; print(base, rest, beside.NUMBER)")
    before = dict(os.environ)
    given = {"base": "mine:cores=1", "unknown": 2}
    notebooks.run_notebook(folder / "one.ipynb", tmp_path / "done.ipynb", given)
    assert dict(os.environ) == before
    *_, last = nbformat.read(tmp_path / "done.ipynb", as_version=4).cells
    assert last.outputs[0].text == "mine:cores=1 1 42\n"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "raise OSError(28, 'No space left on device', 'a.png')",
            "cell 2: OSError: .* No space left .*a.png",
        ),
        ("import os; os.kill(os.getpid(), 9)", "one.ipynb: its Python process ended or does not answer"),
    ],
)
def test_a_notebook_that_fails_says_why_in_a_line(tmp_path: Path, code: str, told: str) -> None:
    write(tmp_path / "one.ipynb", "1", code)
    with pytest.raises(notebooks.NotebookError, match=told) as raised:
        notebooks.run_notebook(tmp_path / "one.ipynb", tmp_path / "done.ipynb", {})
    assert str(raised.value).count("\n") == 0
    assert not (tmp_path / "done.ipynb").exists()


def test_a_notebook_sees_this_python_and_nothing_of_the_users(tmp_path: Path, monkeypatch: Patch) -> None:
    known = set(os.environ)
    for name, value in hostile.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", os.environ["TMPDIR"])
    show = "import os, sys; print(sys.executable, *(f'{k}={v}' for k, v in os.environ.items()), sep='\\n')"
    write(tmp_path / "one.ipynb", "1", show)
    notebooks.run_notebook(tmp_path / "one.ipynb", tmp_path / "done.ipynb", {})
    notebooks.export_notebook(tmp_path / "done.ipynb", tmp_path / "done.html")
    *_, last = nbformat.read(tmp_path / "done.ipynb", as_version=4).cells
    executable, *seen = last.outputs[0].text.splitlines()
    assert executable == sys.executable
    passed = {"LD_LIBRARY_PATH", "TMPDIR", "PYTHONPATH", *known}
    named = [line for line in seen if any(mark in line for mark in ("of-the-user", str(tmp_path)))]
    assert {line.partition("=")[0] for line in named} <= passed
    assert "<html" in (tmp_path / "done.html").read_text()
