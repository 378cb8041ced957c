# SPDX-License-Identifier: Apache-2.0
"""Short pods at every distinct placement of a sweep: whether they start there, and what their kernels have.

Pods of one wave belong to one deployment, as in a sweep, so that nodes must have room for all of them. The client's Job
owns all other objects, and the wave is removed on every way out.
"""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kubernetes.client import V1Job, V1Pod

from tpcsweep.common import signals
from tpcsweep.deploying.linux.sysctls import mismatches
from tpcsweep.sweeps.parameters import DeploymentParameters, parameters_by_sysctl
from tpcsweep.testbeds.interface import Finding
from tpcsweep.testbeds.kubernetes import deployments, faults, objects
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, call, create_object
from tpcsweep.testbeds.kubernetes.metadata import Naming, node_name, object_metadata, object_name, reference
from tpcsweep.testbeds.kubernetes.placements import CLIENT, CPU, SERVERS, resource_amount
from tpcsweep.testbeds.kubernetes.pods import server_name
from tpcsweep.testbeds.kubernetes.rehearsal import Planned, likeness
from tpcsweep.testbeds.kubernetes.session import Session, SessionError
from tpcsweep.testbeds.kubernetes.settings import Kubernetes
from tpcsweep.testbeds.kubernetes.watch import REPORT_SECONDS, SLOW_SECONDS, PodWatch

POLL = 0.5
REPORT_WAIT = 30.0  # seconds for the report of a pod that runs
REPORT = "report: "  # begins the line of `pod.node_report`
IMAGES, PODS, KERNEL, PROGRAMS = "images", "pods", "kernel settings", "servers"
FORBIDDEN = "SysctlForbidden"  # a kubelet's reason for not running a pod
CHECKS = (IMAGES, PODS, KERNEL, PROGRAMS)
Status = Literal["ok", "failed", "skipped"]


class Outcome(NamedTuple):
    """The last check that a pod has come to, and how that ended."""

    check: str
    status: Status
    reason: str = ""
    ran: bool = True
    """Whether the pod has run, so that all earlier checks went well."""


def waves(distinct: Iterable[Planned]) -> list[list[Planned]]:
    """Group the distinct placements of a sweep by pair, with one pod of a server in each wave. Pure.

    Pods that differ only in resources are tried once, with the most CPU, and safe sysctls with any value.
    """
    largest: dict[str, Planned] = {}
    for planned in sorted(distinct, key=lambda each: -_cpu(each.job)):
        largest.setdefault(_placement(planned.job), planned)
    made: list[list[Planned]] = []
    for planned in sorted(largest.values(), key=lambda each: each.subject):
        for wave in made:
            if wave[0].pair is planned.pair and planned.name not in {each.name for each in wave}:
                wave.append(planned)
                break
        else:
            made.append([planned])
    return made


def rows(planned: Planned, outcome: Outcome) -> Iterator[Finding]:
    """Yield all checks of a placement, also the skipped ones after its outcome. Pure."""
    checks = CHECKS[:2] if planned.name == CLIENT else CHECKS
    at = checks.index(outcome.check)
    why = outcome.reason if outcome.status == "skipped" else f"{outcome.check} failed"
    for number, check in enumerate(checks):
        if number == at:
            yield Finding(planned.subject, check, outcome.status, outcome.reason)
        elif number < at and outcome.ran:
            yield Finding(planned.subject, check, "ok")
        else:
            yield Finding(planned.subject, check, "skipped", why)


def pod_outcome(pod: V1Pod, seconds: float) -> Outcome | None:
    """Return what has become of a pod `seconds` after its creation; None while it starts. Pure."""
    if faults.ready(pod):
        return Outcome(PODS, "ok", f"node {node_name(pod)}")
    words = faults.unscheduled(pod)
    if words and seconds > REPORT_SECONDS:
        if faults.OCCUPIED in words:
            return Outcome(PODS, "skipped", f"other deployments use its nodes: {words}", ran=False)
        return Outcome(PODS, "failed", words, ran=False)
    fault = faults.diagnose(pod)
    if faults.unpulled(pod) or (fault and _setup_failed(pod)):
        return Outcome(IMAGES, "failed", fault.text if fault else "")
    if fault and fault.final:
        return Outcome(KERNEL if FORBIDDEN in fault.text else PODS, "failed", fault.text, ran=False)
    return None


