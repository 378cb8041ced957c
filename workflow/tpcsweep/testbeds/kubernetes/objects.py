# SPDX-License-Identifier: Apache-2.0
"""The objects of a deployment, as typed objects of the Kubernetes API. Pure.

Job tpc-<id> (its pod: client and hub) ── owns ── Secrets, ConfigMap, NetworkPolicy,
pods tpc-<id>-src1 …, -srcm, -dst1 …, -dstm
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kubernetes import client as k8s
from pydantic import ValidationError

from tpcsweep.configuration.kubernetes import Kubernetes, Placement
from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.configuration.problems import Problem, key, quoted
from tpcsweep.testbeds.kubernetes.metadata import DEPLOYMENT, SIDE, Naming
from tpcsweep.testbeds.kubernetes.pod import places
from tpcsweep.testbeds.kubernetes.pod.hub import CLIENT
from tpcsweep.xrootd import servers as xrootd

USER = 10940
"""User and group of all processes, as in the image."""
POD = "tpcsweep.testbeds.kubernetes.pod"
AS_USER = (
    *("/usr/bin/setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
    *("--inh-caps=+net_admin", "--ambient-caps=+net_admin"),
)
"""A command becomes that user and keeps NET_ADMIN for what it starts, as no container can be told to by Kubernetes."""
SMALL_CPU, SMALL_MEMORY = "10m", "32Mi"
"""What is requested where little is to be requested."""
AGENT = ("250m", "128Mi")
"""CPU and memory of agents and of the hub."""
REDIRECTOR = ("1", "512Mi")
SERVER_MEMORY = 1 << 30
"""Memory of a server beside its files, bytes."""
STATE_SIZE = "64Mi"
FINISHED_SECONDS = 30
"""How long a Job that has ended stays, so that it can be seen why."""
GRACE_SECONDS = 2
NETWORK = "net1"
"""The interface of an attached network, as Multus names the first."""
NETWORKS = "k8s.v1.cni.cncf.io/networks"
NODE = "kubernetes.io/hostname"
"""The label that tells nodes apart."""
SECRETS: Mapping[str, Callable[[str], bool]] = {
    CLIENT: lambda name: name.startswith(("ca", "user", places.COMPLETE)),
    "servers": lambda name: not name.startswith("user"),
}
"""Which credentials the client has in a Secret, and which the servers."""
PORTS = (xrootd.PORT, xrootd.CMSD_PORT, places.AGENT_PORT, places.PROBE_PORT)
"""Of a server's pod, all TCP: the only ones by which pods of a deployment talk to each other."""
SCRAPED = {
    "prometheus.io/scrape": "true",
    "prometheus.io/port": str(places.METRICS_PORT),
    "prometheus.io/path": places.METRICS_PATH,
}
"""Annotations by which most Prometheus servers find what they are to ask."""
NOBODY = xrootd.LOOPBACK
"""The name server of all pods, at which nobody listens.

Everything is called by its address, and whoever looks for a name nevertheless is refused at once. XRootD looks for its
peers' as it starts: for ten seconds where a name server is asked that the network lets nothing through to.
"""


def unfit(settings: Kubernetes) -> Iterator[Problem]:
    """Give what a testbed passes through to pods and no pod can have, as far as Python's client knows."""
    sides = [
        (("paths", "pairs", index, side), placement)
        for index, pair in enumerate(settings.paths.pairs)
        for side, placement in pair.sides
    ]
    for place, placed in [*sides, (("client",), settings.client)]:
        try:
            k8s.V1PodSpec(
                containers=[],
                affinity=placed.affinity or None,  # type: ignore[arg-type]
                tolerations=list(placed.tolerations) or None,  # type: ignore[arg-type]
            )
        except ValidationError as error:
            for detail in error.errors():
                yield Problem(key((*place, *detail["loc"])), quoted(detail["input"]), detail["msg"])


def job(naming: Naming, settings: Kubernetes, deadline: float, *, everywhere: bool = True) -> k8s.V1Job:
    """The owner of everything else; its pod has the client and the hub. It ends after `deadline` seconds.

    `everywhere` is explained by `apart`.
    """
    placed = settings.client
    scraped = SCRAPED if settings.metrics else {}
    annotations = {**scraped, **placed.annotations, **attachment(placed, 0)}
    kept = apart(naming, placed, everywhere=everywhere)
    client = (f"{settings.client_cores:g}", str(settings.client_memory))
    hub = ["hub", f"{settings.start_time:g}", f"{settings.orphan_time:g}", *(["metrics"] if scraped else [])]
    containers = [
        _container("client", settings, ["client"], client, placed.resources),
        _container("hub", settings, hub, AGENT),
    ]
    return k8s.V1Job(
        metadata=naming.meta(naming.prefix),
        spec=k8s.V1JobSpec(
            backoff_limit=0,
            active_deadline_seconds=round(deadline),
            ttl_seconds_after_finished=FINISHED_SECONDS,
            template=k8s.V1PodTemplateSpec(
                metadata=naming.meta("", role="client", annotations=annotations),
                spec=_pod_spec(settings, placed, kept, containers, _volumes(naming, "client")),
            ),
        ),
    )


