# SPDX-License-Identifier: Apache-2.0
"""Settings of testbeds, as short as they may be."""

from typing import Any

from tpcsweep.sweeps.problems import validated
from tpcsweep.testbeds.kubernetes.settings import Kubernetes


def pods(**spec: Any) -> dict[str, Any]:
    """A role or side whose pods have these fields in their specification."""
    return {"podTemplate": {"spec": spec}}


def selecting(labels: dict[str, str]) -> dict[str, Any]:
    """A role or side on nodes with these labels."""
    return pods(nodeSelector=labels)


def sized(name: str, **resources: Any) -> dict[str, Any]:
    """A role or side in whose pods a container has these limits and requests."""
    return pods(containers=[{"name": name, "resources": resources}])


def kubernetes(**changes: Any) -> Kubernetes:
    """One of kind kubernetes: a pair of nodes 20 ms apart, unless `paths` says otherwise. Raises ConfigurationError."""
    pair = {
        "rtt": 20,
        "source": selecting({"site": "a"}),
        "destination": selecting({"site": "b"}),
    }
    content = {
        "kind": "kubernetes",
        "image": "registry.example/tpcsweep:1",
        "bandwidth": 1,
        "paths": {"kind": "nodes", "pairs": [pair]},
        **changes,
    }
    return validated(Kubernetes, content)
