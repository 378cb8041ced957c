# SPDX-License-Identifier: Apache-2.0
"""Ask a cluster whether it would accept the deployments of a sweep: by reviews and dry runs, which create nothing."""

import datetime
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from email.utils import parsedate_to_datetime
from itertools import product
from typing import Any, Literal, NamedTuple

import yaml
from kubernetes import client as k8s

from tpcsweep.common.installation import SHIPPED
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.sweep import ONLY_DEPLOYMENT
from tpcsweep.testbeds.interface import Finding
from tpcsweep.testbeds.kubernetes import faults, objects
from tpcsweep.testbeds.kubernetes.api import KINDS, Cluster, ClusterError, RefusedError, call, require_answer
from tpcsweep.testbeds.kubernetes.metadata import SIDE, Naming, object_metadata, object_name
from tpcsweep.testbeds.kubernetes.placements import CLIENT, resource_amount
from tpcsweep.testbeds.kubernetes.settings import Kubernetes, Pair

CONTEXT, RIGHTS, QUOTA, POLICIES = "context", "rights", "quotas and limits", "policies"
MOST_SECONDS = 60.0
"""Difference of the clocks of this machine, by which credentials are valid, and of the API server."""
ROLE = "config/kubernetes/rbac.yaml"  # grants the rights that sweeps need
CHECK_ALONE = "resourcequotas"  # a resource of the Role that checks read, and sweeps do not need
SIDES = {"src": "source", "dst": "destination"}

Usage = dict[str, Decimal]


class Planned(NamedTuple):
    """A Job of a sweep's deployment."""

    subject: str  # pair, side and server, for people
    pair: Pair
    name: str  # the server's name, such as src1, or `client`
    wanted: DeploymentParameters
    job: k8s.V1Job


def settings_of(study: SweepStudy) -> Kubernetes:
    assert isinstance(study.testbed, Kubernetes)
    return study.testbed


def dry_run(cluster: Cluster, body: Any) -> Any:
    """Return an object as the API server would create it. Raises ClusterError."""
    return call(cluster.verb("create", type(body)), cluster.namespace, body, dry_run="All")


def refusal(cluster: Cluster, body: Any) -> str:
    """Return why the cluster would refuse an object, or a Job's pod, or change it; empty if it would not."""
    try:
        made = dry_run(cluster, body)
        if not isinstance(body, k8s.V1Job):
            return ""
        waits = faults.QUEUE in (object_metadata(made).labels or {})  # a queue admits it later
        fault = None if waits else faults.diagnose_job(made)
        fault = fault or faults.diagnose(dry_run(cluster, _pod(body)))
    except RefusedError as error:
        return str(error).replace(f' "{object_name(body)}"', "")  # which no person knows
    return fault.text if fault else ""


def planned_deployments(study: SweepStudy, pairs: Sequence[Pair], naming: Naming) -> Iterator[list[Planned]]:
    """Yield the Jobs of each deployment of a sweep, the client's first, on each pair that serves it. Pure.

    Deployments have the most streams of a cell.
    """
    settings = settings_of(study)
    most: dict[DeploymentParameters, tuple[int, str]] = {}
    for cell in study.grid.cells:
        given = dict(cell.parameters)
        wanted = DeploymentParameters(**{name: given[name] for name in DeploymentParameters.model_fields})
        streams, path = most.get(wanted, (1, cell.deployment.path))
        most[wanted] = max(streams, cell.parameters.streams), path
    for wanted, (streams, path) in most.items():
        for index, pair in enumerate(pairs):
            if settings.serves(pair, wanted):
                jobs = objects.deployment_jobs(naming, settings, pair, wanted, streams, settings.start_time)
                names = [object_name(job).removeprefix(naming.prefix).removeprefix("-") for job in jobs]
                yield [
                    Planned(_subject(index, name, path), pair, name or CLIENT, wanted, job)
                    for name, job in zip(names, jobs, strict=True)
                ]


def distinct_jobs(deployments: Iterable[Sequence[Planned]]) -> list[Planned]:
    """Return the Jobs whose pods differ in more than names. Pure."""
    distinct: dict[str, Planned] = {}
    for planned in (each for deployment in deployments for each in deployment):
        distinct.setdefault(likeness(objects.template_of(planned.job)), planned)
    return list(distinct.values())


def likeness(template: dict[str, Any]) -> str:
    """Return a text that is equal for templates of pods that differ only in names. Changes the template."""
    template["metadata"]["labels"].pop(SIDE, None)
    template["spec"].pop("topologySpreadConstraints", None)
    for container in template["spec"]["containers"]:
        container.pop("command")
    return json.dumps(template, sort_keys=True)


