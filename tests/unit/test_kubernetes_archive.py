# SPDX-License-Identifier: Apache-2.0
"""What pods run: the archive that they get of this package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tpcsweep.testbeds.kubernetes import archive

MOST = 1 << 20
"""What a ConfigMap may hold, base64 included."""


def test_it_has_what_is_run_and_what_that_imports_and_no_more() -> None:
    found = archive.modules()
    assert {"tpcsweep", "tpcsweep.testbeds.kubernetes.pod.agent", "tpcsweep.client.__main__"} <= set(found)
    assert {"tpcsweep.tools.gfal", "tpcsweep.xrootd.servers", "tpcsweep.variables"} <= set(found)
    assert not [name for name in found if "netns" in name or "running" in name or "configuration" in name]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    file = tmp_path / "tpcsweep.zip"
    file.write_bytes(archive.content())
    return file


def alone(packed: Path, code: str) -> list[str]:
    """What a Python says that has the archive and nothing else."""
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(packed)}, cwd=packed.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_python_runs_it_from_the_archive_with_nothing_else(packed: Path) -> None:
    """Every module but those of tools: they may ask for libraries of their own, and say so when they are used."""
    names = [name for name in archive.modules() if not name.startswith("tpcsweep.tools.")]
    ask = f"import sys, {', '.join(names)}; print(*(sys.modules[name].__file__ for name in {names}))"
    assert {file.partition("/tpcsweep/")[0] for file in alone(packed, ask)} == {str(packed)}


def test_it_fits_a_config_map_and_is_the_same_each_time() -> None:
    made = archive.content()
    assert len(made) * 4 / 3 < MOST / 4
    archive.content.cache_clear()
    assert archive.content() == made


def test_workers_of_tools_are_told_where_the_package_is(packed: Path) -> None:
    """Their environment is their own."""
    ask = (
        "from pathlib import Path; from tpcsweep.tools import TOOLS; from tpcsweep.tools.base import Credentials\n"
        "for name in ('native', 'gfal2'):\n"
        "    print(TOOLS[name].environment(Credentials(Path('/c')), Path('/h'))['PYTHONPATH'])"
    )
    assert alone(packed, ask) == [str(packed)] * 2
