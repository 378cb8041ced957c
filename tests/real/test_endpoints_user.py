# SPDX-License-Identifier: Apache-2.0
"""An ordinary user without a checkout: installs the wheel, measures between servers that run, and is killed."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import xarray as xr
import yaml
from tpcsweep.dataset import STATUS

from tests.support.storage import ADDRESSES, PORTS, Storage
from tests.support.users import User, made
from tests.support.wheels import BIN, wheel_in
from tests.support.workflow import ROOT, started, succeeded, wait_until

SHORT = {
    "parameters": {"tool": "curl", "file_size": "8 MiB", "streams": [1, 2]},
    "measurement": {"until": "files", "files": 4, "max_time": "1 min"},
}
LONG = {
    "parameters": {"tool": "curl", "file_size": "256 MiB", "streams": 2},
    "measurement": {"until": "seconds", "seconds": "5 min"},
}


class Installer(User):
    """A user with a virtual environment, into which the wheel is installed."""

    def asking(self, program: str, *arguments: str, folder: str = "sweeps") -> list[str]:
        """The command line of one of the wheel's programs, in a folder of the user's."""
        command = [str(self.home / "venv/bin" / program), *arguments]
        return self.command(self.home / folder, command)

    def run(self, program: str, *arguments: str, folder: str = "sweeps") -> str:
        return succeeded(self.asking(program, *arguments, folder=folder))

    @property
    def ledger(self) -> list[Path]:
        return list((self.home / ".local/state/tpcsweep/endpoints").glob("*.json"))


@pytest.fixture(scope="module")
def user(storage: Storage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installer]:
    with made(Installer, "tpcpip") as user:
        wheel, home = wheel_in(tmp_path_factory.mktemp("wheel")), user.home
        # The system's certificates include a site's own authority, as in envs/setup.sh.
        uv = [f"{BIN}/uv", "--quiet", "--system-certs"]
        subprocess.run([*uv, "venv", "--python", sys.executable, home / "venv"], check=True)
        install = [*uv, "pip", "install", "--python", home / "venv/bin/python"]
        subprocess.run([*install, "--constraint", ROOT / "envs/requirements.txt", wheel], check=True)
        shutil.copytree(storage.pki / "ca", home / "ca", symlinks=True)
        shutil.copyfile(storage.pki / "user.key", home / "proxy")
        (home / "proxy").chmod(0o600)
        subprocess.run(["chown", "--recursive", f"{user.name}:", str(home)], check=True)
        user.run("tpcsweep", "init", "sweeps", folder="")
        configured(home / "sweeps/config")
        yield user


def configured(config: Path) -> None:
    ends = {role: {"urls": [f"davs://{ADDRESSES[role]}:{PORTS[role]}/data/test"]} for role in ADDRESSES}
    testbed = {
        "kind": "endpoints",
        "budget": {"bytes": "2 TiB", "time": "1 h"},
        "max_streams": 2,
        "ca": "~/ca",
        "credentials": {"proxy": "$HOME/proxy"},
        "pairs": [{"name": "loopback", **ends, "bandwidth": "20 Gbit/s"}],
    }
    for name, content in {"testbeds/here": testbed, "sweeps/short": SHORT, "sweeps/long": LONG}.items():
        (config / f"{name}.yaml").write_text(yaml.safe_dump(content))


def test_a_sweep_by_the_wheel_alone(storage: Storage, user: Installer) -> None:
    asked = ["--config", "sweep=short", "testbed=here"]
    assert "all checks passed" in user.run("tpcsweep", "check", "here")
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
    run = started(long, tmp_path / "output.log")
    try:
        wait_until(lambda: reached(storage, user) or run.poll() is not None, "the moment of the kill")
        assert run.poll() is None, (tmp_path / "output.log").read_text()
    finally:
        user.kill()
        run.wait()
    assert len(user.ledger) == 1
    time.sleep(1)
    assert "reaped" in user.run("tpcsweep", "reap", "--testbed", "here")
    assert storage.files("source") == storage.files("destination") == user.ledger == []
    assert "nothing was left" in user.run("tpcsweep", "reap", "--testbed", "here")
