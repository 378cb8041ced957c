# SPDX-License-Identifier: Apache-2.0
"""An ordinary user without a checkout: installs the wheel, measures between servers that run, and is killed."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import xarray as xr
from tpcsweep.data.labels import STATUS

from tests.support.installers import Installer, configure, installed, loopback
from tests.support.storage import Storage
from tests.support.workflow import started, wait_until

SHORT = {
    "parameters": {"tool": "curl", "file_size": "8 MiB", "streams": [1, 2]},
    "measurement": {"until": "files", "files": 4, "max_time": "1 min"},
}
LONG = {
    "parameters": {"tool": "curl", "file_size": "256 MiB", "streams": 2},
    "measurement": {"until": "seconds", "seconds": "5 min"},
}


@pytest.fixture(scope="module")
def user(storage: Storage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installer]:
    with installed(storage.pki, tmp_path_factory.mktemp("wheel"), "measure") as user:
        files = {"testbeds/here": loopback(), "sweeps/short": SHORT, "sweeps/long": LONG}
        configure(user.home / "sweeps/config", files)
        yield user


def test_a_sweep_by_the_wheel_alone(storage: Storage, user: Installer) -> None:
    asked = ["--config", "sweep=short", "testbed=here"]
    checked = user.run("tpcsweep", "check", "here")
    assert "all checks passed" in checked or "no check failed" in checked
    assert "at most 168 MiB" in user.run("tpcsweep", "grid", "--sweep", "short", "--testbed", "here")
    user.run("snakemake", *asked, "--", "results/short@here/index.html")
    results = user.home / "sweeps/results/short@here"
    with xr.open_dataset(results / "dataset.nc") as dataset:
        assert [STATUS[value] for value in dataset["status"].values.ravel()] == ["ok", "ok"]
        assert (dataset["throughput"] > 0).all()
    assert "Gbit/s" in (results / "index.html").read_text()
    assert storage.files("source") == storage.files("destination") == user.ledger == []


@pytest.mark.parametrize(
    "reached",
    [lambda _, user: user.ledger, lambda storage, _: len(storage.files("destination")) > 1],
    ids=["in the ledger", "copies under way"],
)
def test_nothing_is_left_by_a_run_that_is_killed(
    storage: Storage, user: Installer, reached: Callable[..., object], tmp_path: Path
) -> None:
    long = user.asking("snakemake", "--config", "sweep=long", "testbed=here", "--", "cells")
    for _ in range(3):  # the entry of the trial before the cells may be gone when the kill comes
        run = started(long, tmp_path / "output.log")
        try:
            wait_until(lambda: reached(storage, user) or run.poll() is not None, "the moment of the kill")  # noqa: B023
            assert run.poll() is None, (tmp_path / "output.log").read_text()
        finally:
            user.kill()
            run.wait()
        if user.ledger:
            break
    assert len(user.ledger) == 1
    time.sleep(1)
    assert "reaped" in user.run("tpcsweep", "reap", "--testbed", "here")
    assert storage.files("source") == storage.files("destination") == user.ledger == []
    assert "nothing was left" in user.run("tpcsweep", "reap", "--testbed", "here")
