# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus beside a cluster: it asks the pods that say by their annotations that they may be asked.

Those of clusters find such pods themselves (kubernetes_sd_configs), which Debian's is built without: here their list is
kept for it. From outside of the cluster's network they are reached through its API server.
"""

import base64
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config
from urllib3.exceptions import HTTPError

from tests.cluster.local import ClusterError

ADDRESS = "127.0.0.1:19090"  # where it answers: Debian's own service would have 9090
INTERVAL = "2s"  # between scrapes: a cell takes seconds
POLL = 0.5
TARGETS = "targets.json"
SCRAPE, PORT, PATH = (f"prometheus.io/{name}" for name in ("scrape", "port", "path"))
KEYS = {
    "ca": ("clusters", "cluster", "certificate-authority-data"),
    "cert": ("users", "user", "client-certificate-data"),
    "key": ("users", "user", "client-key-data"),
}
"""What it shows and asks of the API server, and where a kubeconfig has that."""


def targets(pods: list[client.V1Pod], server: str) -> list[dict[str, Any]]:
    """What is to be scraped, by way of the API server at an address."""
    found = []
    for pod in pods:
        about, notes = pod.metadata, pod.metadata.annotations or {}
        if notes.get(SCRAPE) == "true" and pod.status.phase == "Running":
            proxy = f"/api/v1/namespaces/{about.namespace}/pods/{about.name}:{notes[PORT]}/proxy{notes[PATH]}"
            labels = {"__metrics_path__": proxy, "pod": about.name, "namespace": about.namespace}
            found.append({"targets": [server], "labels": labels})
    return found


def run(kubeconfig: Path) -> None:
    """Prometheus for a cluster, in the foreground; what it has stored goes when it ends. Raises ClusterError."""
    if shutil.which("prometheus") is None:
        raise ClusterError("there is no `prometheus`; apt-get install prometheus")
    content = yaml.safe_load(kubeconfig.read_text())
    with tempfile.TemporaryDirectory(prefix="tpcsweep-prometheus-") as name:
        folder = Path(name)
        for file, (listed, each, key) in KEYS.items():
            (folder / file).write_bytes(base64.b64decode(content[listed][0][each][key]))
        (folder / TARGETS).write_text("[]")
        job = {
            "job_name": "pods",
            "scheme": "https",
            "tls_config": {f"{name}_file": str(folder / name) for name in KEYS},
            "file_sd_configs": [{"files": [str(folder / TARGETS)]}],
        }
        settings = {"global": {"scrape_interval": INTERVAL}, "scrape_configs": [job]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        places = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        command = ["prometheus", *places, f"--web.listen-address={ADDRESS}", "--log.level=warn"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
            try:
                sys.stdout.write(f"http://{ADDRESS}\n")
                sys.stdout.flush()
                _keep(process, kubeconfig, folder)
            finally:
                process.terminate()


def _keep(process: subprocess.Popen[bytes], kubeconfig: Path, folder: Path) -> None:
    """Keep its list of pods until it has ended, which it does not by itself."""
    api = config.new_client_from_config(str(kubeconfig))
    server = api.configuration.host.removeprefix("https://")
    told: list[dict[str, Any]] = []
    while process.poll() is None:
        with contextlib.suppress(client.ApiException, HTTPError):  # the API server is away
            now = targets(client.CoreV1Api(api).list_pod_for_all_namespaces().items, server)
            if now != told:
                (folder / "new").write_text(json.dumps(now))
                (folder / "new").rename(folder / TARGETS)
                told = now
        time.sleep(POLL)
    raise ClusterError(f"prometheus has ended with exit code {process.returncode}")
