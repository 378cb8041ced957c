# SPDX-License-Identifier: Apache-2.0
"""The testbed's image, built from the Containerfile: its programs run in a pod as its user on a read-only root."""

from collections.abc import Callable, Iterator

import pytest

from tests.cluster import local
from tests.cluster.sweeps import pod


@pytest.fixture(scope="module")
def run(cluster: local.Cluster) -> Iterator[Callable[..., str]]:
    with pod(cluster, "image", "sleep", "3600") as beside:
        yield lambda *command: beside("sh", "-c", 'exec "$@" 2>&1', "sh", *command)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("xrootd -v", "v5."),
        ("cmsd -v", "v5."),
        ("gfal-copy --version", "gfal2"),
        ("curl --version", "https"),
        ("iperf3 --version", "iperf 3"),
        ("davix-get --version", "Version: 0."),
        ("openssl version", "OpenSSL 3"),
        ("tc -V", "iproute2"),
        ("ethtool --version", "ethtool"),
        ("ping -V", "iputils"),
        ("id", "uid=10940(tpcsweep) gid=10940(tpcsweep)"),
        ("python3 -c import\tgfal2;print(gfal2.__file__)", "gfal2"),
    ],
)
def test_the_image_has_a_program(run: Callable[..., str], command: str, said: str) -> None:
    assert said.lower() in run(*command.split(" ")).lower()


def test_the_image_has_nothing_of_the_machine_that_built_it(run: Callable[..., str]) -> None:
    run("sh", "-c", "! [ -s /etc/machine-id ]")
    assert run("find", "/var/log", "/tmp", "-type", "f") == ""
