# SPDX-License-Identifier: Apache-2.0
"""The wheel of this checkout, as others install it."""

import os
import shutil
import sys
from pathlib import Path

from tests.support.workflow import ROOT, succeeded

BIN = Path(sys.executable).parent


def wheel_in(folder: Path) -> Path:
    """Make the wheel from a source distribution, which so must have all files, too."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("config", "envs", "examples", "notebooks", "profiles", "workflow"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    for name in (
        *("CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "README.md", "Snakefile", "pyproject.toml"),
    ):
        shutil.copy(ROOT / name, folder)
    # The build runs in this environment, whose setuptools is pinned.
    build = [f"{BIN}/uv", "build", "--quiet", "--offline", "--no-build-isolation", "--out-dir"]
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix}
    succeeded([*build, f"{folder}/dist", str(folder)], env=environment)
    [made] = (folder / "dist").glob("*.whl")
    return made
