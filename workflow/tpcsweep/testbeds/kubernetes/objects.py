# SPDX-License-Identifier: Apache-2.0
"""The objects of a deployment, from `manifests.yaml`. Pure.

Job tpc-<id> (its pod: client and hub) ── owns ── ConfigMap, NetworkPolicy,
Jobs tpc-<id>-src1 …, -srcm, -dst1 …, -dstm (each with one pod: servers and agent)

Each pod has its own Job without retries, because a restarted server would change the deployment.
One Job with an index would do only for servers without addresses and nodes of their own.
"""

import base64
import inspect
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

import yaml
from kubernetes import client as k8s

from tpcsweep.common.installation import PACKAGE
from tpcsweep.deploying.paths.tcp_rates import probe_connections
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.deploying.xrootd.releases import SYSTEM
from tpcsweep.sweeps.parameters import DeploymentParameters, parameters_by_sysctl, sysctls
from tpcsweep.testbeds.kubernetes import placements, pod_templates
from tpcsweep.testbeds.kubernetes.metadata import NODES, POD, PYTHON, Naming
from tpcsweep.testbeds.kubernetes.placements import AGENT, CLIENT, HUB, SERVERS, ServerPlacement
from tpcsweep.testbeds.kubernetes.pod import capabilities, pod_files
from tpcsweep.testbeds.kubernetes.pod_templates import Tree, merged
from tpcsweep.testbeds.kubernetes.settings import Kubernetes, Pair

MANIFESTS: Tree = yaml.safe_load((PACKAGE / "testbeds/kubernetes/manifests.yaml").read_text())
FILLED = {name: str(value) for name, value in vars(pod_files).items() if name.isupper()}
"""Values of $NAMES that are the same in all deployments."""
USER = 10940  # user and group of all processes, as in the image, unless a template says otherwise
SERVER_MEMORY = 1 << 30  # bytes of memory of a server in addition to its files
ARCHIVE = "package"
TRIAL_MARGIN = 60.0  # seconds that the Jobs of a trial may last after its pods should have ended
FINISHED_SECONDS = 30  # seconds for which a Job that has ended remains, so that people can see why
NETWORK = "net1"  # the interface of an attached network, as Multus names the first
NETWORKS = "k8s.v1.cni.cncf.io/networks"
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
"""The annotation in which Multus describes a pod's networks."""
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""The annotation of a pod with the container of which `kubectl logs` prints the log."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODE = "kubernetes.io/hostname"  # the label by which nodes differ
MIB = 2**20
CLIENT_LIMITS = {"cpu": "2", "memory": "2Gi"}
HUB_LIMITS = {"cpu": "250m", "memory": "128Mi"}
"""Limits of the hub, which passes on the samples of all agents ten times a second."""
SMALL = {"cpu": "200m", "memory": "128Mi"}
"""Limits and requests of a container that tries a placement."""
AGENT_CPU, AGENT_MEMORY = 250, 128
"""Thousandths of a core, and MiB, of an agent with few streams that verifies no path."""
SAMPLING_CPU = 0.2
"""Thousandths of a core for each stream. Ten looks a second at a connection take half of that (8 µs a look,
`deploying.linux.sockets`, 200 to 4,000 connections)."""
REDIRECTOR_CPU, REDIRECTOR_MEMORY = 750, 512
"""Thousandths of a core, and MiB: with its agent a core, which shared clusters let idle."""
REDIRECT_CPU = 5
"""Thousandths of a core for each stream that begins a file every second. A redirector gets the client's request, a HEAD
and a GET, and each TLS handshake with its request takes 1.5 ms (XRootD 5.5.3)."""
REDIRECT_MEMORY = 0.25
"""MiB for each stream. XRootD has a buffer of 1 MiB for each connection, but touches the part that a request fills: 600
of them took less than 1 MiB, without sockets and TLS."""
PARTS = (
    *("__init__.py", "common/*.py", "deploying/**/*.py", "measuring/**/*.py"),
    *(f"data/{name}.py" for name in ("__init__", "cell_result", "flag_rules", "flags", "variables")),
    "data/*.toml",
    *("testbeds/__init__.py", "testbeds/node/*.py"),
    *("testbeds/kubernetes/__init__.py", "testbeds/kubernetes/pod/*.py"),
)
"""Files of the package that pods import."""
ZERO = (1980, 1, 1, 0, 0, 0)
"""The earliest time of a file in an archive: the same code makes the same archive."""
KIND = "kubernetes"
SAFE_SYSCTLS = {
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies"),
    *("net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports"),
    *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
    *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
}
"""Sysctls that kubelets allow all pods, since Kubernetes 1.32; they must allow others by `allowedUnsafeSysctls`.
Source: https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/."""
PORTS = (xrootd.PORT, xrootd.CMSD_PORT, xrootd.USUAL.agent, xrootd.USUAL.probe)
"""TCP ports of a server's pod, the only ones by which pods of a deployment reach each other."""


