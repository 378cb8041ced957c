# SPDX-License-Identifier: Apache-2.0
"""The inside of a cluster: every program of it, in namespaces that vanish with this one.

The keeper starts this as the first process of new network, mount and process namespaces. That process only reaps;
its child makes the network, starts the control plane and the nodes, says when all is ready, and then does what it is
asked on a socket. When either ends, the kernel ends the rest.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tpcsweep.common.processes import Commands
from tpcsweep.deploying.paths import link as paths
from tpcsweep.deploying.paths import network_path

from tests.cluster.local import api, attached, groups, images, mounts, pki, policies, settings
from tests.cluster.local.settings import HUB, HUB_ADDRESS, KUBE, LOGS, PKI, STATE, Node, Settings

START = 300.0  # s, for anything to be ready
LOOK = 1.0  # s, between looks for NetworkPolicies


class WorldError(RuntimeError):
    """The cluster is not what it should be."""


def main(folder: Path, channel: int) -> None:
    """Be the first process: start the one that does the work, and reap whatever is left to this one."""
    settled = Settings.load((folder / "state" / "settings.json").read_text())
    groups.create(settled.group, [node.name for node in settled.nodes])
    worker = os.fork()
    if worker == 0:
        try:
            World(settled, folder, socket.socket(fileno=channel)).run()
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.close(channel)
    while os.wait()[0] != worker:
        pass


class World:
    def __init__(self, settled: Settings, folder: Path, channel: socket.socket) -> None:
        self.settings = settled
        self.folder = folder
        self.channel = channel
        self.programs: dict[str, subprocess.Popen[bytes]] = {}
        self.links: list[paths.Link] = []  # each has a thread that keeps its delay line
        self.api_ready = threading.Event()

    def run(self) -> None:
        """Start everything, tell the keeper, and serve until killed."""
        try:
            plugins = Path(self.settings.multus) if self.settings.multus else None
            mounts.prepare(self.folder, Path(self.settings.programs), plugins)
            self.make_network()
            socket.send_fds(self.channel, [b"network\n"], [os.open("/proc/self/ns/net", os.O_RDONLY)])
            self.make_certificates()
            nodes = [partial(self.start_node, node) for node in self.settings.nodes]
            self.all(self.start_control_plane, *nodes)
            if nodes:
                threading.Thread(target=self.enforce_policies, daemon=True).start()
            server = socket.create_server(str(STATE / settings.CONTROL), family=socket.AF_UNIX)
            self.channel.send(b"ready\n")
        except BaseException as error:
            self.channel.send(f"failed: {error}".encode()[:8000])
            raise
        while True:
            connection, _ = server.accept()
            threading.Thread(target=self.serve, args=(connection,)).start()

    def all(self, *tasks: Callable[[], None]) -> None:
        """Do everything at once; the first failure counts."""
        with ThreadPoolExecutor(len(tasks)) as pool:
            for done in [pool.submit(task) for task in tasks]:
                done.result()

    # What there is before any program

    def make_network(self) -> None:
        """A namespace for each node, and its link to this one, with the RTT and rate that were asked for."""
        commands = Commands(LOGS / "network.log")
        commands.run(["ip", "netns", "attach", HUB, str(os.getpid())])
        commands.batch(["ip"], ["link set lo up", f"address add {HUB_ADDRESS}/32 dev lo"])
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for node in self.settings.nodes:
            commands.run(["ip", "netns", "add", node.name])
            commands.batch(["ip", "-n", node.name], ["link set lo up"])
            commands.run([*inside(node), "sysctl", "-qw", "net.ipv4.ip_forward=1"])
            path = self.settings.path(node)
            ends = (HUB, f"{node.gateway}/30"), (node.name, f"{node.address}/30")
            self.links.append(paths.connect(path, *ends, commands, STATE))
            link, name = network_path.INTERFACE, f"to-{node.name}"
            renamed = [f"link set {link} down", f"link set {link} name {name}", f"link set {name} up"]
            commands.batch(["ip"], [*renamed, f"route add {node.pods} via {node.address} dev {name}"])
            commands.batch(["ip", "-n", node.name], [f"route add default via {node.gateway} dev {link}"])
            if self.settings.multus:
                commands.batch(["ip", "-n", node.name], attached.bridge(node))
                route = f"route add {attached.addresses(node)} via {node.address} dev {name}"
                commands.batch(["ip"], [route])
                self.make_network_6(node, name, link, commands)
            # What a bridge passes on within a node is seen there too (bridge-nf-call-iptables, by default).
            commands.run([*inside(node), "iptables-restore", "--noflush"], policies.HOOK)

    def make_network_6(self, node: Node, hub: str, at_node: str, commands: Commands) -> None:
        """A link of IPv6 next to that of IPv4: `deploying.paths.link.connect` has turned it off."""
        at_hub, here = attached.link_6(node, hub, at_node)
        for prefix, link, lines in (([], hub, at_hub), (inside(node), at_node, here)):
            on = [f"net.ipv6.conf.{link}.disable_ipv6=0", "net.ipv6.conf.all.forwarding=1"]
            commands.run([*prefix, "sysctl", "-qw", *on])
            commands.batch([*prefix, "ip"], lines)
        commands.run([*inside(node), "ip6tables-restore", "--noflush"], policies.HOOK)

    def make_certificates(self) -> None:
        """Everybody's certificates and kubeconfigs; one more of the admin's is for the cluster's folder."""
        pki.authority(PKI)
        short = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
        names = [f"DNS:{name}" for name in (*short, f"kubernetes.default.svc.{settings.DOMAIN}")]
        addresses = [f"IP:{address}" for address in ("127.0.0.1", HUB_ADDRESS, settings.SERVICE_ADDRESS)]
        pki.server(PKI, "kube-apiserver", [*names, *addresses])
        here, there = f"https://127.0.0.1:{settings.PORT}", f"https://{HUB_ADDRESS}:{settings.PORT}"
        clients = [
            ("admin", "admin", "system:masters", here),
            ("controller-manager", "system:kube-controller-manager", "", here),
            ("scheduler", "system:kube-scheduler", "", here),
            ("proxy", "system:kube-proxy", "", there),
            ("multus", "multus", "system:masters", there),
        ]
        nodes = [node.name for node in self.settings.nodes]
        clients += [(name, f"system:node:{name}", "system:nodes", there) for name in nodes]
        for name, user, group, url in clients:
            pki.client(PKI, name, user, group)
            write_private(STATE / f"{name}.kubeconfig", pki.kubeconfig(PKI, name, url))
        outside = f"https://127.0.0.1:{self.settings.port}"
        write_private(STATE / "kubeconfig", pki.kubeconfig(PKI, "admin", outside))

    # Programs

    def start(self, name: str, command: list[str], node: Node | None = None) -> None:
        """Start a program under a name, in a node's network or the hub's, with a log of its own."""
        argv = [*(inside(node) if node else []), *command]
        with (LOGS / f"{name}.log").open("ab") as log:
            self.programs[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self, name: str) -> None:
        self.programs[name].kill()
        self.programs[name].wait()

    def wait(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait until a program is ready. Raises WorldError where it ends, or takes too long."""
        deadline = time.monotonic() + START
        while not ready():
            code = self.programs[name].poll()
            if code is not None or time.monotonic() > deadline:
                late = f"not ready after {START:.0f} s"
                outcome = late if code is None else f"ended with exit code {code}"
                tail = (LOGS / f"{name}.log").read_text(errors="replace")[-1500:]
                raise WorldError(f"{name}: {outcome}; {self.folder / 'logs' / name}.log ends: {tail}")
            time.sleep(0.1)

    def start_control_plane(self) -> None:
        """Etcd first, then the API server, then what needs it."""
        self.start("etcd", settings.etcd())
        self.start_api_server()
        if self.settings.multus:
            api.create(api.RESOURCES, attached.RESOURCE)
        self.api_ready.set()
        self.start("kube-controller-manager", settings.controller_manager(scale=not self.settings.nodes))
        self.start("kube-scheduler", settings.scheduler())
        if self.settings.nodes:
            (STATE / "Corefile").write_text(settings.coredns())
            self.start("coredns", [str(settings.PROGRAMS / "coredns"), "-conf", str(STATE / "Corefile")])
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait("kube-controller-manager", lambda: api.there(account))
        if self.settings.nodes:
            self.wait("coredns", names_ready)

    def start_api_server(self) -> None:
        settings.AUDIT.write_text(json.dumps(settings.audit()))
        self.start("kube-apiserver", settings.api_server())
        self.wait("kube-apiserver", lambda: api.there("/readyz"))

    def start_node(self, node: Node) -> None:
        """A node with its images, until it is Ready."""
        for folder in ("cni", "pod-logs", "volume-plugins"):
            (node.home / folder).mkdir(parents=True)
        (node.home / "resolv.conf").write_text("")
        (node.home / "containerd.toml").write_text(settings.containerd(node))
        of_pods, file = settings.network(node), "10-pods.conflist"
        if self.settings.multus:
            of_pods, file = attached.plugin(node), "10-multus.conf"
        (node.home / "cni" / file).write_text(json.dumps(of_pods))
        (node.home / "kubelet.json").write_text(json.dumps(settings.kubelet(node, self.settings.group)))
        (node.home / "proxy.json").write_text(json.dumps(settings.proxy(node)))
        images.furnish(node.home / "containerd", Path(self.settings.images))
        if self.settings.multus:
            self.start(f"{node.name}-dhcp-daemon", attached.dhcp_daemon(node), node)
            self.start(f"{node.name}-dnsmasq", attached.dhcp_server(node), node)
        self.start_containerd(node)
        # A kubelet that finds no API server waits for longer and longer.
        if not self.api_ready.wait(START):
            raise WorldError(f"{node.name}: no API server after {START:.0f} s")
        self.start(f"{node.name}-kube-proxy", [KUBE, "kube-proxy", f"--config={node.home}/proxy.json"], node)
        self.start_kubelet(node)
        self.wait(f"{node.name}-kubelet", lambda: node.name in api.ready_nodes())

    def enforce_policies(self) -> None:
        """Hold pods to NetworkPolicies, as the network plugins of clusters do that can; for ever."""
        commands, programs = Commands(LOGS / "policies.log"), {4: "iptables-restore", 6: "ip6tables-restore"}
        enforced = dict.fromkeys((4, 6) if self.settings.multus else (4,), "")
        try:
            while True:
                made, pods = api.items(api.POLICIES), api.items(api.PODS)
                for version, before in enforced.items():
                    # Without an answer it stays as it is.
                    wanted = before if made is None or pods is None else policies.rules(made, pods, version)
                    if wanted != before:
                        for node in self.settings.nodes:
                            commands.run([*inside(node), programs[version], "--wait", "--noflush"], wanted)
                        enforced[version] = wanted
                time.sleep(LOOK)
        except BaseException:  # a cluster that lets through what it should not proves nothing
            traceback.print_exc()
            os._exit(1)

    def start_containerd(self, node: Node) -> None:
        name = f"{node.name}-containerd"
        self.start(name, ["containerd", "--config", f"{node.home}/containerd.toml"], node)
        self.wait(name, lambda: ctr(node, "version").returncode == 0)

    def start_kubelet(self, node: Node) -> None:
        self.start(f"{node.name}-kubelet", settings.kubelet_command(node), node)

    # What can be asked of a running cluster

    def serve(self, connection: socket.socket) -> None:
        """Answer one request: a line of JSON each way."""
        with connection, connection.makefile("rw") as stream:
            answer: dict[str, Any] = {}
            try:
                asked = json.loads(stream.readline())
                getattr(self, f"do_{asked.pop('do')}")(**asked)
            except Exception as error:
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"}
            with contextlib.suppress(OSError):
                stream.write(json.dumps(answer) + "\n")

    def do_stop_kubelet(self, node: str, pods: bool) -> None:
        found = self.node(node)
        self.stop(f"{node}-kubelet")
        if pods:
            self.stop(f"{node}-containerd")
            # Shims hold the node's containers for containerd.
            for folder in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    words = (folder / "cmdline").read_bytes().decode().split("\0")
                    if "containerd-shim" in words[0] and str(found.socket) in words:
                        os.kill(int(folder.name), signal.SIGKILL)
            groups.kill(f"{self.settings.group}/{node}")

    def do_start_kubelet(self, node: str) -> None:
        found = self.node(node)
        if self.programs[f"{node}-containerd"].poll() is not None:
            self.start_containerd(found)
        if self.programs[f"{node}-kubelet"].poll() is not None:
            self.start_kubelet(found)

    def do_restart_api_server(self, down_for: float) -> None:
        self.stop("kube-apiserver")
        time.sleep(down_for)
        self.start_api_server()

    def do_freeze_api_server(self, seconds: float) -> None:
        process = self.programs["kube-apiserver"]
        process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            process.send_signal(signal.SIGCONT)

    def do_play_nodes(self, count: int) -> None:
        if self.settings.nodes:
            raise WorldError("a cluster with nodes plays none: its controllers would take them for gone")
        if "kwok" not in self.programs:
            self.start("kwok", settings.kwok())
        before = len(api.ready_nodes())
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(play_node, range(before, before + count)))
        self.wait("kwok", lambda: len(api.ready_nodes()) >= before + count)

    def do_load(self, archive: str, nodes: list[str]) -> None:
        self.all(*(partial(import_image, self.node(name), archive) for name in nodes))

    def node(self, name: str) -> Node:
        return next(node for node in self.settings.nodes if node.name == name)


def inside(node: Node) -> list[str]:
    """A prefix for a command: run it in the node's network. `ip netns exec` would hide the cgroups."""
    return ["nsenter", f"--net=/run/netns/{node.name}", "--"]


def ctr(node: Node, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["ctr", "--address", str(node.socket), "--namespace", "k8s.io", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def import_image(node: Node, archive: str) -> None:
    done = ctr(node, "images", "import", archive)
    if done.returncode != 0:
        raise WorldError(f"{node.name}: image {archive}: {done.stderr.strip()}")


def play_node(number: int) -> None:
    name = f"k{number}"
    has = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "type": "kwok", "group": f"g{number // settings.GROUP}"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    api.create("/api/v1/nodes", node | {"status": {"allocatable": has, "capacity": has}})


def names_ready() -> bool:
    """Whether CoreDNS has heard of everything from the API server."""
    with contextlib.suppress(OSError), urllib.request.urlopen("http://127.0.0.1:8181/ready", timeout=5):
        return True
    return False


def write_private(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".new")
    beside.touch(mode=0o600)
    beside.write_text(text)
    beside.rename(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