def server_outcome(settings: Kubernetes, wanted: DeploymentParameters, report: Mapping[str, Any]) -> Outcome:
    """Compare the report of a server's pod with the needs of its deployment. Pure."""
    wrong = sysctl_problems(objects.sysctls_in_pods(settings, wanted), report["sysctls"])
    if problems := "; ".join(wrong):
        return Outcome(KERNEL, "failed", problems)
    unusable = [each["unusable"] for each in report["releases"].values() if "unusable" in each]
    if unusable:
        return Outcome(PROGRAMS, "failed", "; ".join(unusable))
    versions = ", ".join(each["version"] for each in report["releases"].values())
    return Outcome(PROGRAMS, "ok", f"XRootD {versions}")


def sysctl_problems(needed: Mapping[str, str], values: Mapping[str, str]) -> Iterator[str]:
    """Yield the sysctls of an origin that are not those needed, with the fix. Pure."""
    for name, why in mismatches(needed, values):
        parameter = parameters_by_sysctl(objects.KIND)[name]
        fix = f"choose a value of {parameter} that the node keeps"
        if parameter == "congestion_control":
            fix = "name the nodes' own one first in congestion_controls of the testbed's file"
        yield f"{why} ({parameter} of the sweep): {fix}"


def try_wave(
    cluster: Cluster, settings: Kubernetes, naming: Naming, wave: Sequence[Planned], *, alone: bool = False
) -> dict[str, Outcome]:
    """Start the pods of a wave, the first of which is a client's, and return their outcomes by name.

    If `alone`, the client's pod looks at all images of the testbed. Raises ClusterError and TeardownError.
    """
    sysctls = list(parameters_by_sysctl(objects.KIND))
    fresh = naming.renewed()  # objects of the wave before are collected late
    jobs = (objects.trial_job(each.job, settings, alone=alone, sysctls=sysctls) for each in wave)
    client, *servers = [
        each._replace(job=objects.renamed(job, naming, fresh)) for each, job in zip(wave, jobs, strict=True)
    ]
    naming = fresh
    with contextlib.ExitStack() as undo:
        undo.callback(_remove, cluster, naming)
        owner = create_object(cluster, client.job)
        create_object(cluster, objects.package(naming, owner))
        watch = undo.enter_context(contextlib.closing(PodWatch(cluster, naming)))
        outcomes: dict[str, Outcome] = {}
        for planned in servers:
            object_metadata(planned.job).owner_references = [reference(owner)]
            try:
                create_object(cluster, planned.job)
            except ClusterError as error:
                outcomes[planned.name] = Outcome(PODS, "failed", str(error), ran=False)
        names = {planned.name for planned in wave}
        pods = _settle(watch, naming, names, outcomes, settings.start_time)
        for planned in servers:
            if outcomes[planned.name].status == "ok":
                outcomes[planned.name] = _look(cluster, settings, planned.wanted, watch, pods[planned.name])
        if outcomes[CLIENT].status == "ok":
            outcomes[CLIENT] = _talk(cluster, settings, watch, pods[CLIENT]) or outcomes[CLIENT]
        return outcomes


