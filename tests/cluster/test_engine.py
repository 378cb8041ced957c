# SPDX-License-Identifier: Apache-2.0
"""docs/elsewhere.md: its commands, as they stand there, by a real podman: the image analyses, simulates, measures."""

from __future__ import annotations

import re
import resource
import tempfile
from pathlib import Path

import pytest
import xarray as xr
from tpcsweep.dataset.labels import STATUS

from envs.image.building.messages import ImageError
from envs.image.building.private import WORK, in_private
from tests.cluster.local import build
from tests.support.workflow import ROOT

ANALYSIS, MEASURING = re.findall(
    r"^```sh\n(.*?)^```$", (ROOT / "docs/elsewhere.md").read_text(), re.MULTILINE | re.DOTALL
)
"""What is to be typed, of which the second takes the first one's variables."""
LOAD = """
exec 2>&1
set -x
echo "$ENGINE" >"$CONTAINERS_CONF"
echo "$STORAGE" >"$CONTAINERS_STORAGE_CONF"
podman load --quiet --input "$ARCHIVE"
podman tag "$NAME" "$WANTED"
cd "$FOLDER"
"""


def typed(script: str, folder: Path, archive: Path, name: str) -> str:
    """What a script says that is run to its end in a folder, where podman has an image and no network.

    Its images and containers are in memory, in namespaces of their own, and gone with them.
    """
    # No more than there is here, which may be a container itself.
    limits = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    most = {key: resource.getrlimit(which)[1] for key, which in limits.items()}
    known = [f"{key}={limit}:{limit}" for key, limit in most.items() if limit != resource.RLIM_INFINITY]
    own = {
        "ENGINE": f"[containers]\ndefault_ulimits = {known}\nnetns = 'none'\n"
        "[engine]\ncgroup_manager = 'cgroupfs'\nevents_logger = 'file'\n",
        "STORAGE": f"[storage]\ndriver = 'overlay'\ngraphroot = '{WORK}/images'\nrunroot = '{WORK}/run'\n",
        "CONTAINERS_CONF": f"{WORK}/containers.conf",
        "CONTAINERS_STORAGE_CONF": f"{WORK}/storage.conf",
    }
    what = {"ARCHIVE": str(archive), "NAME": name, "WANTED": build.WORKFLOW, "FOLDER": str(folder)}
    with tempfile.TemporaryFile() as out:
        try:
            in_private(LOAD + script, own | what, out, "podman")
        except ImageError as error:
            out.seek(0)
            pytest.fail(f"{error}\n{out.read().decode()}")
        out.seek(0)
        return out.read().decode()


def all_is_well(folder: Path, name: str) -> bool:
    """Whether a sweep has a page, and has all its cells measured."""
    assert (folder / "results" / name / "index.html").exists()
    with xr.open_dataset(folder / "results" / name / "dataset.nc") as data:
        return bool((data["status"] == STATUS.index("ok")).all() and (data["throughput"] > 0).all())


def test_the_image_analyses_simulates_and_measures(tmp_path: Path) -> None:
    archive = tmp_path / "workflow.tar"
    build.workflow_image(archive)
    said = typed(ANALYSIS + MEASURING, tmp_path, archive, build.WORKFLOW)
    archive.unlink()
    assert (tmp_path / "results/surface/index.html").exists(), said
    assert all_is_well(tmp_path, "smoke@simulation"), said
    assert all_is_well(tmp_path, "smoke"), said
    # It was the release in the image: there is no network to get another by.
    assert "unpacking XRootD" not in said


def test_what_an_engine_builds_from_the_containerfile_simulates(tmp_path: Path) -> None:
    # As somebody whom the image does not know, such as docker's users.
    simulates = "".join(line for line in ANALYSIS.splitlines(keepends=True) if " dataset=" not in line)
    script = f"install --directory --owner=1234 results\n{simulates.replace('--user 0', '--user 1234:1234')}"
    said = typed(script, tmp_path, build.engine_image("workflow"), "localhost/engine:workflow")
    assert all_is_well(tmp_path, "smoke@simulation"), said
    assert (tmp_path / "results/smoke@simulation").stat().st_uid == 1234