def server_pod(
    naming: Naming,
    settings: Kubernetes,
    placed: Placement,
    server: xrootd.Server,
    number: int,
    wanted: DeploymentParameters,
    owner: k8s.V1Job,
    *,
    everywhere: bool = True,
) -> k8s.V1Pod:
    """The pod of a server: its own container, and the agent's.

    `number` is its place among its side's addresses; `everywhere` is explained by `apart`.
    """
    origin = server.role == "server"
    side = server.name[:3]
    cores = None if wanted.cores is None else f"{wanted.cores / wanted.origins:.3f}"
    limits = (cores, str(settings.memory + SERVER_MEMORY)) if origin else REDIRECTOR
    command = ["servers", server.name, server.role, wanted.xrootd, *server.programs]
    files = [_mount("files", places.FILES)]
    servers = _container("servers", settings, command, limits, placed.resources, files)
    servers.ports = [k8s.V1ContainerPort(container_port=port) for port in PORTS]
    emulates = settings.paths.kind == "netem" and origin
    agent = _container("agent", settings, ["agent"], AGENT, mounts=files, emulates=emulates)
    volumes = [*_volumes(naming, "servers"), _in_memory("files", str(settings.memory))]
    kept = apart(naming, placed, everywhere=everywhere)
    spec = _pod_spec(settings, placed, kept, [servers, agent], volumes)
    assert spec.security_context
    spec.security_context.sysctls = sysctls(settings, wanted)
    if not placed.affinity:  # the origins of a side on as many nodes as there are
        spread = k8s.V1TopologySpreadConstraint(
            max_skew=1,
            topology_key=NODE,
            when_unsatisfiable="ScheduleAnyway",
            label_selector=k8s.V1LabelSelector(match_labels={DEPLOYMENT: naming.identifier, SIDE: side}),
        )
        spec.topology_spread_constraints = [spread]
    name, role = f"{naming.prefix}-{server.name}", "origin" if origin else "redirector"
    annotations = {**placed.annotations, **attachment(placed, number)}
    return k8s.V1Pod(metadata=naming.meta(name, owner, role, side, annotations), spec=spec)


def secret(naming: Naming, of: str, files: Mapping[str, bytes], owner: k8s.V1Job) -> k8s.V1Secret:
    """Credentials of `servers` or of the `client`."""
    data: dict[str, Any] = {name: base64.b64encode(content).decode() for name, content in files.items()}
    metadata = naming.meta(f"{naming.prefix}-{of}", owner)
    return k8s.V1Secret(metadata=metadata, type="Opaque", immutable=True, data=data)


def config_map(naming: Naming, files: Mapping[str, str], owner: k8s.V1Job) -> k8s.V1ConfigMap:
    return k8s.V1ConfigMap(metadata=naming.meta(naming.prefix, owner), immutable=True, data=dict(files))


def network_policy(naming: Naming, owner: k8s.V1Job, *, metrics: bool = False) -> k8s.V1NetworkPolicy:
    """The pods of a deployment talk to each other by PORTS and to nobody else; `metrics`: anybody asks for those."""
    ours = {"matchLabels": {DEPLOYMENT: naming.identifier}}
    peers = [{"podSelector": ours}]
    *ports, asked = [{"port": port, "protocol": "TCP"} for port in (*PORTS, places.METRICS_PORT)]
    spec = {
        "podSelector": ours,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": peers, "ports": ports}, *([{"ports": [asked]}] if metrics else [])],
        "egress": [{"to": peers, "ports": ports}],
    }
    metadata = naming.meta(naming.prefix, owner)
    return k8s.V1NetworkPolicy(metadata=metadata, spec=k8s.V1NetworkPolicySpec.from_dict(spec))


def sysctls(settings: Kubernetes, wanted: DeploymentParameters) -> list[k8s.V1Sysctl] | None:
    """What is set in the network of a server's pod.

    Buffers are safe sysctls since Kubernetes 1.32; another congestion control than the nodes' own is an unsafe one,
    which kubelets must allow. https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/
    """
    values = {} if settings.tcp_buffer is not None else xrootd.buffer_sysctls(wanted.tcp_buffer)
    if wanted.congestion_control != settings.congestion_controls[0]:
        values["net.ipv4.tcp_congestion_control"] = wanted.congestion_control
    return [k8s.V1Sysctl(name=name, value=value) for name, value in values.items()] or None


def attachment(placed: Placement, number: int) -> dict[str, str]:
    """The annotation by which Multus attaches a pod to a network, with its address."""
    if placed.network is None:
        return {}
    namespace, _, name = placed.network.rpartition("/")
    network: dict[str, Any] = {"name": name, "interface": NETWORK, "ips": [placed.addresses[number]]}
    if namespace:
        network["namespace"] = namespace
    return {NETWORKS: json.dumps([network])}