def deployment_jobs(
    naming: Naming,
    settings: Kubernetes,
    pair: Pair,
    wanted: DeploymentParameters,
    streams: int,
    deadline: float,
) -> list[k8s.V1Job]:
    """Return all Jobs of a deployment, the client's first; they end after `deadline` seconds.

    `streams` is the largest number of a cell.
    """
    jobs = [client_job(naming, settings, deadline, pair)]
    for name, side in (("src", pair.source), ("dst", pair.destination)):
        placed = placements.server_placements(side, wanted.origins, host_network=settings.host_network)
        servers = side_servers(name, placed, [name] * len(placed)).servers
        for placement, server in zip(placed, servers, strict=True):
            jobs.append(server_job(naming, settings, placement, server, wanted, streams, deadline))
    return jobs


def side_servers(
    name: str, placed: Sequence[ServerPlacement], addresses: Sequence[str]
) -> xrootd.SideServers:
    """Return the servers of a side at their placements; with several origins the redirector comes first."""
    ports = [pod_files.block(placement.port) for placement in placed]
    origins = list(addresses[1:] or addresses)
    return xrootd.side_servers(name, addresses[0], origins, pod_files.STATE, pod_files.FILES, ports)


def chosen_nodes(pair: Pair) -> set[str]:
    """Return a pair's choices of nodes as texts, by which deployments see each other's nodes."""

    def choice(template: Tree) -> str:
        rules = pod_templates.template_field(template, "spec", "affinity", "nodeAffinity")
        return json.dumps([pod_templates.node_selector(template), rules], sort_keys=True)

    return {choice(each) for _, side in pair.sides for each in placements.server_templates(side)}


def client_job(naming: Naming, settings: Kubernetes, deadline: float, pair: Pair | None = None) -> k8s.V1Job:
    """Return the Job of client and hub, which owns all other objects and ends after `deadline` seconds.

    With a pair, it names the nodes that the deployment chose.
    """
    placed = pair.client if pair else settings.client
    address = placed.addresses[0] if placed.addresses else None
    hub = ["hub", f"{settings.start_time:g}", f"{settings.orphan_time:g}"]
    containers = [
        _container(CLIENT, settings.image, settings, "client_container"),
        _container(HUB, settings.image, settings, *hub),
    ]
    shown = {DEFAULT_CONTAINER: HUB}
    meta = naming.meta("", role="client", annotations=attachment(placed.network, address) | shown)
    limits = {CLIENT: CLIENT_LIMITS, HUB: HUB_LIMITS}
    spec = {**_pod(naming, settings), "containers": containers}
    template = _with_template(naming, settings, meta, spec, placed.podTemplate, limits)
    chosen = {NODES: "\n".join(sorted(chosen_nodes(pair)))} if pair else {}
    own = naming.meta(naming.prefix, role="client", annotations=chosen)
    return _job(own, template, deadline, ttlSecondsAfterFinished=FINISHED_SECONDS)


