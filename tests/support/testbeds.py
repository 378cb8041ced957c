# SPDX-License-Identifier: Apache-2.0
"""Settings of testbeds, as short as they may be."""

from typing import Any

from tpcsweep.configuration.kubernetes import Kubernetes


def kubernetes(**changes: Any) -> Kubernetes:
    """One of kind kubernetes: a pair of nodes 20 ms apart, unless `paths` says otherwise."""
    ends = {"source": "a", "destination": "b"}
    pair = {"rtt": 20, **{end: {"node_selector": {"site": site}} for end, site in ends.items()}}
    content = {"kind": "kubernetes", "image": "registry.example/tpcsweep:1", "bandwidth": 1}
    content |= {"paths": {"kind": "nodes", "pairs": [pair]}, **changes}
    return Kubernetes.model_validate(content)
