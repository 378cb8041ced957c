# SPDX-License-Identifier: Apache-2.0
"""What a cluster consists of, and every program's flags and files. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tpcsweep.deploying.paths.network_path import NetworkPath

# Inside the world; /run is a file system of its own there, so these are the same for every cluster.
STATE = Path("/run/cluster")
LOGS = Path("/run/logs")
PROGRAMS = Path("/run/programs")
PLUGINS = Path("/run/plugins")
PKI = STATE / "pki"
AUDIT = STATE / "audit.json"
CONTROL = "control.sock"

HUB = "hub"  # the network namespace of the control plane, with a link to every node
HUB_ADDRESS = "10.200.0.1"
PORT = 6443
SERVICES = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
PODS = "10.244.0.0/16"
DOMAIN = "cluster.local"
MTU = 9000  # of links and pods
KUBE = str(PROGRAMS / "kube")

UNUSED = ["io.containerd.internal.v1.opt"]
"""A plugin of containerd that writes to the machine's own /opt."""

UNTHROTTLED = ["--kube-api-qps=1000", "--kube-api-burst=2000"]
"""By default controllers hold back: at a start, for five seconds; with a thousand nodes, for minutes."""

GONE = 30
"""Seconds of a node's silence after which it is NotReady. On two busy cores a restart of the API server has made a
live one silent for more than 12."""
LEASE = 12
"""Seconds for which a node's lease is valid: it is renewed after a quarter of them."""
EVICT = 5  # seconds after which the pods of such a node are evicted

GROUP = 5  # as many nodes that are played have the same label `group`


@dataclass(frozen=True)
class Node:
    """A node and its link to the hub: two nodes are rtt + rtt apart."""

    name: str
    index: int
    rtt: float = 0.0  # ms
    bandwidth: float = 1.0  # Gbit/s in each direction

    @property
    def address(self) -> str:
        return f"10.200.{self.index}.2"

    @property
    def gateway(self) -> str:
        return f"10.200.{self.index}.1"

    @property
    def pods(self) -> str:
        return f"10.244.{self.index}.0/24"

    @property
    def home(self) -> Path:
        return STATE / self.name

    @property
    def socket(self) -> Path:
        return self.home / "containerd.sock"


