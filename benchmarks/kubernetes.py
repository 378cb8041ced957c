# SPDX-License-Identifier: Apache-2.0
"""Cost of a deployment on Kubernetes: seconds to start and remove, API requests, seconds a cell.

python -m benchmarks.kubernetes     as root; on a temporary cluster of this machine, a few minutes
"""

from __future__ import annotations

import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from kubernetes import client, config
from tpcsweep.measuring.cell import measure
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.interface import Request
from tpcsweep.testbeds.kubernetes import api, testbed
from tpcsweep.testbeds.kubernetes.settings import Kubernetes

from tests.cluster import local
from tests.cluster.sweeps import count_requests, local_testbed

HOW = Measurement(min_time=2.0, max_time=2.0)
ORIGINS = (1, 2, 4)
REPEATS = 5
CELLS = 5
PARTS = ("pods", "agents", "path", "servers")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, local.cluster(Path(folder), bandwidth=[1.0] * 3) as cluster:
        os.environ["TPCSWEEP_KUBECONFIG"] = str(cluster.kubeconfig)
        namespace = f"bench-{secrets.token_hex(2)}"
        core = client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
        core.create_namespace({"metadata": {"name": namespace}})
        settings = Kubernetes.model_validate(local_testbed(namespace, memory="256 MiB", bandwidth="1 Gbit/s"))
        print(
            f"| origins | up s | {' | '.join(f'{part} s' for part in PARTS)} | a cell s | down s | API requests |"
        )
        print(f"|---{'|---' * (len(PARTS) + 4)}|")
        for origins in ORIGINS:
            rows = [deployment(settings, origins, Path(folder)) for _ in range(REPEATS)]
            columns = [f"{statistics.median(column):.2f}" for column in zip(*rows, strict=True)]
            print(f"| {origins}+{origins} | {' | '.join(columns)} |", flush=True)


def deployment(settings: Kubernetes, origins: int, logs: Path) -> list[float]:
    """Return seconds to start, of each part, of a cell beyond measuring, and to remove; and requests."""
    counts: list[Callable[[], int]] = []

    def connect(*arguments: Kubernetes) -> api.Cluster:
        cluster = api_connect(*arguments)
        counts.append(count_requests(cluster))
        return cluster

    api_connect = api.connect_cluster
    given = {**settings.defaults(), "origins": origins, "streams": 4, "tool": "curl", "file_size": 8 << 20}
    wanted = Parameters.model_validate(given)
    request = Request("bench", f"origins={origins}", wanted, ["curl"], 600.0, logs, lambda _: None)
    began = time.monotonic()
    with mock.patch.object(api, "connect_cluster", connect), testbed.deployed(settings, request) as site:
        up = time.monotonic() - began
        beside = []
        for number in range(CELLS):
            start = time.monotonic()
            found = measure(site, wanted, HOW, f"c{number}", lambda *_: None)
            beside.append(time.monotonic() - start - found.summary.duration)
        parts = [site.provenance["seconds"][part] for part in PARTS]
        ending = time.monotonic()
    down = time.monotonic() - ending
    return [up, *parts, statistics.median(beside), down, counts[0]()]


if __name__ == "__main__":
    main()
