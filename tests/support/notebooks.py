# SPDX-License-Identifier: Apache-2.0
"""Notebooks run in the test's own process, so that tests can replace what these import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat


def executed(file: Path, **parameters: object) -> dict[str, Any]:
    """Run the code of a notebook, which must ship without outputs, and return its names.

    The parameters replace those of the notebook's cell of parameters.
    """
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert "parameters" in code[0].metadata.tags
    space: dict[str, Any] = {}
    exec(code[0].source, space)
    assert parameters.keys() <= space.keys()
    space |= parameters
    for cell in code[1:]:
        exec(cell.source, space)
    return space
