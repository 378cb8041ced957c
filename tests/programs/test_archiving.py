# SPDX-License-Identifier: Apache-2.0
"""A sweep packed for archives: what is in the crate, what its validator says, and that the sweep can be run from it."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from tpcsweep.common.files import write_text
from tpcsweep.data import folding
from tpcsweep.running.archiving import write_crate
from tpcsweep.sweeps import citation
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.testbeds.loading import load

from tests.support.synthetic import write_sweep
from tests.support.workflow import ROOT, succeeded

VALIDATOR = Path(sys.prefix, "validator/bin/python")
MEASURED_BY = """
cff-version: 1.2.0
message: cite it
title: Our sweeps
authors:
  - {given-names: Ada, name-particle: de, family-names: Example, affiliation: Example Lab,
     orcid: "https://orcid.org/0000-0002-1825-0097"}
  - {name: The example group, website: "https://example.org"}
license: CC-BY-4.0
keywords: [examples]
date-released: 2026-01-02
"""
AXES = {"streams": [1, 2], "rtt": [10.0], "repetition": [1]}
WITHOUT_ADDRESSES = ("SHOULD have a url", "SHOULD have a URL", "SHOULD be an absolute URI")
"""What the validator recommends besides: addresses on the web of the workflow and of programs, which nobody states."""


@dataclass(frozen=True)
class Packed:
    folder: Path
    archive: Path

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}

    def entities(self) -> dict[str, Any]:
        graph = json.loads((self.folder / "ro-crate-metadata.json").read_text())["@graph"]
        return {entity["@id"]: entity for entity in graph}

    def validated(self, folder: Path) -> list[tuple[str, str, str]]:
        """What the validator says of this profile and those it extends: each with severity and subject."""
        program = ROOT / "tests/support/crate_validator.py"
        command = [VALIDATOR, program, self.folder, "workflow-run-crate", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [tuple(issue) for issue in json.loads(done.stdout.splitlines()[-1])]


def pack(root: Path, monkeypatch: pytest.MonkeyPatch, cited: str = "") -> Packed:
    """Pack a sweep of two cells that another folder than the checkout has."""
    monkeypatch.chdir(root)
    write_text(root / "config/sweeps/demo.yaml", "parameters: {streams: [1, 2], rtt: 10 ms}\n")
    if cited:
        (root / citation.FILE).write_text(cited)
    settings = load({"sweep": "demo", "testbed": "netns"}, Path())
    folded = folding.fold(write_sweep(root / "made", AXES), AXES, attributes=settings.attributes)
    folding.write(folded, settings.folder / "dataset.nc")
    for name in ("index.html", "cells.csv", "figures/limits.svg", "report.html"):
        write_text(settings.folder / name, "made")
    os.utime(settings.folder / "report.html", (1, 1))  # of an earlier dataset
    packed = Packed(settings.folder / "crate", settings.folder / "demo.crate.zip")
    write_crate(settings.folder, settings, settings.citation, packed.folder, packed.archive)
    return packed


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    with pytest.MonkeyPatch.context() as patch:
        made = pack(tmp_path_factory.mktemp("root"), patch, MEASURED_BY)
        return Packed(made.folder.resolve(), made.archive.resolve())


def test_a_crate_has_what_was_found_what_was_asked_for_and_the_software(packed: Packed) -> None:
    files = packed.files()
    assert {"dataset.nc", "index.html", "cells.csv", "figures/limits.svg", "README.md"} <= files
    assert {"config/sweeps/demo.yaml", "config/testbeds/netns.yaml"} <= files
    assert {"tpcsweep/workflow/Snakefile", "tpcsweep/envs/requirements.txt", "tpcsweep/LICENSE"} <= files
    # Of an earlier dataset, asked for by others, and made again.
    assert "report.html" not in files
    assert not [name for name in files if "tpcsweep/config/testbeds" in name or "__pycache__" in name]
    with zipfile.ZipFile(packed.archive) as archive:
        assert {name for name in archive.namelist() if not name.endswith("/")} == files
    assert not list(packed.folder.parent.glob(".*"))
    described = {part["@id"] for part in packed.entities()["./"]["hasPart"]}
    assert described >= {"dataset.nc", "config/sweeps/demo.yaml"}
    assert all((packed.folder / part).exists() for part in described)


def test_authors_and_licence_are_those_of_the_measurements(packed: Packed) -> None:
    entities = packed.entities()
    author, group = (entities[one["@id"]] for one in entities["./"]["author"])
    named = {"@type": "Person", "name": "Ada de Example", "@id": "https://orcid.org/0000-0002-1825-0097"}
    assert author.items() >= named.items()
    assert entities[author["affiliation"]["@id"]]["name"] == "Example Lab"
    assert (group["@type"], group["@id"]) == ("Organization", "https://example.org")
    assert entities["./"]["license"]["@id"].endswith("/CC-BY-4.0")
    workflow = entities[entities["./"]["mainEntity"]["@id"]]
    assert workflow["license"]["@id"].endswith("/Apache-2.0")
    expected = {"creator_name": "Ada de Example, The example group", "creator_type": "person, institution"}
    expected |= {"creator_url": "https://orcid.org/0000-0002-1825-0097, https://example.org"}
    expected |= {"institution": "Example Lab", "license": "CC-BY-4.0"}
    about = xr.open_dataset(packed.folder / "dataset.nc").attrs
    assert about.items() >= expected.items()
    assert "creator_email" not in about


def test_a_run_says_what_it_took_what_it_made_when_and_with_what(packed: Packed) -> None:
    entities = packed.entities()
    run = entities["#run"]
    assert run["instrument"] == entities["./"]["mainEntity"]
    assert {one["@id"] for one in run["object"]} == {"config/sweeps/demo.yaml", "config/testbeds/netns.yaml"}
    assert "dataset.nc" in {one["@id"] for one in run["result"]}
    assert (run["startTime"], run["endTime"]) == ("2026-01-02T03:04:25+00:00", "2026-01-02T03:04:37+00:00")
    assert "2 ok" in run["description"]
    software = entities[run["instrument"]["@id"]]["softwareRequirements"]
    assert {entities[one["@id"]]["softwareVersion"] for one in software} == {"2.23.0", "5.9.0"}


def test_the_validator_finds_nothing_but_addresses_that_nobody_states(packed: Packed, tmp_path: Path) -> None:
    issues = packed.validated(tmp_path)
    assert not [issue for issue in issues if not issue[1].rstrip(".").endswith(WITHOUT_ADDRESSES)]
    assert {severity for severity, *_ in issues} == {"RECOMMENDED"}


def test_the_sweep_can_be_run_from_the_crate(packed: Packed, tmp_path: Path) -> None:
    shutil.unpack_archive(packed.archive, tmp_path)
    # What the README says, but that nothing is run.
    [line] = re.findall(r"^snakemake .*$", (tmp_path / "README.md").read_text(), re.MULTILINE)
    command = [sys.executable, "-m", *line.split(), "--dry-run"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "tpcsweep/workflow")}
    said = succeeded(command, cwd=tmp_path, env=environment)
    assert "measure_demo" in said
    assert str(ROOT / "workflow") not in said


def test_without_a_citation_the_softwares_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpcsweep.running.archiving.copy_software", lambda _: None)
    packed = pack(tmp_path, monkeypatch)
    entities = packed.entities()
    assert entities[entities["./"]["author"]["@id"]]["name"] == "The tpcsweep developers"
    assert "creator_name" not in xr.open_dataset(packed.folder / "dataset.nc").attrs


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("license: CC-BY-4.0", "license: given nothing, allowed: this key is needed"),
        ("  - {name: The example group", r"authors\[1\]: given an author without a name"),
        ("title: Our sweeps", "title: given nothing"),
    ],
)
def test_a_citation_without_what_is_needed_is_refused(wrong: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    line = next(line for line in MEASURED_BY.splitlines() if line.startswith(wrong))
    kept = "  - {}" if line.startswith("  - ") else ""
    (tmp_path / citation.FILE).write_text(MEASURED_BY.replace(line, kept))
    with pytest.raises(ConfigurationError, match=f"config/CITATION.cff: {says}"):
        load({"sweep": "demo", "testbed": "netns"}, tmp_path)
