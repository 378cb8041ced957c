# SPDX-License-Identifier: Apache-2.0
"""The server container of a trial: it reports its releases of XRootD and its sysctls, and waits to be removed.

Usage: python3 -m tpcsweep.testbeds.kubernetes.pod.node_report SECONDS-TO-WAIT RELEASE,… SYSCTL,…
"""

import json
import sys
import time
from typing import Any

from tpcsweep.deploying.linux.sysctls import in_force
from tpcsweep.testbeds.kubernetes.pod import server_container
from tpcsweep.testbeds.kubernetes.pod.server_programs import describe_release

REPORT = "report: "  # begins the line with the report, JSON by releases and sysctls


def report(releases: list[str], sysctls: list[str]) -> dict[str, Any]:
    found = {name: describe_release(name) for name in releases}
    return {"releases": found, "sysctls": in_force(sysctls)}


if __name__ == "__main__":
    server_container.end_on_term()
    seconds, releases, sysctls = sys.argv[1:]
    print(REPORT + json.dumps(report(releases.split(","), sysctls.split(","))), flush=True)  # noqa: T201, its log
    time.sleep(float(seconds))
