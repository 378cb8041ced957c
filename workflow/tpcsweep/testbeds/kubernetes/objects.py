# SPDX-License-Identifier: Apache-2.0
"""The objects of a deployment, as typed objects of the Kubernetes API. Pure.

Job tpc-<id> (its pod: client and hub) ── owns ── Secrets, ConfigMaps, NetworkPolicy,
Jobs tpc-<id>-src1 …, -srcm, -dst1 …, -dstm (of each one pod: servers and agent)

Every pod has a Job of its own, which never gives it a successor: a deployment in which a server is younger than the
others is not what was asked for. One Job with an index would do for servers that differ in nothing but their numbers;
these have addresses and places of their own.
"""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubernetes import client as k8s

from tpcsweep.configuration import templates
from tpcsweep.configuration.kubernetes import Kubernetes
from tpcsweep.configuration.parameters import DeploymentParameters
from tpcsweep.configuration.placements import AGENT, CLIENT, HUB, SERVERS, Spot, resources
from tpcsweep.configuration.templates import Tree
from tpcsweep.testbeds.kubernetes import archive, sizes
from tpcsweep.testbeds.kubernetes.metadata import DEPLOYMENT, POD, PYTHON, SIDE, Naming
from tpcsweep.testbeds.kubernetes.pod import able, places
from tpcsweep.xrootd import servers as xrootd

USER = 10940
"""User and group of all processes, as in the image, unless a template says otherwise."""
SERVER_MEMORY = 1 << 30
"""Memory of a server beside its files, bytes."""
PACKAGE = "package"
STATE_SIZE = "64Mi"
FINISHED_SECONDS = 30
"""How long a Job that has ended stays, so that it can be seen why."""
GRACE_SECONDS = 2
NETWORK = "net1"
"""The interface of an attached network, as Multus names the first."""
NETWORKS = "k8s.v1.cni.cncf.io/networks"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
"""The annotation in which Multus tells a pod's networks."""
NODE = "kubernetes.io/hostname"
"""The label that tells nodes apart."""
SECRETS: Mapping[str, Callable[[str], bool]] = {
    CLIENT: lambda name: name.startswith(("ca", "user", places.COMPLETE)),
    "servers": lambda name: not name.startswith("user"),
}
"""Which credentials the client has in a Secret, and which the servers."""
PORTS = (xrootd.PORT, xrootd.CMSD_PORT, xrootd.USUAL.agent, xrootd.USUAL.probe)
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


def client_job(
    naming: Naming, settings: Kubernetes, deadline: float, *, everywhere: bool = True
) -> k8s.V1Job:
    """The owner of everything else; its pod has the client and the hub. It ends after `deadline` seconds.

    `everywhere` is explained by `apart`.
    """
    placed = settings.client
    address = placed.addresses[0] if placed.addresses else None
    scraped = SCRAPED if settings.metrics else {}
    hub = ["hub", f"{settings.start_time:g}", f"{settings.orphan_time:g}", *(["metrics"] if scraped else [])]
    containers = [
        _container(CLIENT, settings.image, settings, ["client"]),
        _container(HUB, settings.image, settings, hub),
    ]
    annotations = {**scraped, **attachment(placed.network, address)}
    pod = naming.meta("", role="client", annotations=annotations)
    spec = _pod_spec(settings, containers, _volumes(naming, "client"))
    limits = {CLIENT: sizes.CLIENT, HUB: sizes.HUB}
    whole = _whole(pod, spec, placed.podTemplate, limits, settings.qos, apart(naming, everywhere=everywhere))
    made = _job(naming.meta(naming.prefix), whole, deadline)
    assert made.spec
    made.spec.ttl_seconds_after_finished = FINISHED_SECONDS
    return made


