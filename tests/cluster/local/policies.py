# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies as rules of iptables, for nodes that enforce them. Pure.

The first packet of a connection is judged, by the addresses of pods: its sender must be let out and its receiver let
in, and a pod that no policy is about is both. Known is what is used here: pods of the policy's own namespace by their
labels, and ports by number; whatever else a policy says is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

CHAIN = "POLICIES"
"""What a node's FORWARD jumps to, in the table mangle: in filter, kube-proxy's own chains come before it."""
HOOK = f"*mangle\n:{CHAIN} - [0:0]\n-A FORWARD -j {CHAIN}\nCOMMIT\n"
"""What a node begins with, for `iptables-restore --noflush`."""
Object = Mapping[str, Any]


class Way(NamedTuple):
    """A direction, in the words of policies and of iptables."""

    kind: str
    rules: str
    peers: str
    ours: str
    theirs: str

    @property
    def chain(self) -> str:
        return f"{CHAIN}-{self.kind}"


WAYS = Way("Egress", "egress", "to", "-s", "-d"), Way("Ingress", "ingress", "from", "-d", "-s")


def rules(policies: Sequence[Object], pods: Sequence[Object], version: int = 4) -> str:
    """All chains of an IP version, for `iptables-restore --noflush`, which puts them in the place of what they were."""
    there = [(pod, address) for pod in pods if (address := _address(pod, version))]
    lines = ["*mangle", *(f":{chain} - [0:0]" for chain in (CHAIN, *(way.chain for way in WAYS)))]
    lines.append(f"-A {CHAIN} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN")
    if version == 6:  # neighbours are found by it
        lines.append(f"-A {CHAIN} -p ipv6-icmp -j RETURN")
    for way in WAYS:
        lines.append(f"-A {CHAIN} -j {way.chain}")
        for pod, address in there:
            ours = [policy for policy in policies if _is_about(policy, pod, way)]
            begin = f"-A {way.chain} {way.ours} {address}"
            lines += [f"{begin}{let} -j RETURN" for policy in ours for let in _lets(policy, way, there)]
            lines += [f"{begin} -j DROP"] if ours else []
    return "\n".join([*lines, "COMMIT", ""])


def _is_about(policy: Object, pod: Object, way: Way) -> bool:
    spec = policy["spec"]
    return way.kind in spec["policyTypes"] and _selects(policy, spec["podSelector"], pod)


def _lets(policy: Object, way: Way, pods: Sequence[tuple[Object, str]]) -> Iterator[str]:
    """What a policy lets through in a direction, as iptables matches it next to the pod's own address."""
    for rule in policy["spec"].get(way.rules) or []:
        selectors = [_only(policy, peer, "podSelector") for peer in rule.get(way.peers) or []]
        peers = [at for pod, at in pods if any(_selects(policy, selector, pod) for selector in selectors)]
        addresses = [f" {way.theirs} {address}" for address in peers] if selectors else [""]
        yield from (f"{address}{ports}" for address in addresses for ports in _ports(policy, rule))


def _ports(policy: Object, rule: Object) -> list[str]:
    numbers: dict[str, list[str]] = {}
    for port in rule.get("ports") or []:
        if set(port) != {"port", "protocol"} or not isinstance(port["port"], int):
            raise _unknown(policy, port)
        numbers.setdefault(port["protocol"].lower(), []).append(str(port["port"]))
    return [f" -p {name} -m multiport --dports {','.join(each)}" for name, each in numbers.items()] or [""]


def _selects(policy: Object, selector: Object, pod: Object) -> bool:
    wanted = _only(policy, selector, "matchLabels").items() if selector else ()
    of_pod = pod["metadata"]
    alike = set(wanted) <= set(of_pod.get("labels", {}).items())
    return alike and of_pod["namespace"] == policy["metadata"]["namespace"]


def _only(policy: Object, part: Object, key: str) -> Object:
    if set(part) != {key}:
        raise _unknown(policy, part)
    found: Object = part[key]
    return found


def _unknown(policy: Object, part: Object) -> ValueError:
    name, namespace = policy["metadata"]["name"], policy["metadata"]["namespace"]
    return ValueError(f"NetworkPolicy {name} of {namespace}: {dict(part)} is not known here")


def _address(pod: Object, version: int) -> str:
    """Return the address of a pod with a network of its own, while it lasts; empty where it has none."""
    if pod["spec"].get("hostNetwork") or pod["status"].get("phase") in ("Succeeded", "Failed"):
        return ""
    found = [str(each["ip"]) for each in pod["status"].get("podIPs") or []]
    return next((ip for ip in found if (":" in ip) == (version == 6)), "")
