# SPDX-License-Identifier: Apache-2.0
"""Notebooks as tests run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.workflow import ROOT


def code_of(name: str) -> list[str]:
    """Return the code of a notebook by its path without suffix; it is valid, has parameters and no outputs."""
    notebook = nbformat.read(ROOT / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert "parameters" in code[0].metadata.tags
    return [cell.source for cell in code]


def executed(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Execute a notebook in the folder `notebooks` of a root, where its default paths point to; return its names."""
    (root / "notebooks").mkdir()
    monkeypatch.chdir(root / "notebooks")
    space: dict[str, Any] = {}
    for source in code_of(name):
        exec(source, space)
    return space