def server_job(
    naming: Naming,
    settings: Kubernetes,
    spot: Spot,
    server: xrootd.Server,
    wanted: DeploymentParameters,
    streams: int,
    owner: k8s.V1Job | None,
    deadline: float,
    *,
    everywhere: bool = True,
) -> k8s.V1Job:
    """The Job of a server at its spot; its pod has the servers' container, and the agent's.

    It ends after `deadline` seconds.

    `streams` is the most that a cell has; `everywhere` is explained by `apart`.
    """
    origin, ports = server.role == "server", server.ports
    side, image = server.name[:3], settings.server_image or settings.image
    cores = {} if wanted.cores is None else {"cpu": f"{wanted.cores / wanted.origins:.3f}"}
    of_origin = {"memory": str(spot.memory + SERVER_MEMORY), **cores}
    limits = {
        SERVERS: of_origin if origin else sizes.redirector(streams),
        AGENT: sizes.agent(wanted, streams),
    }
    command = ["servers", server.name, server.role, wanted.xrootd, str(ports.cmsd), *server.programs]
    files = [_mount("files", places.FILES)]
    servers = _container(SERVERS, image, settings, command, files)
    listening = (ports.server, ports.cmsd, ports.agent, ports.probe)
    servers.ports = [k8s.V1ContainerPort(container_port=port) for port in listening]
    watching = ["agent", *([str(spot.port)] if spot.port else [])]
    emulates = settings.paths.kind == "netem" and origin
    user = (templates.spec_of(spot.template, "securityContext") or {}).get("runAsUser") or USER
    agent = _container(AGENT, image, settings, watching, files, emulates_as=user if emulates else None)
    volumes = [*_volumes(naming, "servers"), _in_memory("files", str(spot.memory))]
    spec = _pod_spec(settings, [servers, agent], volumes)
    assert spec.security_context
    spec.security_context.sysctls = pod_sysctls(settings, wanted)
    spread = k8s.V1TopologySpreadConstraint(  # the origins of a side on as many nodes as there are
        max_skew=1,
        topology_key=NODE,
        when_unsatisfiable="ScheduleAnyway",
        label_selector=k8s.V1LabelSelector(match_labels={DEPLOYMENT: naming.identifier, SIDE: side}),
    )
    spec.topology_spread_constraints = [spread]
    name, role = f"{naming.prefix}-{server.name}", "origin" if origin else "redirector"
    pod = naming.meta("", role=role, side=side, annotations=attachment(spot.network, spot.address))
    kept = apart(naming, everywhere=everywhere)
    whole = _whole(pod, spec, spot.template, limits, settings.qos, kept)
    return _job(naming.meta(name, owner), whole, deadline)


def secret(naming: Naming, of: str, files: Mapping[str, bytes], owner: k8s.V1Job) -> k8s.V1Secret:
    """Credentials of `servers` or of the `client`."""
    data: dict[str, Any] = {name: base64.b64encode(content).decode() for name, content in files.items()}
    metadata = naming.meta(f"{naming.prefix}-{of}", owner)
    return k8s.V1Secret(metadata=metadata, type="Opaque", immutable=True, data=data)


def config_map(naming: Naming, files: Mapping[str, str], owner: k8s.V1Job) -> k8s.V1ConfigMap:
    return k8s.V1ConfigMap(metadata=naming.meta(naming.prefix, owner), immutable=True, data=dict(files))


def package(naming: Naming, owner: k8s.V1Job) -> k8s.V1ConfigMap:
    """What pods run of this package."""
    data: dict[str, Any] = {places.PACKAGE.name: base64.b64encode(archive.package_archive()).decode()}
    metadata = naming.meta(f"{naming.prefix}-{PACKAGE}", owner)
    return k8s.V1ConfigMap(metadata=metadata, immutable=True, binary_data=data)


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


def pod_sysctls(settings: Kubernetes, wanted: DeploymentParameters) -> list[k8s.V1Sysctl] | None:
    """What is set in the network of a server's pod.

    Buffers are safe sysctls since Kubernetes 1.32; another congestion control than the nodes' own is an unsafe one,
    which kubelets must allow. https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/
    """
    values = {} if settings.tcp_buffer is not None else xrootd.buffer_sysctls(wanted.tcp_buffer)
    if wanted.congestion_control != settings.congestion_controls[0]:
        values["net.ipv4.tcp_congestion_control"] = wanted.congestion_control
    return [k8s.V1Sysctl(name=name, value=value) for name, value in values.items()] or None