def apart(naming: Naming, placed: Placement, *, everywhere: bool) -> k8s.V1Affinity:
    """The affinity asked for, and that a node has no pod of another deployment, by whatever the node is chosen.

    The scheduler sees to it, both ways round, and asks nobody for a right. With `everywhere` the deployments of all
    namespaces count, which a quota may forbid (CrossNamespacePodAffinity); without it, those of this namespace.
    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#namespace-selector
    """
    of_another = [
        k8s.V1LabelSelectorRequirement(key=DEPLOYMENT, operator="Exists"),
        k8s.V1LabelSelectorRequirement(key=DEPLOYMENT, operator="NotIn", values=[naming.identifier]),
    ]
    term = k8s.V1PodAffinityTerm(
        label_selector=k8s.V1LabelSelector(match_expressions=of_another),
        namespace_selector=k8s.V1LabelSelector() if everywhere else None,  # an empty one selects all
        topology_key=NODE,
    )
    affinity = k8s.V1Affinity.model_validate(placed.affinity)
    rules = affinity.pod_anti_affinity or k8s.V1PodAntiAffinity()
    given = rules.required_during_scheduling_ignored_during_execution or []
    rules.required_during_scheduling_ignored_during_execution = [*given, term]
    affinity.pod_anti_affinity = rules
    return affinity


def _pod_spec(
    settings: Kubernetes,
    placed: Placement,
    affinity: k8s.V1Affinity,
    containers: list[k8s.V1Container],
    volumes: list[k8s.V1Volume],
) -> k8s.V1PodSpec:
    return k8s.V1PodSpec(
        containers=containers,
        volumes=volumes,
        restart_policy="Never",
        termination_grace_period_seconds=GRACE_SECONDS,
        automount_service_account_token=False,
        enable_service_links=False,
        host_network=settings.host_network or None,
        dns_policy="None",
        dns_config=k8s.V1PodDNSConfig(nameservers=[NOBODY]),
        node_selector=placed.node_selector or None,
        affinity=affinity,
        tolerations=list(placed.tolerations) or None,  # type: ignore[arg-type]
        image_pull_secrets=[k8s.V1LocalObjectReference(name=name) for name in settings.pull_secrets] or None,
        security_context=k8s.V1PodSecurityContext(
            run_as_non_root=True,
            run_as_user=USER,
            run_as_group=USER,
            fs_group=USER,
            seccomp_profile=k8s.V1SeccompProfile(type="RuntimeDefault"),
        ),
    )


def _container(
    name: str,
    settings: Kubernetes,
    command: Sequence[str],
    limits: tuple[str | None, str],
    extended: Mapping[str, str] | None = None,
    mounts: Sequence[k8s.V1VolumeMount] = (),
    *,
    emulates: bool = False,
) -> k8s.V1Container:
    """A container of any pod; `command` is a module of `pod` and its arguments.

    One that `emulates` begins as root, with the rights to become another user and to keep NET_ADMIN, for AS_USER.
    """
    cpu, memory = limits
    limited = {"memory": memory, **({"cpu": cpu} if cpu else {}), **(extended or {})}
    little = {"cpu": SMALL_CPU, "memory": SMALL_MEMORY, **(extended or {})}
    added = ["NET_ADMIN", "SETGID", "SETUID"] if emulates else None
    run = ["/usr/bin/python3", "-m", f"{POD}.{command[0]}", *command[1:]]
    return k8s.V1Container(
        name=name,
        image=settings.image,
        image_pull_policy=settings.pull_policy,
        command=[*AS_USER, *run] if emulates else run,
        resources=k8s.V1ResourceRequirements(
            limits=limited, requests=limited if settings.qos == "guaranteed" else little
        ),
        volume_mounts=[
            _mount("state", places.STATE),
            # XRootD writes there, whatever it is told.
            k8s.V1VolumeMount(name="state", mount_path="/tmp", sub_path="tmp"),  # noqa: S108
            _mount("credentials", places.CREDENTIALS, read_only=True),
            _mount("configuration", places.CONFIGURATION, read_only=True),
            *mounts,
        ],
        termination_message_policy="FallbackToLogsOnError",
        security_context=k8s.V1SecurityContext(
            run_as_user=0 if emulates else None,
            run_as_non_root=False if emulates else None,
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            capabilities=k8s.V1Capabilities(drop=["ALL"], add=added),
        ),
    )


def _volumes(naming: Naming, of: str) -> list[k8s.V1Volume]:
    """Those of every pod.

    Certificates and configuration hold the pods' addresses, so they come when the pods are there already.
    """
    secret = k8s.V1SecretVolumeSource(secret_name=f"{naming.prefix}-{of}", optional=True, default_mode=0o440)
    configuration = k8s.V1ConfigMapVolumeSource(name=naming.prefix, optional=True)
    return [
        _in_memory("state", STATE_SIZE),
        k8s.V1Volume(name="credentials", secret=secret),
        k8s.V1Volume(name="configuration", config_map=configuration),
    ]


def _in_memory(name: str, size: str) -> k8s.V1Volume:
    return k8s.V1Volume(name=name, empty_dir=k8s.V1EmptyDirVolumeSource(medium="Memory", size_limit=size))


def _mount(name: str, path: Any, *, read_only: bool = False) -> k8s.V1VolumeMount:
    return k8s.V1VolumeMount(name=name, mount_path=str(path), read_only=read_only or None)
