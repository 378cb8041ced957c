# SPDX-License-Identifier: Apache-2.0
"""docs/elsewhere.md: its commands, as they stand there, by a real podman: the image analyses, simulates, measures."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import xarray as xr
from tpcsweep.dataset.labels import STATUS

from tests.cluster.local import build
from tests.support.workflow import ROOT

ANALYSIS, MEASURING = re.findall(
    r"^```sh\n(.*?)^```$", (ROOT / "docs/elsewhere.md").read_text(), re.MULTILINE | re.DOTALL
)
"""What is to be typed, of which the second takes the first one's variables."""


@dataclass(frozen=True)
class Engine:
    """podman with images of its own and no network, and a folder in which one types."""

    folder: Path
    environment: dict[str, str]

    def type(self, script: str) -> str:
        """Run a script to its end; returns all that it said."""
        done = subprocess.run(
            ["bash", "-euxc", script],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def dataset(self, name: str) -> xr.Dataset:
        with xr.open_dataset(self.folder / "results" / name / "dataset.nc") as opened:
            return opened.load()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine that asks for nothing that the kernel does not give it here: it may be in a container itself."""
    soft_files, hard_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    processes = min(limit for limit in resource.getrlimit(resource.RLIMIT_NPROC) if limit > 0)
    state = tmp_path / "engine"
    state.mkdir()
    limits = f'["nofile={soft_files}:{hard_files}", "nproc={processes}:{processes}"]'
    (state / "containers.conf").write_text(
        f'[containers]\ndefault_ulimits = {limits}\nnetns = "none"\n'
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
    )
    (state / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{state}/images"\nrunroot = "{state}/run"\n'
    )
    names = {
        f"CONTAINERS_{name}": str(state / f"{file}.conf")
        for name, file in (("CONF", "containers"), ("STORAGE_CONF", "storage"))
    }
    (tmp_path / "here").mkdir()
    yield Engine(tmp_path / "here", names)
    shutil.rmtree(state)


def loaded(archive: Path, name: str) -> str:
    """The commands that give an image the name that the page has for it."""
    image = build.WORKFLOW
    return f"podman load --quiet --input {archive}\n[ {name} = {image} ] || podman tag {name} {image}\n"


def test_the_image_analyses_simulates_and_measures(engine: Engine, tmp_path: Path) -> None:
    archive = tmp_path / "workflow.tar"
    build.workflow_image(archive)
    engine.type(loaded(archive, build.WORKFLOW))
    archive.unlink()
    said = engine.type(ANALYSIS + MEASURING)
    page = engine.folder / "results/surface.nc/index.html"
    assert page.stat().st_size > 100_000, said
    for name in ("smoke@simulation", "smoke"):
        data = engine.dataset(name)
        assert (data["status"] == STATUS.index("ok")).all(), said
        assert (data["throughput"] > 0).all()
        assert (engine.folder / "results" / name / "report.html").exists()
    # It was the release in the image: there is no network to get another by.
    assert "unpacking XRootD" not in said


def test_what_an_engine_builds_from_the_containerfile_analyses_and_simulates(engine: Engine) -> None:
    engine.type(loaded(build.engine_image("workflow"), "localhost/engine:workflow"))
    said = engine.type(ANALYSIS)
    assert (engine.folder / "results/surface.nc/index.html").exists(), said
    assert (engine.dataset("smoke@simulation")["status"] == STATUS.index("ok")).all()
