# SPDX-License-Identifier: Apache-2.0
"""Ask a cluster, by dry runs alone, whether it would accept the deployments of a sweep."""

import datetime
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from email.utils import parsedate_to_datetime
from itertools import product
from typing import Any

import yaml
from kubernetes import client as k8s

from tpcsweep.common.installation import SHIPPED
from tpcsweep.common.numbers import plain
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.interface import Finding
from tpcsweep.testbeds.kubernetes import faults, objects
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, RefusedError, call
from tpcsweep.testbeds.kubernetes.metadata import SIDE, Naming, object_name
from tpcsweep.testbeds.kubernetes.nodes import node_finding
from tpcsweep.testbeds.kubernetes.placements import resource_amount
from tpcsweep.testbeds.kubernetes.settings import Kubernetes, Pair

NAMING = Naming("0000000000", "", "rehearsal")
MOST_SECONDS = 60.0
"""Difference of the clocks of this machine, by which credentials are valid, and of the API server."""
ROLE = "config/kubernetes/rbac.yaml"  # grants the rights that sweeps need

Usage = dict[str, Decimal]


def settings_of(study: SweepStudy) -> Kubernetes:
    assert isinstance(study.testbed, Kubernetes)
    return study.testbed


def dry_run(cluster: Cluster, body: Any) -> Any:
    """Return an object as the API server would create it. Raises ClusterError."""
    return call(cluster.verb("create", type(body)), cluster.namespace, body, dry_run="All")


def refusal(cluster: Cluster, job: k8s.V1Job) -> str:
    """Return why the cluster would refuse a Job or its pod, or would change it; empty if it would not."""
    try:
        dry_run(cluster, job)
        fault = faults.diagnose(dry_run(cluster, _pod(job)))
    except RefusedError as error:
        return str(error)
    return fault.text if fault else ""


def within_quota(cluster: Cluster, settings: Kubernetes, naming: Naming) -> Naming:
    """Return `naming`, with `everywhere` as quotas of the namespace allow it.

    The cluster reports refused pods of Jobs late, and in events alone; a dry run raises RefusedError.
    """
    try:
        dry_run(cluster, _pod(objects.client_job(naming, settings, settings.start_time)))
    except RefusedError as error:
        if error.status != 403:
            raise
    else:
        return naming
    alone = replace(naming, everywhere=False)
    dry_run(cluster, _pod(objects.client_job(alone, settings, settings.start_time)))
    return alone


def distinct_jobs(
    study: SweepStudy, pairs: Sequence[Pair], naming: Naming = NAMING
) -> list[tuple[str, k8s.V1Job]]:
    """Return the Jobs of a sweep whose pods differ in more than names, each with a name for people. Pure."""
    distinct: dict[str, tuple[str, k8s.V1Job]] = {}
    for wanted, jobs in _deployments(study, pairs, naming):
        for job in jobs:
            distinct.setdefault(_likeness(job), (_name(job, naming, wanted), job))
    return list(distinct.values())


def findings(cluster: Cluster, study: SweepStudy, pairs: Sequence[Pair], naming: Naming) -> Iterator[Finding]:
    """Yield a finding for each need of a sweep that the API server alone can confirm."""
    settings = settings_of(study)
    yield _clock(cluster)
    yield from _rights(cluster)
    for name, job in distinct_jobs(study, pairs, naming):
        yield _finding(name, "policies", refusal(cluster, job))
    yield from _quota(cluster, study, pairs)
    for index, pair in enumerate(pairs):
        for side, placed in (*pair.sides, ("client", pair.client)):
            yield node_finding(cluster, f"pair {index} {side}", placed)
            if placed.network:
                yield _attachment(cluster, placed.network)
    unsafe: dict[str, set[str]] = {}
    for cell in study.grid.cells:
        for name, text in objects.unsafe_sysctls(settings, cell.parameters).items():
            unsafe.setdefault(name, set()).add(text)
    for name, texts in unsafe.items():
        why = f"{name} ({', '.join(sorted(texts))}): a pod alone shows if kubelets allow it"
        yield Finding(cluster.namespace, "sysctls", "skipped", why)


def exceeded(quota: k8s.V1ResourceQuota, usage: Usage) -> list[str]:
    """Return the resources of which a deployment needs more than a quota leaves. Pure."""
    status = quota.status or k8s.V1ResourceQuotaStatus()
    hard, used = status.hard or {}, status.used or {}
    return [
        f"{name}: {usage[name].normalize():f} asked, {used.get(name, '0')} of {limit} used"
        for name, limit in hard.items()
        if name in usage and usage[name] + resource_amount(used.get(name, "0")) > resource_amount(limit)
    ]


def usage(jobs: Iterable[k8s.V1Job]) -> Usage:
    """Return the resources of a deployment that quotas count. Pure."""
    total: Usage = defaultdict(Decimal)
    for job in jobs:
        for name in ("pods", "count/pods", "count/jobs.batch"):
            total[name] += 1
        for container in objects.template_of(job)["spec"]["containers"]:
            for kind, values in container["resources"].items():
                for name, text in values.items():
                    total[f"{kind}.{name}"] += resource_amount(text)
    return {**total, **{name: total[f"requests.{name}"] for name in ("cpu", "memory")}}


