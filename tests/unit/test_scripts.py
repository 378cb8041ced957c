# SPDX-License-Identifier: Apache-2.0
"""What the scripts of rules stand on; they run only inside Snakemake, and some of them for minutes and as root."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

SCRIPTS = sorted(Path("workflow/scripts").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_everything_that_a_script_imports_is_there(script: Path) -> None:
    imports = [
        (node.module, name.name)
        for node in ast.parse(script.read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tpcsweep")
        for name in node.names
    ]
    missing = [f"{module}.{name}" for module, name in imports if not _has(module, name)]
    assert not missing


def _has(module: str, name: str) -> bool:
    if hasattr(importlib.import_module(module), name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True