def attachment(network: str | None, address: str | None) -> dict[str, str]:
    """The annotation by which Multus attaches a pod to a network, with its address or the network's own."""
    if network is None:
        return {}
    namespace, _, name = network.rpartition("/")
    attached: dict[str, Any] = {"name": name, "interface": NETWORK}
    if address:
        attached["ips"] = [address]
    if namespace:
        attached["namespace"] = namespace
    return {NETWORKS: json.dumps([attached])}


def apart(naming: Naming, *, everywhere: bool) -> Tree:
    """The term of anti-affinity by which a node has no pod of another deployment, by whatever the node is chosen.

    The scheduler sees to it, both ways round, and asks nobody for a right. With `everywhere` the deployments of all
    namespaces count, which a quota may forbid (CrossNamespacePodAffinity); without it, those of this namespace.
    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#namespace-selector
    """
    of_another = [
        {"key": DEPLOYMENT, "operator": "Exists"},
        {"key": DEPLOYMENT, "operator": "NotIn", "values": [naming.identifier]},
    ]
    term = {"labelSelector": {"matchExpressions": of_another}, "topologyKey": NODE}
    return {**term, "namespaceSelector": {}} if everywhere else term  # an empty one selects all


def checks(settings: Kubernetes, sizes_of: k8s.V1ResourceRequirements | None) -> list[k8s.V1Container]:
    """Containers that look at each image, and end badly where it lacks what its pods need: for a trial's pod.

    They have the same requests and limits as its hub.
    """
    programs = [] if settings.releases else ["xrootd", "cmsd"]
    programs += ["ip", *(["tc", "setpriv"] if settings.paths.kind == "netem" else [])]
    needed: dict[str, list[str]] = {settings.image: [], settings.server_image or settings.image: programs}
    return [
        k8s.V1Container(
            name=f"image-{number}",
            image=image,
            image_pull_policy=settings.pull_policy,
            command=[PYTHON, "-c", inspect.getsource(able), *programs],
            resources=sizes_of,
            termination_message_policy="FallbackToLogsOnError",
            security_context=_contained(),
        )
        for number, (image, programs) in enumerate(needed.items(), 1)
    ]


def _whole(
    pod: k8s.V1ObjectMeta,
    spec: k8s.V1PodSpec,
    template: Tree,
    limits: Mapping[str, Mapping[str, str]],
    qos: str,
    kept: Tree,
) -> k8s.V1PodTemplateSpec:
    """The template of a pod with the testbed's merged over it.

    Args:
        pod: Its own metadata.
        spec: Its own specification, whose containers have no resources yet.
        template: The testbed's.
        limits: Of its containers, by their names, where the testbed says nothing else.
        qos: The testbed's, which decides what is requested of limits.
        kept: The term of anti-affinity that it has in any case.
    """
    own = _words(k8s.V1PodTemplateSpec(metadata=pod, spec=spec))
    whole = templates.pruned(templates.merged(own, template))
    for each in whole["spec"]["containers"]:
        name = each["name"]
        said = {kind: templates.resources(whole, name, kind) for kind in ("limits", "requests")}
        own_and_said = resources(limits[name], said["limits"], said["requests"], qos)
        each["resources"] = {**each.get("resources", {}), **own_and_said}
    rules = whole["spec"].setdefault("affinity", {}).setdefault("podAntiAffinity", {})
    rules[REQUIRED] = [*rules.get(REQUIRED, []), kept]
    return k8s.V1PodTemplateSpec.model_validate(whole)


def template_of(job: k8s.V1Job) -> Tree:
    """The template of a Job's pod, in Kubernetes' own words."""
    assert job.spec
    return _words(job.spec.template)