def _deployments(
    study: SweepStudy, pairs: Sequence[Pair], naming: Naming
) -> Iterator[tuple[DeploymentParameters, list[k8s.V1Job]]]:
    """Yield the Jobs of the deployments of a sweep, with the most streams of a cell, on each pair that serves them."""
    settings = settings_of(study)
    most: dict[DeploymentParameters, int] = {}
    for cell in study.grid.cells:
        given = dict(cell.parameters)
        wanted = DeploymentParameters(**{name: given[name] for name in DeploymentParameters.model_fields})
        most[wanted] = max(most.get(wanted, 1), cell.parameters.streams)
    for wanted, streams in most.items():
        for pair in (pair for pair in pairs if settings.serves(pair, wanted)):
            limit = settings.start_time
            yield wanted, objects.deployment_jobs(naming, settings, pair, wanted, streams, limit)


def _likeness(job: k8s.V1Job) -> str:
    """Return a text that is equal for pods that differ only in names."""
    template = objects.template_of(job)
    template["metadata"]["labels"].pop(SIDE, None)
    template["spec"].pop("topologySpreadConstraints", None)
    for container in template["spec"]["containers"]:
        container.pop("command")
    return json.dumps(template, sort_keys=True)


def _pod(job: k8s.V1Job) -> k8s.V1Pod:
    """Return the pod that a Job makes, under the Job's name."""
    assert job.spec and job.spec.template.metadata
    metadata = job.spec.template.metadata.model_copy(update={"name": object_name(job)})
    return k8s.V1Pod(metadata=metadata, spec=job.spec.template.spec)


def _finding(subject: str, check: str, problem: str) -> Finding:
    return Finding(subject, check, "failed" if problem else "ok", problem)


def _name(job: k8s.V1Job, naming: Naming, wanted: DeploymentParameters) -> str:
    server = object_name(job).removeprefix(naming.prefix).removeprefix("-")
    cores = "" if wanted.cores is None else f", cores={plain(wanted.cores)}"
    return f"pod {server} (origins={wanted.origins}{cores})" if server else "pod client"


def _clock(cluster: Cluster) -> Finding:
    _, _, headers = call(k8s.VersionApi(cluster.http).get_code_with_http_info)
    ahead = (parsedate_to_datetime(headers["Date"]) - datetime.datetime.now(datetime.UTC)).total_seconds()
    words = f"the API server's is {ahead:+.0f} s from this machine's"
    return Finding(cluster.name, "clock", "failed" if abs(ahead) > MOST_SECONDS else "ok", words)


def _rights(cluster: Cluster) -> Iterator[Finding]:
    review = k8s.V1SelfSubjectRulesReview(spec=k8s.V1SelfSubjectRulesReviewSpec(namespace=cluster.namespace))
    try:
        answer = call(k8s.AuthorizationV1Api(cluster.http).create_self_subject_rules_review, review).status
    except ClusterError as error:
        yield Finding(cluster.namespace, "rights", "skipped", str(error))
        return
    assert answer
    role = next(each for each in yaml.safe_load_all((SHIPPED / ROLE).read_text()) if each["kind"] == "Role")
    lacking = [
        f"{verb} {resource}"
        for needed in role["rules"]
        for group, resource, verb in product(needed["apiGroups"], needed["resources"], needed["verbs"])
        if not any(
            {group, "*"} & {*(rule.api_groups or [])}
            and {resource, "*"} & {*(rule.resources or [])}
            and {verb, "*"} & {*rule.verbs}
            for rule in answer.resource_rules
        )
    ]
    why = f"lacks {', '.join(lacking)}: {ROLE} grants them" if lacking else ""
    status: Any = "ok" if not lacking else "skipped" if answer.incomplete else "failed"
    yield Finding(cluster.namespace, "rights", status, why)


def _quota(cluster: Cluster, study: SweepStudy, pairs: Sequence[Pair]) -> Iterator[Finding]:
    try:
        quotas = call(cluster.core.list_namespaced_resource_quota, cluster.namespace).items
    except ClusterError as error:
        yield Finding(cluster.namespace, "quota", "skipped", str(error))
        return
    largest: Usage = defaultdict(Decimal)
    for _, jobs in _deployments(study, pairs, NAMING) if quotas else ():
        for name, amount in usage(jobs).items():
            largest[name] = max(largest[name], amount)
    for quota in quotas:
        yield _finding(f"quota {object_name(quota)}", "quota", "; ".join(exceeded(quota, largest)))


def _attachment(cluster: Cluster, network: str) -> Finding:
    namespace, _, name = network.rpartition("/")
    get = k8s.CustomObjectsApi(cluster.http).get_namespaced_custom_object
    kind = ("k8s.cni.cncf.io", "v1", namespace or cluster.namespace, "network-attachment-definitions", name)
    try:
        call(get, *kind, seconds=0)
    except RefusedError as error:
        return Finding(network, "network", "failed" if error.status == 404 else "skipped", str(error))
    return Finding(network, "network", "ok")