def _settle(
    watch: PodWatch, naming: Naming, names: set[str], outcomes: dict[str, Outcome], seconds: float
) -> dict[str, V1Pod]:
    """Wait until all pods run or have failed, add their outcomes, and return the running ones by name."""
    began = time.monotonic()
    pods: dict[str, V1Pod] = {}
    slow = REPORT_SECONDS
    while missing := names - outcomes.keys():
        waited = time.monotonic() - began
        for pod in watch.pods().values():
            name = server_name(pod, naming)
            if name in missing and (outcome := pod_outcome(pod, waited)):
                outcomes[name] = outcome
                pods[name] = pod
                missing.remove(name)
        late = waited > seconds
        if late or waited > slow:  # Jobs show why pods do not exist, and events why they do not start
            slow = waited + SLOW_SECONDS
            outcomes |= _late(watch, naming, missing, final=late)
        time.sleep(POLL)
    return pods


def _late(watch: PodWatch, naming: Naming, missing: set[str], *, final: bool) -> dict[str, Outcome]:
    """Return the outcomes of pods whose Jobs cannot make them, and if `final` of all that have not started."""
    found = {}
    for fault in watch.job_faults():
        name = fault.pod.removeprefix(naming.prefix).removeprefix("-") or CLIENT
        if name in missing and (final or fault.final or "is suspended" in fault.text):
            found[name] = Outcome(PODS, "failed" if fault.final else "skipped", fault.text, ran=False)
    if final:
        pods = {server_name(pod, naming): pod for pod in watch.pods().values()}
        for name in missing - found.keys():
            words = "its pod does not exist"
            if pod := pods.get(name):
                events = watch.events("Pod", object_name(pod))
                known = faults.diagnose(pod, events)
                words = known.text if known else faults.progress(pod, events)
            found[name] = Outcome(PODS, "failed", words, ran=False)
    return found


def _look(
    cluster: Cluster, settings: Kubernetes, wanted: DeploymentParameters, watch: PodWatch, pod: V1Pod
) -> Outcome:
    """Read the report of a server's pod."""
    read, give_up = cluster.core.read_namespaced_pod_log, time.monotonic() + REPORT_WAIT
    while time.monotonic() < give_up:
        try:
            text = str(call(read, object_name(pod), cluster.namespace, container=SERVERS))
        except ClusterError as error:
            return Outcome(KERNEL, "skipped", str(error))
        for line in text.splitlines():
            if line.startswith(REPORT):
                return server_outcome(settings, wanted, json.loads(line.removeprefix(REPORT)))
        time.sleep(POLL)
    return Outcome(KERNEL, "failed", watch.fault() or f"pod {object_name(pod)} reports nothing")


def _talk(cluster: Cluster, settings: Kubernetes, watch: PodWatch, pod: V1Pod) -> Outcome | None:
    """Ask the hub of a client's pod, as jobs do; return its outcome if that fails."""
    name = object_name(pod)
    session = Session(cluster, name, settings.orphan_time / 2, lambda _: None)
    try:
        session.ask("clock")
    except SessionError as error:
        return Outcome(PODS, "failed", watch.fault() or str(error))
    finally:
        session.close()
    return None


def _remove(cluster: Cluster, naming: Naming) -> None:
    with signals.defer_signals():  # Ctrl-C takes effect when nothing is left
        deployments.teardown(cluster, naming.identifier)


def _setup_failed(pod: V1Pod) -> bool:
    """Return whether an init container has failed, such as a look at an image."""
    states = [each.state for each in (pod.status and pod.status.init_container_statuses) or []]
    return any(state and state.terminated and state.terminated.exit_code for state in states)


def _placement(job: V1Job) -> str:
    """Return a text that is equal for pods that can be expected to start or fail alike."""
    template = objects.template_of(job)
    for container in template["spec"]["containers"]:
        container.pop("resources")
    for entry in template["spec"].get("securityContext", {}).get("sysctls", []):
        if entry["name"] in objects.SAFE_SYSCTLS:
            entry["value"] = ""
    return likeness(template)


def _cpu(job: V1Job) -> float:
    containers = objects.template_of(job)["spec"]["containers"]
    return float(
        sum(resource_amount(each["resources"].get("limits", {}).get(CPU, "0")) for each in containers)
    )
