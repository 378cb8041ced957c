# SPDX-License-Identifier: Apache-2.0
"""What belongs to others on a cluster, and is called or labelled as what a deployment consists of, or nearly so."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kubernetes import utils
from tpcsweep.testbeds.kubernetes.metadata import DEPLOYMENT, MANAGED

from tests.cluster.local import build
from tests.cluster.sweeps import Space, restricted, space

NODE = "n3"  # where their pods are: no deployment may be on a node that has pods of another one
THEIRS = "0123456789"
"""The deployment of another user in the same namespace, from another machine."""
NEARLY: Mapping[str, Mapping[str, str]] = {
    "tpc-1123456789": {**MANAGED, "app.kubernetes.io/managed-by": "helm"},
    "tpc-2123456789": {"app.kubernetes.io/managed-by": "tpcsweep-operator", DEPLOYMENT: "2123456789"},
    "tpc-mine": {"tpcsweep.example.org/deployment": THEIRS, "app.kubernetes.io/name": "tpcsweep"},
}
"""What is no deployment's, by its name: its labels."""


@contextlib.contextmanager
def others(kubeconfig: Path, beside: Space) -> Iterator[Callable[[], list[str]]]:
    """Have all of it in a namespace and in another one; what is given says which of it has gone."""
    deployment = {f"tpc-{THEIRS}": {**MANAGED, DEPLOYMENT: THEIRS}}
    with space(kubeconfig, f"{beside.name}-others") as apart:
        for each in (beside, apart):
            for name, labels in {**NEARLY, **deployment}.items():
                for body in _objects(name, labels):
                    utils.create_from_dict(each.api, body, namespace=each.name)

        def there() -> set[str]:
            return {
                f"{what[:-1]} {item.metadata.name} in {each.name} ({item.metadata.uid})"
                for each in (beside, apart)
                for what, items in each.objects().items()
                for item in items
                if not item.metadata.deletion_timestamp
            }

        made = there()
        yield lambda: sorted(made - there())


def _objects(name: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    meta = {"name": name, "labels": dict(labels)}
    pod = {
        **restricted(build.PAUSE),
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        # The cluster is to take them away no more than a sweep is.
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
    }
    # It makes no pod: there is one.
    template = {"metadata": {"labels": dict(labels)}, "spec": {**pod, "restartPolicy": "Never"}}
    job = {"suspend": True, "template": template}
    nobody = {"podSelector": {"matchLabels": {"of": "nobody"}}, "policyTypes": ["Ingress"], "ingress": []}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job},
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": nobody},
    ]
