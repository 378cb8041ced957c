# SPDX-License-Identifier: Apache-2.0
"""What the scripts of rules stand on; they run only inside Snakemake, and some of them for minutes and as root."""

import ast
import importlib
from pathlib import Path

import pytest
from tpcsweep.running import studies

SCRIPTS = sorted(Path("workflow/scripts").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_everything_that_a_script_imports_is_there(script: Path) -> None:
    for node in ast.parse(script.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tpcsweep"):
            for name in node.names:
                if not hasattr(importlib.import_module(node.module), name.name):
                    importlib.import_module(f"{node.module}.{name.name}")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_reports_a_full_disk(script: Path) -> None:
    *_, work = ast.parse(script.read_text()).body
    assert isinstance(work, ast.With)
    assert ast.unparse(work.items[0]).startswith("reported(")


def test_a_full_disk_is_told_in_plain_words_and_other_refusals_keep_their_traceback(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended, studies.reported(str(tmp_path / "no folder/log"), about="demo"):
        raise OSError(28, "No space left on device", "results/demo/dataset.nc")
    told = "demo: results/demo/dataset.nc: No space left on device: make room"
    assert str(ended.value.code).startswith(told)
    with pytest.raises(PermissionError), studies.reported(str(tmp_path / "log"), about="demo"):
        raise PermissionError(13, "Permission denied")
    assert not (tmp_path / "log").exists()