@dataclass(frozen=True)
class Settings:
    """One cluster. `port` is the relay's, outside; 0 until it listens."""

    group: str
    nodes: list[Node] = field(default_factory=list)
    images: str = ""  # the folder with them unpacked
    programs: str = ""
    multus: str = ""  # the folder with it, where pods can be attached to networks
    port: int = 0

    def path(self, node: Node) -> NetworkPath:
        """A node's link to the hub. Its queue is for the longest path through it, whose bursts a sender's link gets."""
        longest = max((other.rtt for other in self.nodes if other != node), default=0.0)
        return NetworkPath(node.rtt, node.bandwidth, mtu=MTU, whole_rtt=node.rtt + longest)

    def dump(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def load(text: str) -> Settings:
        found = json.loads(text)
        return Settings(**(found | {"nodes": [Node(**node) for node in found["nodes"]]}))


def etcd() -> list[str]:
    """Etcd for a cluster that nobody will miss: nothing is synced."""
    return [KUBE, "etcd", f"--data-dir={STATE / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"]


def api_server() -> list[str]:
    """The API server, with the usual admission plugins, RBAC and the authorization of nodes."""
    return [
        KUBE,
        "kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        f"--secure-port={PORT}",
        f"--advertise-address={HUB_ADDRESS}",
        f"--tls-cert-file={PKI / 'kube-apiserver.crt'}",
        f"--tls-private-key-file={PKI / 'kube-apiserver.key'}",
        f"--client-ca-file={PKI / 'ca.crt'}",
        "--authorization-mode=Node,RBAC",
        f"--service-account-key-file={PKI / 'accounts.pub'}",
        f"--service-account-signing-key-file={PKI / 'accounts.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICES}",
        "--allow-privileged=true",
        f"--kubelet-client-certificate={PKI / 'admin.crt'}",
        f"--kubelet-client-key={PKI / 'admin.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--default-not-ready-toleration-seconds={EVICT}",
        f"--default-unreachable-toleration-seconds={EVICT}",
        f"--audit-policy-file={AUDIT}",
        f"--audit-log-path={LOGS / 'audit.log'}",
    ]


def audit() -> dict[str, Any]:
    """What the API server notes of requests: who has asked what, of accounts other than the controllers' own."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        ],
    }


def controller_manager(*, scale: bool) -> list[str]:
    """The controllers; `scale`: for a thousand nodes that are played, and so never gone."""
    common = [
        *_controller("controller-manager"),
        f"--service-account-private-key-file={PKI / 'accounts.key'}",
        f"--root-ca-file={PKI / 'ca.crt'}",
        "--use-service-account-credentials=true",
    ]
    if scale:
        return [*common, "--node-monitor-grace-period=1h", "--concurrent-gc-syncs=50"]
    return [*common, "--node-monitor-period=2s", f"--node-monitor-grace-period={GONE}s"]


def scheduler() -> list[str]:
    return _controller("scheduler")


def _controller(name: str) -> list[str]:
    return [
        KUBE,
        f"kube-{name}",
        f"--kubeconfig={STATE / name}.kubeconfig",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        *UNTHROTTLED,
    ]


def kwok() -> list[str]:
    return [
        str(PROGRAMS / "kwok"),
        f"--config={Path(__file__).with_name('kwok.yaml')}",
        f"--kubeconfig={STATE / 'admin.kubeconfig'}",
        "--manage-all-nodes=true",
        "--node-ip=10.0.0.1",
        f"--cidr={PODS}",
        "--server-address=127.0.0.1:10247",
        "--node-lease-duration-seconds=200",
    ]


def coredns() -> str:
    """CoreDNS's configuration: the cluster's names, and nothing of the world outside."""
    return f"""{DOMAIN}:53 in-addr.arpa:53 {{
  bind {HUB_ADDRESS}
  errors
  ready 127.0.0.1:8181
  kubernetes {DOMAIN} in-addr.arpa {{
    kubeconfig {STATE / "admin.kubeconfig"}
    pods verified
    ttl 1
  }}
  cache 1
}}
.:53 {{
  bind {HUB_ADDRESS}
  template ANY ANY {{
    rcode NXDOMAIN
  }}
}}
"""


def containerd(node: Node) -> str:
    """Containerd's configuration: everything in the node's own folder."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{node.home}/containerd"
state = "{node.home}/containerd-state"
disabled_plugins = {json.dumps(UNUSED)}
[grpc]
  address = "{node.socket}"
[{cri}]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
[{cri}.cni]
  bin_dir = "{PLUGINS}"
  conf_dir = "{node.home}/cni"
"""


def network(node: Node) -> dict[str, Any]:
    """The pods' network: a bridge on the node, with routes at the hub from node to node."""
    addresses = {
        "type": "host-local",
        "dataDir": f"{node.home}/addresses",
        "ranges": [[{"subnet": node.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "mtu": MTU,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}


def kubelet(node: Node, group: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "authentication": {"webhook": {"enabled": False}, "x509": {"clientCAFile": str(PKI / "ca.crt")}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}/{node.name}",
        "failSwapOn": False,
        "podLogsDir": f"{node.home}/pod-logs",
        "volumePluginDir": f"{node.home}/volume-plugins",
        "resolvConf": f"{node.home}/resolv.conf",
        "clusterDNS": [HUB_ADDRESS],
        "clusterDomain": DOMAIN,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "maxPods": 250,
        "nodeStatusUpdateFrequency": "3s",
        "nodeStatusReportFrequency": "1m",  # of a status that has not changed: leases tell that a node lives
        "nodeLeaseDurationSeconds": LEASE,
        "allowedUnsafeSysctls": ["net.ipv4.tcp_congestion_control"],
    }


def kubelet_command(node: Node) -> list[str]:
    return [
        KUBE,
        "kubelet",
        f"--config={node.home}/kubelet.json",
        f"--kubeconfig={STATE / node.name}.kubeconfig",
        f"--root-dir={node.home}/kubelet",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--cert-dir={node.home}/pki",
        f"--node-labels=site={'far' if node.rtt else 'near'}",
        "--v=1",
    ]


def proxy(node: Node) -> dict[str, Any]:
    """kube-proxy's configuration. Machine-wide limits of connection tracking stay as they are."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(STATE / "proxy.kubeconfig")},
        "clusterCIDR": PODS,
        "hostnameOverride": node.name,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