def lacking_rights(cluster: Cluster) -> list[str]:
    """Return the rights of ROLE that the user lacks, as `verb resource`. Raises ClusterError."""
    reviews = k8s.AuthorizationV1Api(cluster.http)
    rules = k8s.V1SelfSubjectRulesReview(spec=k8s.V1SelfSubjectRulesReviewSpec(namespace=cluster.namespace))
    answer = call(reviews.create_self_subject_rules_review, rules).status
    assert answer
    granted = {
        right
        for rule in answer.resource_rules
        if not rule.resource_names
        for right in product(rule.api_groups or [], rule.resources or [], rule.verbs)
    }

    def may(group: str, resource: str, verb: str) -> bool:
        if granted & set(product({group, "*"}, {resource, "*"}, {verb, "*"})):
            return True
        # Rules of a webhook are in no list.
        what, _, subresource = resource.partition("/")
        asked = {"namespace": cluster.namespace, "group": group, "resource": what, "verb": verb}
        content = {"resourceAttributes": {**asked, **({"subresource": subresource} if subresource else {})}}
        review = k8s.V1SelfSubjectAccessReview.model_validate({"spec": content})
        status = call(reviews.create_self_subject_access_review, review).status
        return bool(status and status.allowed)

    role = next(each for each in yaml.safe_load_all((SHIPPED / ROLE).read_text()) if each["kind"] == "Role")
    return [
        f"{verb} {resource}"
        for needed in role["rules"]
        for group, resource, verb in product(needed["apiGroups"], needed["resources"], needed["verbs"])
        if resource != CHECK_ALONE and not may(group, resource, verb)
    ]


def lacks(rights: Sequence[str]) -> str:
    """Return the message for missing rights. Pure."""
    return f"lacks {', '.join(rights)}: {ROLE} grants them"


def answers(cluster: Cluster) -> Iterator[Finding]:
    """Yield the cluster's version and the difference of clocks, which need no right. Raises ClusterError."""
    version, _, headers = require_answer(
        cluster, k8s.VersionApi(cluster.http).get_code_with_http_info, seconds=10
    )
    yield Finding(cluster.name, CONTEXT, "ok", f"{version.git_version}, namespace {cluster.namespace}")
    ahead = (parsedate_to_datetime(headers["Date"]) - datetime.datetime.now(datetime.UTC)).total_seconds()
    words = f"the API server's is {ahead:+.0f} s from this machine's"
    yield Finding(cluster.name, "clock", "failed" if abs(ahead) > MOST_SECONDS else "ok", words)


def rights(cluster: Cluster) -> tuple[Finding, list[str]]:
    """Return the check of rights, and the missing ones."""
    try:
        lacking = lacking_rights(cluster)
    except ClusterError as error:
        return Finding(cluster.namespace, RIGHTS, "skipped", str(error)), []
    return _finding(cluster.namespace, RIGHTS, lacks(lacking) if lacking else ""), lacking


def quotas(
    cluster: Cluster, deployments: Iterable[Sequence[Planned]], naming: Naming, *, used: bool
) -> Iterator[Finding]:
    """Compare each quota of the namespace with the largest deployment, and unless `used` as if nothing else ran.

    A LimitRange is in force in the dry run of each pod.
    """
    try:
        found = call(cluster.core.list_namespaced_resource_quota, cluster.namespace, seconds=0).items
    except ClusterError as error:
        yield Finding(cluster.namespace, QUOTA, "skipped", str(error))
        return
    largest: Usage = defaultdict(Decimal)
    for deployment in deployments if found else ():
        jobs = [planned.job for planned in deployment]
        for name, amount in usage([*jobs, *objects.other_objects(naming)]).items():
            largest[name] = max(largest[name], amount)
    for quota in found:
        subject = f"quota {object_name(quota)}"
        if quota.spec and (quota.spec.scopes or quota.spec.scope_selector):
            yield Finding(
                subject,
                QUOTA,
                "skipped",
                "it has a scope, and the dry run of each pod is all that looks at it",
            )
        else:
            yield _finding(subject, QUOTA, "; ".join(exceeded(quota, largest, used=used)))
    if not found:
        yield Finding(cluster.namespace, QUOTA, "ok", "no quota")


