# SPDX-License-Identifier: Apache-2.0
"""docs/elsewhere.md: its commands, as they stand there, by a real podman: the image analyses, simulates, measures."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import xarray as xr
from tpcsweep.dataset.labels import STATUS

from tests.cluster.local import build
from tests.support.private import WORK, in_private
from tests.support.workflow import ROOT

ANALYSIS, MEASURING = re.findall(
    r"^```sh\n(.*?)^```$", (ROOT / "docs/elsewhere.md").read_text(), re.MULTILINE | re.DOTALL
)
"""Two shell scripts; the second uses the variables that the first one sets."""
LOAD = """
set -x
echo "$ENGINE" >"$CONTAINERS_CONF"
echo "$STORAGE" >"$CONTAINERS_STORAGE_CONF"
podman load --quiet --input "$ARCHIVE"
cd "$FOLDER"
"""


def typed(script: str, folder: Path, archive: Path) -> str:
    """Run a script in a folder, where podman has an image and no network, and return its output.

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
    return in_private(LOAD + script, {**own, "ARCHIVE": str(archive), "FOLDER": str(folder)})


def all_is_well(folder: Path, name: str) -> bool:
    """Whether a sweep has a page and all its cells measured."""
    assert (folder / "results" / name / "index.html").exists()
    with xr.open_dataset(folder / "results" / name / "dataset.nc") as data:
        return bool((data["status"] == STATUS.index("ok")).all() and (data["throughput"] > 0).all())


def test_the_image_analyses_and_simulates_for_anybody_and_measures_for_root(tmp_path: Path) -> None:
    archive = tmp_path / "workflow.tar"
    build.workflow_image(archive)
    # As somebody whom the image does not know, such as docker's users.
    anybody = ANALYSIS.replace("--user 0", "--user 1234:1234")
    root = "".join(line for line in ANALYSIS.splitlines(keepends=True) if line.startswith(("run=", "image=")))
    said = typed(f"install --directory --owner=1234 results\n{anybody}{root}{MEASURING}", tmp_path, archive)
    archive.unlink()
    assert (tmp_path / "results/surface").stat().st_uid == 1234
    assert (tmp_path / "results/surface/index.html").exists(), said
    assert all_is_well(tmp_path, "smoke@simulation"), said
    assert all_is_well(tmp_path, "smoke"), said
    # It was the release in the image: there is no network to get another by.
    assert "unpacking XRootD" not in said