def _words(template: k8s.V1PodTemplateSpec) -> Tree:
    return template.model_dump(mode="json", by_alias=True, exclude_none=True)


def _job(meta: k8s.V1ObjectMeta, template: k8s.V1PodTemplateSpec, deadline: float) -> k8s.V1Job:
    """A Job of one pod, which has no successor: neither when it has ended, nor while it is being deleted."""
    return k8s.V1Job(
        api_version="batch/v1",
        kind="Job",
        metadata=meta,
        spec=k8s.V1JobSpec(
            backoff_limit=0,
            pod_replacement_policy="Failed",
            active_deadline_seconds=round(deadline),
            template=template,
        ),
    )


def _pod_spec(
    settings: Kubernetes, containers: list[k8s.V1Container], volumes: list[k8s.V1Volume]
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
    image: str,
    settings: Kubernetes,
    command: Sequence[str],
    mounts: Sequence[k8s.V1VolumeMount] = (),
    *,
    emulates_as: int | None = None,
) -> k8s.V1Container:
    """A container of any pod; `command` is a module of `pod` and its arguments.

    One that emulates as a user begins as root, with the rights to become that user and to keep NET_ADMIN for what it
    starts, as no container can be told to by Kubernetes.
    """
    module, *arguments = command
    run = [PYTHON, "-m", f"{POD}.{module}", *arguments]
    emulates = emulates_as is not None
    if emulates:
        become = [f"--reuid={emulates_as}", f"--regid={emulates_as}", "--clear-groups"]
        run = ["/usr/bin/setpriv", *become, "--inh-caps=+net_admin", "--ambient-caps=+net_admin", *run]
    return k8s.V1Container(
        name=name,
        image=image,
        image_pull_policy=settings.pull_policy,
        command=run,
        env=[k8s.V1EnvVar(name="PYTHONPATH", value=str(places.PACKAGE))],
        volume_mounts=[
            _mount(PACKAGE, places.PACKAGE.parent, read_only=True),
            _mount("state", places.STATE),
            # XRootD writes there, whatever it is told.
            k8s.V1VolumeMount(name="state", mount_path="/tmp", sub_path="tmp"),  # noqa: S108
            _mount("credentials", places.CREDENTIALS, read_only=True),
            _mount("configuration", places.CONFIGURATION, read_only=True),
            *mounts,
        ],
        termination_message_policy="FallbackToLogsOnError",
        security_context=_contained(emulates=emulates),
    )


def _contained(*, emulates: bool = False) -> k8s.V1SecurityContext:
    added = ["NET_ADMIN", "SETGID", "SETUID"] if emulates else None
    return k8s.V1SecurityContext(
        run_as_user=0 if emulates else None,
        run_as_non_root=False if emulates else None,
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=k8s.V1Capabilities(drop=["ALL"], add=added),
    )


def _volumes(naming: Naming, of: str) -> list[k8s.V1Volume]:
    # Certificates and configuration hold the pods' addresses, so they come when the pods are there already.
    secret = k8s.V1SecretVolumeSource(secret_name=f"{naming.prefix}-{of}", optional=True, default_mode=0o440)
    configuration = k8s.V1ConfigMapVolumeSource(name=naming.prefix, optional=True)
    code = k8s.V1ConfigMapVolumeSource(name=f"{naming.prefix}-{PACKAGE}")
    return [
        k8s.V1Volume(name=PACKAGE, config_map=code),
        _in_memory("state", STATE_SIZE),
        k8s.V1Volume(name="credentials", secret=secret),
        k8s.V1Volume(name="configuration", config_map=configuration),
    ]


def _in_memory(name: str, size: str) -> k8s.V1Volume:
    return k8s.V1Volume(name=name, empty_dir=k8s.V1EmptyDirVolumeSource(medium="Memory", size_limit=size))


def _mount(name: str, path: Any, *, read_only: bool = False) -> k8s.V1VolumeMount:
    return k8s.V1VolumeMount(name=name, mount_path=str(path), read_only=read_only or None)
