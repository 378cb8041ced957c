# SPDX-License-Identifier: Apache-2.0
"""Elsewhere than on a Debian that is set up: lists stand once, and ways to run that would do nothing are refused."""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from envs.image.building.debian import WORKFLOW_LISTS
from envs.image.building.venv import REQUIREMENTS
from tests.support.workflow import ROOT, finished

CONTAINERFILE = (ROOT / "envs/image/Containerfile").read_text()
EXTRAS = {"docs", "test", "slurm"}
"""Those from PyPI that neither an image nor an environment of conda has: the last one is where Slurm's commands are."""


def named(text: str) -> set[str]:
    """The lists that a file names."""
    return set(re.findall(r"envs/(?:image/)?(?:requirements|debian)[\w-]*\.txt", text))


def test_the_image_has_what_the_lists_of_this_machine_say() -> None:
    lists = {str(file.relative_to(ROOT)) for file in (*WORKFLOW_LISTS, *REQUIREMENTS)}
    (workflow,) = re.findall(r"^FROM site AS workflow$(.*?)^RUN", CONTAINERFILE, re.MULTILINE | re.DOTALL)
    assert named(workflow) == lists
    mine = {f"envs/{file.name}" for file in ROOT.glob("envs/debian*.txt")}
    assert mine - lists == {"envs/debian-test.txt", "envs/debian-xrootd.txt"}


def test_an_environment_of_conda_has_what_the_image_has() -> None:
    script = (ROOT / "envs/tpcsweep.post-deploy.sh").read_text()
    asked = {f"envs/{file.name}" for file in REQUIREMENTS}
    assert named(script) == asked
    mine = {f"envs/{file.name}" for file in ROOT.glob("envs/requirements*.txt")}
    assert mine - asked == {f"envs/requirements-{extra}.txt" for extra in EXTRAS}
    # Snakemake makes an environment anew where its files change, and the lists are none of them.
    lists = hashlib.sha256(b"".join(file.read_bytes() for file in REQUIREMENTS)).hexdigest()
    assert f"# sha256 {lists}" in script.splitlines()
    environment = yaml.safe_load((ROOT / "envs/tpcsweep.yaml").read_text())
    (python,) = (line for line in environment["dependencies"] if line.startswith("python "))
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert python.removeprefix("python =") in SpecifierSet(allowed)


@pytest.mark.parametrize("method", ["apptainer", "env-modules"])
def test_what_would_run_as_without_it_is_refused(method: str) -> None:
    source = ["--config", "source=examples/surface.nc"]
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "-n",
        "page",
        "--software-deployment-method",
        method,
        *source,
    ]
    done = finished(command)
    assert done.returncode != 0
    assert f"given {method}, allowed: conda; no rule names a container or modules" in done.stdout
    assert "Traceback" not in done.stdout
