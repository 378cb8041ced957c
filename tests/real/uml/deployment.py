# SPDX-License-Identifier: Apache-2.0
"""Runs inside user-mode-linux: a whole deployment with netem and cgroup v2, one cell, and what was found as JSON.

An ordinary user's is in namespaces of his own. The folder for logs is an argument.
"""

import json
import os
import sys
from pathlib import Path

from tpcsweep.deploying.linux import cgroups, namespaces, rootless
from tpcsweep.measuring.cell import measure
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.interface import Request
from tpcsweep.testbeds.netns import ownership, requirements
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.netns.testbed import brought_up

MIB = 1 << 20
# One slow CPU: 10 Mbit/s is what it carries next to the servers.
WANTED = Parameters(rtt=20, bandwidth=0.01, mtu=1500, cores=0.2, file_size=MIB)


def main() -> None:
    found: dict[str, object] = {"refused": rootless.namespace_refusal() if os.geteuid() else ""}
    requirements.enter()
    owner = ownership.Owner("uml", "deployment", os.getpid(), sys.argv[1])
    Path(owner.logs).mkdir()
    settings = Netns(kind="netns", memory=64 * MIB)
    request = Request("uml", "deployment", WANTED, (), 0.0, Path(owner.logs), print)
    with ownership.exclusive(owner), brought_up(settings, request, owner) as site:
        files = Measurement(until="files", files=3, max_time=120)
        found |= measure(site, WANTED, files, "u", lambda *_: None).to_json()
        found["provenance"] = site.provenance
    tree = cgroups.hierarchy()
    groups = [group.name for group in cgroups.cgroups_with_prefix(tree, "tpc-")]
    found["left"] = [*groups, *map(str, namespaces.FOLDER.iterdir())]
    json.dump(found, sys.stdout)


main()
