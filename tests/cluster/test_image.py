# SPDX-License-Identifier: Apache-2.0
"""The testbed's image, built from the Containerfile: its programs run in a pod as its user on a read-only root."""

from tests.cluster import local
from tests.cluster.sweeps import pod

PROGRAMS = {
    "xrootd -v": "v5.",
    "cmsd -v": "v5.",
    "gfal-copy --version": "gfal2",
    "curl --version": "https",
    "iperf3 --version": "iperf 3",
    "davix-get --version": "Version: 0.",
    "openssl version": "OpenSSL 3",
    "tc -V": "iproute2",
    "ethtool --version": "ethtool",
    "ping -V": "iputils",
    "id": "uid=10940(tpcsweep) gid=10940(tpcsweep)",
    "python3 -c 'import gfal2; print(gfal2.__file__)'": "gfal2",
}


def test_the_image_has_its_programs_and_nothing_of_the_machine_that_built_it(cluster: local.Cluster) -> None:
    with pod(cluster, "image", "sleep", "3600") as run:
        said = {command: run("sh", "-c", f"{command} 2>&1") for command in PROGRAMS}
        assert {
            command for command, words in PROGRAMS.items() if words.lower() not in said[command].lower()
        } == set(), said
        run("sh", "-c", "! [ -s /etc/machine-id ]")
        assert run("find", "/var/log", "/tmp", "-type", "f") == ""
