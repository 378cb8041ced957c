# SPDX-License-Identifier: Apache-2.0
"""Elsewhere than on a Debian that is set up: lists stand once, and rules name their environment."""

from __future__ import annotations

import hashlib
import re
import tomllib

import yaml
from packaging.specifiers import SpecifierSet

from tests.support.workflow import ROOT

CONTAINERFILE = (ROOT / "envs/image/Containerfile").read_text()
EXTRAS = {"docs", "test", "slurm"}
"""Those from PyPI that neither an image nor an environment of conda has: the last one is where Slurm's commands are."""


def named(text: str) -> set[str]:
    """The lists that a file names."""
    return set(re.findall(r"envs/(?:image/)?(?:requirements|debian)[\w-]*\.txt", text))


def test_the_image_has_what_the_lists_of_this_machine_say() -> None:
    lists = {f"envs/{file.name}" for file in ROOT.glob("envs/debian*.txt")}
    assert lists - named(CONTAINERFILE) == {"envs/debian-test.txt", "envs/debian-xrootd.txt"}


def test_an_environment_of_conda_has_what_the_image_has() -> None:
    asked = re.findall(r"envs/requirements[\w-]*\.txt", CONTAINERFILE)
    script = (ROOT / "envs/tpcsweep.post-deploy.sh").read_text()
    assert named(script) == {*asked}
    mine = {f"envs/{file.name}" for file in ROOT.glob("envs/requirements*.txt")}
    assert mine.difference(asked) == {f"envs/requirements-{extra}.txt" for extra in EXTRAS}
    # Snakemake makes an environment anew where its files change, and the lists are none of them.
    lists = hashlib.sha256(b"".join((ROOT / file).read_bytes() for file in asked)).hexdigest()
    assert f"# sha256 {lists}" in script.splitlines()
    environment = yaml.safe_load((ROOT / "envs/tpcsweep.yaml").read_text())
    (python,) = (line for line in environment["dependencies"] if line.startswith("python "))
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert python.removeprefix("python =") in SpecifierSet(allowed)


def test_every_rule_that_runs_something_names_the_environment_of_conda() -> None:
    rules = [*(ROOT / "workflow/rules").glob("*.smk")]
    scripts = [
        text for file in rules for text in re.split(r"(?m)^ *rule\b", file.read_text()) if "script:" in text
    ]
    assert len(scripts) >= len(rules)
    assert all("conda:\n" in text and '"../../envs/tpcsweep.yaml"' in text for text in scripts)
