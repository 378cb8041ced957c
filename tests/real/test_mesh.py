# SPDX-License-Identifier: Apache-2.0
"""A mesh of real servers: one is slow, one has a bad certificate, one stops, and the run is killed and goes on."""

import itertools
import json
import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml
from tpcsweep.data.labels import STATUS

from tests.support.farm import Farm, Uplink, farm_of
from tests.support.workflow import Sweep, finished, started, wait_until

UPLINKS = {
    "A": Uplink(),
    "B": Uplink(),
    "C": Uplink(rate="8mbit"),
    "D": Uplink(trusted=False),
    "E": Uplink(),
}
GOOD = ("A", "B", "C")
PAUSE = 30  # s


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    with farm_of(UPLINKS) as found:
        yield found


class Mesh(Sweep):
    """A sweep on the testbed `mine`."""

    @property
    def results(self) -> Path:
        return self.folder / "results" / f"{self.name}@mine"


def test_a_mesh_is_measured_in_rounds_and_names_bad_sites(farm: Farm, tmp_path: Path) -> None:
    mesh = Mesh(tmp_path).define(
        parameters={"tool": "native", "file_size": "1 MiB", "streams": 2},
        measurement={"until": "files", "files": 4, "max_time": "1 min"},
        retry_share=0,
    )
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(farm.testbed()))
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    asked = mesh.command("--cores", "2", str(mesh.results / "dataset.nc"))
    command = farm.inside(*asked, f"testbed={tmp_path}/mine.yaml", "fail_on=all")

    run = started(command, tmp_path / "output.log", env)
    try:
        wait_until(lambda: len(mesh.staged()) >= 2 or run.poll() is not None, "two cells are measured")
        assert run.poll() is None, mesh.output()
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    before = {str(path.relative_to(mesh.results / "staging")): path.read_bytes() for path in mesh.staged()}
    farm.stop("E")
    done = finished(command, env=env)

    assert done.returncode == 0, done.stdout
    for name in ("D", "E"):
        assert f"site {name} is left out" in done.stdout, done.stdout
    for name, content in before.items():
        assert (mesh.results / "cells" / name).read_bytes() == content
    with xr.open_dataset(mesh.results / "dataset.nc") as dataset:
        cells = dataset.sel(repetition=1).squeeze().load()
    assert {*cells.dims} >= {"source", "destination"}
    status = {
        (one, other): STATUS[int(cells["status"].sel(source=one, destination=other))]
        for one in UPLINKS
        for other in UPLINKS
    }
    assert {status[link] for link in itertools.permutations(GOOD, 2)} == {"ok"}
    assert {status[link] for link in status if "D" in link or link[0] == link[1]} <= {
        "not_measured",
        "failed",
    }
    messages = [str(text) for text in cells["message"].sel(source="D").values]
    assert any("certificate" in text for text in messages), messages

    def rate(one: str, other: str) -> float:
        return float(cells["throughput"].sel(source=one, destination=other))

    slow = [rate(*link) for link in itertools.permutations(GOOD, 2) if "C" in link]
    assert max(slow) < min(rate("A", "B"), rate("B", "A")) / 2
    assert farm.files("A") == farm.files("B") == farm.files("C") == []


def test_a_site_that_asks_for_a_pause_holds_its_own_links_alone(farm: Farm, tmp_path: Path) -> None:
    """The first link of B is refused; cells between A and C are started in the pause, and none of B's."""
    mesh = Mesh(tmp_path).define(
        parameters={"tool": "native", "file_size": "1 MiB"},
        measurement={"until": "files", "files": 4, "max_time": "3 s"},
        retry_share=0,
    )
    with farm.front("B") as front:
        front.only, front.refusals, front.retry_after = "COPY", 1, str(PAUSE)
        testbed = farm.testbed()
        sites = {site["name"]: site for site in testbed["sites"]}
        sites["B"]["urls"] = [f"{front.url.replace('https', 'davs')}/data/test"]
        testbed["sites"] = [sites[name] for name in ("A", "B", "C")]
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(testbed))
        env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        asked = mesh.command("--cores", "2", str(mesh.results / "dataset.nc"))
        done = finished(farm.inside(*asked, f"testbed={tmp_path}/mine.yaml", "fail_on=all"), env=env)
    assert done.returncode == 0, done.stdout
    [refused] = front.refused
    started: dict[bool, list[float]] = {True: [], False: []}  # after the refusal, s; whether the link is of B
    for file in mesh.cells():
        cell = json.loads(file.read_text())
        when = datetime.fromisoformat(cell["provenance"]["started"]).timestamp() - refused
        started["B" in (cell["spec"]["parameters"][role] for role in ("source", "destination"))].append(when)
    later = [when for when in started[True] if when > 0]
    assert len(later) == 3, started
    assert min(later) > PAUSE > min(started[False]) > 0


def test_the_other_direction_carries_traffic_beside_a_link_whose_goal_is_on_the_page(
    farm: Farm, tmp_path: Path
) -> None:
    mesh = Mesh(tmp_path).define(
        parameters={"tool": "native", "file_size": "1 MiB", "beside": ["none", "reverse"]},
        measurement={"until": "files", "files": 4, "max_time": "1 min"},
        retry_share=0,
    )
    goals = tmp_path / "goals.csv"
    goals.write_text("source,destination,Gbit/s\nA,C,7\n")
    testbed = farm.testbed(pairs=["A -> C"], goals=str(goals))
    for site in testbed["sites"]:
        site["bandwidth"] = "1 Gbit/s"
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(testbed))
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    asked = mesh.command("--cores", "2", str(mesh.results / "index.html"))
    done = finished(farm.inside(*asked, f"testbed={tmp_path}/mine.yaml"), env=env)
    assert done.returncode == 0, done.stdout
    with xr.open_dataset(mesh.results / "dataset.nc") as dataset:
        cells = dataset.squeeze().load()
    assert [STATUS[int(value)] for value in cells["status"].values] == ["ok", "ok"]
    assert np.isnan(cells["throughput_beside"].sel(beside="none"))
    assert cells["throughput_beside"].sel(beside="reverse") > 0
    assert farm.files("A") == farm.files("C") == []
    assert "1 goal: 1 not reached: " in (mesh.results / "index.html").read_text()
    assert (mesh.results / "goals.csv").read_text() == goals.read_text(), "for pages made by hand"