def server_job(
    naming: Naming,
    settings: Kubernetes,
    placement: ServerPlacement,
    server: xrootd.Server,
    wanted: DeploymentParameters,
    streams: int,
    deadline: float,
) -> k8s.V1Job:
    """Return the Job of a server and its agent at a placement; see `deployment_jobs`."""
    origin, ports, side = server.role == "server", server.ports, server.name[:3]
    cores = {} if wanted.cores is None else {"cpu": f"{wanted.cores / wanted.origins:.3f}"}
    of_origin = {"memory": str(placement.memory + SERVER_MEMORY), **cores}
    limits = {
        SERVERS: of_origin if origin else redirector_limits(streams),
        AGENT: agent_limits(wanted, streams),
    }
    image = settings.server_image or settings.image
    command = ["server_programs", server.name, server.role, wanted.xrootd, str(ports.cmsd), *server.programs]
    servers = _container(SERVERS, image, settings, *command)
    listening = (ports.server, ports.cmsd, ports.agent, ports.probe)
    servers["ports"] = [{"containerPort": port} for port in listening]
    agent = _container(AGENT, image, settings, "agent", *([str(placement.port)] if placement.port else []))
    if settings.paths.kind == "netem" and origin:
        user_field = "spec", "securityContext", "runAsUser"
        user = pod_templates.template_field(placement.template, *user_field) or USER
        become = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        kept = ["--inh-caps=+net_admin", "--ambient-caps=+net_admin"]
        agent = merged(agent, _manifest("emulating_agent"))
        agent["command"] = ["/usr/bin/setpriv", *become, *kept, *agent["command"]]
    of_server = _manifest("server_container")
    values = {"identifier": naming.identifier, "side": side, "memory": str(placement.memory)}
    added = _manifest("server_pod", **values, sysctls=pod_sysctls(settings, wanted) or None)
    spec = merged(_pod(naming, settings), added)
    spec["containers"] = [merged(each, of_server) for each in (servers, agent)]
    annotations = attachment(placement.network, placement.address)
    meta = naming.meta("", role="origin" if origin else "redirector", side=side, annotations=annotations)
    template = _with_template(naming, settings, meta, spec, placement.template, limits)
    return _job(naming.meta(f"{naming.prefix}-{server.name}"), template, deadline)


def agent_limits(wanted: DeploymentParameters, streams: int) -> dict[str, str]:
    """Return the limits of an agent, for the most streams of a cell.

    With cgroups of version 2, data under way in a verification counts as its memory: up to `tcp_buffer` for each
    connection. With less memory the kernel keeps windows too small to fill the path.
    """
    cpu = max(AGENT_CPU, AGENT_CPU / 2 + SAMPLING_CPU * streams)
    buffers = probe_connections(wanted, wanted.origins) * wanted.tcp_buffer / MIB
    return _cpu_and_memory(cpu, AGENT_MEMORY + buffers)


def redirector_limits(streams: int) -> dict[str, str]:
    """Return the limits of a redirector, for the most streams of a cell; it carries no file."""
    memory = max(REDIRECTOR_MEMORY, REDIRECTOR_MEMORY / 2 + REDIRECT_MEMORY * streams)
    return _cpu_and_memory(max(REDIRECTOR_CPU, REDIRECT_CPU * streams), memory)


def _cpu_and_memory(cpu: float, memory: float) -> dict[str, str]:
    return {"cpu": f"{round(cpu)}m", "memory": f"{round(memory)}Mi"}


def other_objects(naming: Naming) -> list[Any]:
    """Return the objects of a deployment that are no Jobs, without content and owner."""
    return [package(naming, None), network_policy(naming, None)]


def package(naming: Naming, owner: k8s.V1Job | None) -> k8s.V1ConfigMap:
    data: dict[str, Any] = {pod_files.PACKAGE.name: base64.b64encode(package_archive()).decode()}
    metadata = naming.meta(f"{naming.prefix}-{ARCHIVE}", owner)
    return k8s.V1ConfigMap(metadata=metadata, immutable=True, binary_data=data)


