# SPDX-License-Identifier: Apache-2.0
"""Pairs of two releases of XRootD, with two doors a side."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpcsweep.deploying.xrootd.releases import RECOMMENDED, SYSTEM
from tpcsweep.testbeds.endpoints import trial

from tests.support.sites import files
from tests.support.storage import Storage, assert_no_failure, deployed, storage_of, where

pytestmark = pytest.mark.usefixtures("nothing_left")
DOORS = ("source", "source-2", "destination", "destination-2")


@pytest.fixture(
    scope="module", params=[(SYSTEM, RECOMMENDED), (RECOMMENDED, SYSTEM)], ids=["to newer", "to older"]
)
def storage(request: pytest.FixtureRequest) -> Iterator[Storage]:
    releases = dict(zip(("source", "destination"), request.param, strict=True))
    with storage_of(asks=True, doors=DOORS, releases=releases) as found:
        yield found


def copies(storage: Storage, folder: str) -> Counter[tuple[str, str]]:
    """How often each door began a copy in a folder with a door of the other end, by the servers' logs."""
    begun = re.compile(rf"event=P(?:ULL|USH)_START, .*{folder}/(?!trial).* remote=https://([\d.]+:\d+)/")
    return Counter((where(door), other) for door in DOORS for other in begun.findall(storage.log(door)))


@pytest.mark.parametrize(("tool", "mode"), [("curl", "pull"), ("gfal-copy", "push")])
def test_copies_use_the_doors_of_both_ends(storage: Storage, tmp_path: Path, tool: str, mode: str) -> None:
    with deployed(storage.settings(), tmp_path, tool=tool, streams=4, copy_mode=mode) as (site, measured):
        result = measured(files(10))
        versions = {side["server"] for side in list(site.provenance["endpoints"].values())[:2]}
    assert result["status"] == "ok", result["message"]
    assert result["summary"]["transfers"] == 40
    assert len(versions) == 2, "both ends tell their release"
    active, other = ("destination", "source") if mode == "pull" else ("source", "destination")
    expected = {(where(active), where(other)): 20, (where(f"{active}-2"), where(f"{other}-2")): 20}
    assert copies(storage, site.made[active].name) == expected


def test_check_tries_each_door(storage: Storage) -> None:
    rows = list(trial.findings(storage.settings()))
    assert_no_failure(rows)
    for door in DOORS:
        done = {row.check for row in rows if where(door) in row.subject and row.status == "ok"}
        assert {"TLS and CA", "pull", "push"} <= done


@pytest.mark.usefixtures("lingering")
def test_a_door_that_dies_is_named_and_the_other_one_clears_up(storage: Storage, tmp_path: Path) -> None:
    dead = where("destination-2")
    with deployed(storage.settings(), tmp_path, tool="native", streams=2) as (_, measured):
        storage.kill("destination-2")
        result = measured(files(20))
    assert result["status"] == "failed"
    assert dead in result["message"]
    failed = [row for row in trial.findings(storage.settings()) if row.status == "failed"]
    assert failed
    assert dead in failed[0].subject