def policies(
    cluster: Cluster, distinct: Sequence[Planned], naming: Naming, lacking: Sequence[str]
) -> dict[str, Finding]:
    """Return the dry run of every object of a sweep, by its subject."""
    bodies = [(type(body).__name__.removeprefix("V1"), body) for body in objects.other_objects(naming)]
    found = {}
    for subject, body in [*bodies, *((planned.subject, planned.job) for planned in distinct)]:
        kinds = (k8s.V1Job, k8s.V1Pod) if isinstance(body, k8s.V1Job) else (type(body),)
        needed = [f"create {_plural(kind)}" for kind in kinds]
        if missing := [right for right in needed if right in lacking]:
            found[subject] = Finding(subject, POLICIES, "skipped", f"no right to {', '.join(missing)}")
        elif subject not in found or found[subject].status == "ok":
            try:
                found[subject] = _finding(subject, POLICIES, refusal(cluster, body))
            except ClusterError as error:
                found[subject] = Finding(subject, POLICIES, "skipped", str(error))
    return found


def networks(cluster: Cluster, pairs: Iterable[Pair]) -> Iterator[Finding]:
    """Look for the attachments of all pods."""
    get = k8s.CustomObjectsApi(cluster.http).get_namespaced_custom_object
    placed = [role for pair in pairs for role in (pair.source, pair.destination, pair.client)]
    for network in dict.fromkeys(role.network for role in placed if role.network):
        namespace, _, name = network.rpartition("/")
        kind = (
            "k8s.cni.cncf.io",
            "v1",
            namespace or cluster.namespace,
            "network-attachment-definitions",
            name,
        )
        status: Literal["ok", "failed", "skipped"] = "ok"
        why = ""
        try:
            call(get, *kind, seconds=0)
        except ClusterError as error:
            missing = isinstance(error, RefusedError) and error.status == 404
            status, why = "failed" if missing else "skipped", str(error)
        yield Finding(network, "networks", status, why)


def exceeded(quota: k8s.V1ResourceQuota, usage: Usage, *, used: bool = True) -> list[str]:
    """Return the resources of which a deployment needs more than a quota leaves, or allows in all. Pure."""
    status = quota.status or k8s.V1ResourceQuotaStatus()
    hard, in_use = status.hard or {}, (status.used or {}) if used else {}
    return [
        f"{name}: {usage[name].normalize():f} asked, {in_use.get(name, '0')} of {limit} used"
        for name, limit in hard.items()
        if name in usage and usage[name] + resource_amount(in_use.get(name, "0")) > resource_amount(limit)
    ]


def usage(bodies: Iterable[Any]) -> Usage:
    """Return the resources of a deployment's objects that quotas count. Pure."""
    total: Usage = defaultdict(Decimal)
    groups = {"jobs": "count/jobs.batch", "networkpolicies": "count/networkpolicies.networking.k8s.io"}
    for body in bodies:
        plural = _plural(type(body))
        for name in {groups.get(plural, f"count/{plural}"), *([] if plural in groups else [plural])}:
            total[name] += 1
        if not isinstance(body, k8s.V1Job):
            continue
        for name in ("pods", "count/pods"):
            total[name] += 1
        for container in objects.template_of(body)["spec"]["containers"]:
            for kind, values in container["resources"].items():
                for name, text in values.items():
                    total[f"{kind}.{name}"] += resource_amount(text)
    return {**total, **{name: total[f"requests.{name}"] for name in ("cpu", "memory")}}


def _plural(kind: type) -> str:
    """Return the name of a resource in rights and quotas."""
    name = KINDS[kind][1].replace("_", "")
    return f"{name.removesuffix('y')}ies" if name.endswith("y") else f"{name}s"


def _pod(job: k8s.V1Job) -> k8s.V1Pod:
    """Return the pod that a Job makes, under the Job's name."""
    assert job.spec and job.spec.template.metadata
    metadata = job.spec.template.metadata.model_copy(update={"name": object_name(job)})
    return k8s.V1Pod(metadata=metadata, spec=job.spec.template.spec)


def _finding(subject: str, check: str, problem: str) -> Finding:
    return Finding(subject, check, "failed" if problem else "ok", problem)


def _subject(pair: int, name: str, path: str) -> str:
    """Return the name of a pod for people, such as `pair 0 source, origin 1 (cores=0.5)`."""
    if not name:
        return f"pair {pair} client"
    number = name[3:]
    server = "redirector" if number == "m" else f"origin {number}"
    return f"pair {pair} {SIDES[name[:3]]}, {server}" + ("" if path == ONLY_DEPLOYMENT else f" ({path})")
