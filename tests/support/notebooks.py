# SPDX-License-Identifier: Apache-2.0
"""Notebooks run in the test's own process, so that tests can replace what these import."""

import contextlib
import io
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from matplotlib.figure import Figure


def code_of(notebook: Path) -> list[str]:
    """Return the code of a notebook; it is valid, has parameters and no outputs."""
    content = nbformat.read(notebook, as_version=4)
    nbformat.validate(content)
    code = [cell for cell in content.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert "parameters" in code[0].metadata.tags
    return [cell.source for cell in code]


def executed(notebook: Path, root: Path | None = None, /, **parameters: object) -> dict[str, Any]:
    """Run the code of a notebook, and return its names.

    The parameters replace those of the notebook's cell of parameters. With a root the notebook runs in its folder
    `notebooks`, where the default paths of the shipped notebooks point to.
    """
    first, *others = code_of(notebook)
    folder = Path.cwd() if root is None else root / "notebooks"
    folder.mkdir(exist_ok=True)
    space: dict[str, Any] = {}
    with contextlib.chdir(folder):
        exec(first, space)
        assert parameters.keys() <= space.keys()
        space |= parameters
        for source in others:
            exec(source, space)
    return space


def parameters(notebook: Path) -> set[str]:
    space: dict[str, Any] = {}
    exec(code_of(notebook)[0], space)
    return {name for name in space if not name.startswith("_")}


def run_here(notebook: Path, output: Path, values: Mapping[str, object]) -> None:
    """Run a notebook as `run_notebook` does, but without a kernel; the file at `output` has no outputs."""
    with contextlib.redirect_stdout(io.StringIO()):  # a kernel's is not that of the command
        executed(notebook, **{name: value for name, value in values.items() if name in parameters(notebook)})
    shutil.copy(notebook, output)


def sketched(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as `panels.save` does, but coarsely, without a layout, and as PNG alone."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.set_layout_engine("none")
    figure.savefig(folder / f"{name}.png", dpi=40)
