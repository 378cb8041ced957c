# SPDX-License-Identifier: Apache-2.0
"""Notebooks are run by kernels of their own, however many of them run at once."""

import multiprocessing
import os
from pathlib import Path

import nbformat
import pytest
from tpcsweep.running import notebooks

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


def test_notebooks_that_run_at_once_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    notebooks.run_notebook(
        folder / "one.ipynb", tmp_path / "done.ipynb", {"base": "mine:cores=1", "unknown": 2}
    )
    assert dict(os.environ) == before
    *_, last = nbformat.read(tmp_path / "done.ipynb", as_version=4).cells
    assert last.outputs[0].text == "mine:cores=1 1 42\n"