def package_archive() -> bytes:
    """Return a zip file of some 200 KiB; a ConfigMap may have a MiB."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        for file in sorted(file for part in PARTS for file in PACKAGE.glob(part)):
            entry = zipfile.ZipInfo(str(file.relative_to(PACKAGE.parent)), ZERO)
            made.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return held.getvalue()


def network_policy(naming: Naming, owner: k8s.V1Job | None) -> k8s.V1NetworkPolicy:
    """Return the policy by which pods of a deployment reach each other alone."""
    ports = [{"port": port, "protocol": "TCP"} for port in PORTS]
    spec = _manifest("network_policy", identifier=naming.identifier, ports=ports)
    metadata = naming.meta(naming.prefix, owner)
    return k8s.V1NetworkPolicy(metadata=metadata, spec=k8s.V1NetworkPolicySpec.from_dict(spec))


def sysctls_in_pods(settings: Kubernetes, wanted: DeploymentParameters) -> dict[str, str]:
    """Return the sysctls that must be in force in a server's pod, whether the pod sets them or has the nodes' own.

    Buffers of nodes are not compared: `tcp_buffer` of the testbed gives their largest size alone.
    """
    of_nodes = {"tcp_buffer"} if settings.tcp_buffer is not None else set()
    names = parameters_by_sysctl(KIND)
    return {name: text for name, text in sysctls(KIND, wanted).items() if names[name] not in of_nodes}


def unsafe_sysctls(settings: Kubernetes, wanted: DeploymentParameters) -> dict[str, str]:
    """Return the sysctls of a server's pod that kubelets must allow: those with another value than the nodes' own."""
    nodes = DeploymentParameters().model_copy(update=settings.defaults())
    own = sysctls_in_pods(settings, nodes)
    values = sysctls_in_pods(settings, wanted)
    return {name: text for name, text in values.items() if name not in SAFE_SYSCTLS and text != own.get(name)}


def pod_sysctls(settings: Kubernetes, wanted: DeploymentParameters) -> list[Tree]:
    """Return the sysctls that a server's pod sets: the safe ones, and unsafe ones that differ from the nodes' own.

    Pods in the network of their nodes may set none.
    """
    values = {} if settings.host_network else sysctls_in_pods(settings, wanted)
    needed = SAFE_SYSCTLS | unsafe_sysctls(settings, wanted).keys()
    return [{"name": name, "value": text} for name, text in values.items() if name in needed]


def attachment(network: str | None, address: str | None) -> dict[str, str]:
    """Return the annotation by which Multus attaches a pod to a network, with its address or the network's own."""
    if network is None:
        return {}
    namespace, _, name = network.rpartition("/")
    known = {"namespace": namespace or None, "ips": [address] if address else None}
    return {NETWORKS: json.dumps([pod_templates.pruned({"name": name, "interface": NETWORK, **known})])}


def exclusive_nodes(naming: Naming, group: str | None) -> Tree:
    """Return the term of anti-affinity that keeps pods of other deployments off a node, and this one off theirs.

    It acts on deployments of the namespace, or with a `group` on those of the group in all namespaces, which a quota of
    scope CrossNamespacePodAffinity may forbid.
    """
    term = _manifest("exclusive_nodes", identifier=naming.identifier)
    return merged(term, _manifest("exclusive_group", group=group)) if group else term


def trial_job(job: k8s.V1Job, settings: Kubernetes, *, alone: bool, sysctls: Sequence[str] = ()) -> k8s.V1Job:
    """Return a Job whose pod fails if its image lacks a program, and otherwise runs for a look at it.

    A server's container reports `sysctls` and the releases of XRootD. If `alone`, the pod looks at all images of the
    testbed, otherwise at its own.
    """
    tree = words(job)
    tree["spec"]["activeDeadlineSeconds"] = round(settings.start_time + settings.orphan_time + TRIAL_MARGIN)
    spec = tree["spec"]["template"]["spec"]
    main, watching = spec["containers"]
    looks = [
        each
        for each in image_checks(settings, watching["resources"])
        if alone or each["image"] == main["image"]
    ]
    spec["initContainers"] = [*looks, *spec.get("initContainers", [])]
    if main["name"] == SERVERS:
        seconds = f"{settings.start_time + settings.orphan_time:g}"
        releases = ",".join([SYSTEM, *settings.releases])
        main["command"] = [PYTHON, "-m", f"{POD}.node_report", seconds, releases, ",".join(sysctls)]
    return k8s.V1Job.model_validate(tree)


