# SPDX-License-Identifier: Apache-2.0
"""Networks that pods can be attached to beside their own, by Multus, each address given by whoever asks. Pure.

Every node has a bridge `wan` with a network of its own behind it, and the hub routes between these over the nodes'
links: an attached pod is as far from another one as their nodes are.
"""

import json
from typing import Any

from tests.cluster.local.settings import PLUGINS, STATE, Node, network

KUBECONFIG = STATE / "multus.kubeconfig"
BRIDGE = "wan"
ALL = "10.245.0.0/16"
GROUP, KIND = "k8s.cni.cncf.io", "NetworkAttachmentDefinition"


def addresses(node: Node) -> str:
    return f"10.245.{node.index}.0/24"


def gateway(node: Node) -> str:
    return f"10.245.{node.index}.1"


def address(node: Node, number: int) -> str:
    """One of a node's addresses for pods, from 1 on, with its prefix length."""
    return f"10.245.{node.index}.{number + 10}/24"


def bridge(node: Node, mtu: int) -> list[str]:
    made = f"link add {BRIDGE} mtu {mtu} type bridge"
    return [made, f"address add {gateway(node)}/24 dev {BRIDGE}", f"link set {BRIDGE} up"]


def plugin(node: Node, mtu: int) -> dict[str, Any]:
    """The configuration of Multus on a node: pods' own network is what it is without."""
    return {
        "cniVersion": "0.4.0",
        "name": "multus",
        "type": "multus",
        "kubeconfig": str(KUBECONFIG),
        "binDir": str(PLUGINS),
        "cniDir": f"{node.home}/multus",
        "capabilities": {"portMappings": True},
        "delegates": [network(node, mtu)],
    }


def resource() -> dict[str, Any]:
    """The kind of object by which networks are known: as in Multus' own manifest, without its descriptions."""
    plural, singular = "network-attachment-definitions", "network-attachment-definition"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"config": {"type": "string"}}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": KIND},
            "versions": [version],
        },
    }


def definition(node: Node, mtu: int) -> dict[str, Any]:
    """A node's network as an object. Addresses are those that pods ask for; all others are behind the bridge's own."""
    config = {
        "cniVersion": "0.4.0",
        "name": f"{BRIDGE}-{node.name}",
        "type": "bridge",
        "bridge": BRIDGE,
        "mtu": mtu,
        "capabilities": {"ips": True},
        "ipam": {"type": "static", "routes": [{"dst": ALL, "gw": gateway(node)}]},
    }
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": KIND,
        "metadata": {"name": config["name"]},
        "spec": {"config": json.dumps(config)},
    }
