# SPDX-License-Identifier: Apache-2.0
"""Networks that pods can be attached to by Multus, in addition to their own or instead of it. Pure.

Every node has a bridge `wan` with a network of IPv4 and one of IPv6 behind it, and the hub routes between these over
the nodes' links: an attached pod is as far from another one as their nodes are.
"""

import ipaddress
import json
from collections.abc import Iterator
from typing import Any

import yaml

from tests.cluster.local.settings import MTU, PLUGINS, STATE, Node, network

BRIDGE = "wan"
ALL, ALL_6 = "10.245.0.0/16", "fd00:245::/32"
RESOURCE: dict[str, Any] = yaml.safe_load("""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: network-attachment-definitions.k8s.cni.cncf.io}
spec:
  group: k8s.cni.cncf.io
  scope: Namespaced
  names: {plural: network-attachment-definitions, kind: NetworkAttachmentDefinition}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          {type: object, properties: {spec: {type: object, properties: {config: {type: string}}}}}
""")
"""The kind of object by which networks are known: as in Multus' own manifest, without its descriptions."""


def addresses(node: Node) -> str:
    return f"10.245.{node.index}.0/24"


def addresses_6(node: Node) -> str:
    return f"fd00:245:{node.index}::/64"


def gateway(subnet: str) -> str:
    return str(ipaddress.ip_network(subnet)[1])


def address_6(node: Node, number: int) -> str:
    """One of a node's static addresses for pods, from 1 on, with its prefix length."""
    return f"fd00:245:{node.index}::{number + 10:x}/64"


def bridge(node: Node) -> list[str]:
    return [
        f"link add {BRIDGE} mtu {MTU} type bridge",
        f"address add {gateway(addresses(node))}/24 dev {BRIDGE}",
        f"address add {gateway(addresses_6(node))}/64 dev {BRIDGE} nodad",
        f"link set {BRIDGE} up",
    ]


def link_6(node: Node, hub: str, at_node: str) -> tuple[list[str], list[str]]:
    """Return what gives a node's link addresses and routes of IPv6, at the hub and at the node."""
    ours, theirs = (f"fd00:200:{node.index}::{number}" for number in (1, 2))
    at_hub = [f"address add {ours}/64 dev {hub} nodad"]
    at_hub.append(f"route add {addresses_6(node)} via {theirs} dev {hub}")
    here = [f"address add {theirs}/64 dev {at_node} nodad"]
    return at_hub, [*here, f"route add {ALL_6} via {ours} dev {at_node}"]


def plugin(node: Node) -> dict[str, Any]:
    """The configuration of Multus on a node: pods' own network is what it is without."""
    return {
        "cniVersion": "0.4.0",
        "name": "multus",
        "type": "multus",
        "kubeconfig": str(STATE / "multus.kubeconfig"),
        "binDir": str(PLUGINS),
        "cniDir": f"{node.home}/multus",
        "capabilities": {"portMappings": True},
        "delegates": [network(node)],
    }


def dhcp_daemon(node: Node) -> list[str]:
    """The daemon that keeps the leases of a node's pods: a part of the CNI plugin `dhcp`."""
    return [str(PLUGINS / "dhcp"), "daemon", f"-socketpath={node.home}/dhcp.sock"]


def dhcp_server(node: Node) -> list[str]:
    """A DHCP server on a node's bridge."""
    first, last = (f"10.245.{node.index}.{number}" for number in (200, 240))
    return f"""
        dnsmasq --keep-in-foreground --conf-file=/dev/null --port=0 --user=root --pid-file=
        --interface={BRIDGE} --bind-interfaces --dhcp-leasefile={node.home}/dhcp.leases
        --dhcp-range={first},{last},255.255.255.0,1h --dhcp-authoritative --no-ping
        --dhcp-option-force=option:classless-static-route,{ALL},{gateway(addresses(node))}
    """.split()


def ipams(node: Node) -> dict[str, dict[str, Any]]:
    """Return the ways in which a node's networks assign addresses; static ones are those that pods ask for."""
    four = {"dst": ALL, "gw": gateway(addresses(node))}
    six = {"dst": ALL_6, "gw": gateway(addresses_6(node))}
    # Each network has its own file of leases: two of the same subnet need ranges that do not overlap.
    of_4, dual_4 = ([_range(addresses(node), first)] for first in (100, 150))
    of_6, dual_6 = ([_range(addresses_6(node), first)] for first in (100, 150))
    local = {"type": "host-local", "dataDir": f"{node.home}/addresses-{BRIDGE}"}
    return {
        "static": {"type": "static", "routes": [four]},
        "static6": {"type": "static", "routes": [six]},
        "assigned": {**local, "ranges": [of_4], "routes": [four]},
        "six": {**local, "ranges": [of_6], "routes": [six]},
        "dual": {**local, "ranges": [dual_4, dual_6], "routes": [four, six]},
        "dhcp": {"type": "dhcp", "daemonSocketPath": f"{node.home}/dhcp.sock"},
    }


def _range(subnet: str, first: int) -> dict[str, str]:
    """Return fifty addresses of a subnet, by their first and last numbers."""
    network = ipaddress.ip_network(subnet)
    return {"subnet": subnet, "rangeStart": str(network[first]), "rangeEnd": str(network[first + 49])}


def definitions(node: Node) -> Iterator[dict[str, Any]]:
    """Yield a node's networks as objects, one for each of `ipams`, such as `static-near`."""
    for kind, ipam in ipams(node).items():
        name = f"{kind}-{'far' if node.rtt else 'near'}"
        config = {
            "cniVersion": "0.4.0",
            "name": name,
            "type": "bridge",
            "bridge": BRIDGE,
            "mtu": MTU,
            "ipam": ipam,
        }
        config["capabilities"] = {"ips": ipam["type"] == "static"}
        yield {
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name},
            "spec": {"config": json.dumps(config)},
        }