def renamed(job: k8s.V1Job, naming: Naming, other: Naming) -> k8s.V1Job:
    """Return a Job of one deployment as the Job of another one that is equal."""
    text = json.dumps(words(job)).replace(naming.identifier, other.identifier)
    return k8s.V1Job.model_validate(json.loads(text))


def small_job(job: k8s.V1Job) -> k8s.V1Job:
    """Return a Job whose containers ask for little CPU and memory, to try a placement that has no room for more."""
    tree = words(job)
    for container in tree["spec"]["template"]["spec"]["containers"]:
        container["resources"] = {
            kind: {**values, **SMALL} for kind, values in container["resources"].items()
        }
    return k8s.V1Job.model_validate(tree)


def image_checks(settings: Kubernetes, sizes: Tree) -> list[Tree]:
    """Return init containers that fail if an image lacks a program of its pods, one for each image."""
    programs = [] if settings.releases else ["xrootd", "cmsd"]
    programs += ["ip", *(["tc", "setpriv"] if settings.paths.kind == "netem" else [])]
    needed: dict[str, list[str]] = {settings.image: [], settings.server_image or settings.image: programs}
    made = []
    for number, (image, programs) in enumerate(needed.items(), 1):
        container = _container(f"image-{number}", image, settings, "able")
        del container["volumeMounts"], container["env"]  # the image must have all of it
        container["command"] = [PYTHON, "-c", inspect.getsource(capabilities), *programs]
        made.append({**container, "resources": sizes})
    return made


def template_of(job: k8s.V1Job) -> Tree:
    assert job.spec
    return words(job.spec.template)


def words(model: Any) -> Tree:
    """Return an object of the API as Kubernetes writes it."""
    made: Tree = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made


def _with_template(
    naming: Naming,
    settings: Kubernetes,
    meta: k8s.V1ObjectMeta,
    spec: Tree,
    template: Tree,
    limits: Mapping[str, Mapping[str, str]],
) -> Tree:
    """Return a pod's template: own metadata and specification, and the testbed's template merged over them.

    `limits` are those of each container unless the testbed's template sets others; its `qos` decides the requests.
    """
    whole: Tree = pod_templates.pruned(merged({"metadata": words(meta), "spec": spec}, template))
    for each in whole["spec"]["containers"]:
        name = each["name"]
        limited, requested = (pod_templates.resources(whole, name, kind) for kind in ("limits", "requests"))
        resources = placements.resources(limits[name], limited, requested, settings.qos)
        each["resources"] = {**each.get("resources", {}), **resources}
    rules = whole["spec"].setdefault("affinity", {}).setdefault("podAntiAffinity", {})
    rules[REQUIRED] = [*rules.get(REQUIRED, []), exclusive_nodes(naming, settings.exclusive_group)]
    return whole


def _job(meta: k8s.V1ObjectMeta, template: Tree, deadline: float, **more: int) -> k8s.V1Job:
    made = merged(_manifest("job", deadline=round(deadline)), {"spec": {**more, "template": template}})
    return k8s.V1Job.model_validate({**made, "metadata": words(meta)})


def _pod(naming: Naming, settings: Kubernetes) -> Tree:
    """Return a pod's specification without containers."""
    known = {"deployment": naming.prefix, "user": USER}
    return _manifest("pod", **known, host_network=settings.host_network or None)


def _container(name: str, image: str, settings: Kubernetes, module: str, *arguments: str) -> Tree:
    command = [PYTHON, "-m", f"{POD}.{module}", *arguments]
    known = {"name": name, "image": image, "pull_policy": settings.pull_policy}
    return _manifest("container", **known, command=command)


def _manifest(part: str, **values: Any) -> Tree:
    """Return a part of MANIFESTS with values for its $names."""
    tree: Tree = _filled(MANIFESTS[part], {**FILLED, **values})
    return tree


def _filled(manifest: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(manifest, dict):
        return {name: _filled(each, values) for name, each in manifest.items()}
    if isinstance(manifest, list):
        return [_filled(each, values) for each in manifest]
    if not isinstance(manifest, str):
        return manifest
    alone = manifest.startswith("$") and manifest[1:] in values  # such a value keeps its type
    return values[manifest[1:]] if alone else Template(manifest).substitute(values)
