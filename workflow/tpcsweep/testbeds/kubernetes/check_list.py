# SPDX-License-Identifier: Apache-2.0
"""The checks of a sweep on its cluster: one ordered list for `tpcsweep check`, and its short form before a run.

Configuration, context, clock, rights, quotas and limits, policies, networks, then short pods: images, pods, kernel
settings, servers. A check that needs a failed one is skipped with the reason; all others are made.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.sweeps.problems import raise_any
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.interface import Finding
from tpcsweep.testbeds.kubernetes import api, nodes, objects, rehearsal, short_pods
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError
from tpcsweep.testbeds.kubernetes.checks import template_problems
from tpcsweep.testbeds.kubernetes.metadata import Naming
from tpcsweep.testbeds.kubernetes.placements import CLIENT
from tpcsweep.testbeds.kubernetes.rehearsal import Planned
from tpcsweep.testbeds.kubernetes.settings import Kubernetes
from tpcsweep.testbeds.kubernetes.short_pods import Outcome
from tpcsweep.testbeds.kubernetes.watch import PodError

TRIAL = "trial of the pods"
LATER = (rehearsal.QUOTA, rehearsal.POLICIES, *short_pods.CHECKS)
"""Checks that need the API server and the pairs of the testbed."""


def require(settings: Kubernetes) -> None:
    """Start, ask and remove one client pod, unless the user lacks a right or its node is in use.

    Raises ClusterError with reason and remedy, and TeardownError.
    """
    cluster = _with_rights(settings)
    naming = Naming.new("", TRIAL, settings)
    job = objects.client_job(naming, settings, settings.start_time)
    client = Planned(CLIENT, settings.pairs[0], CLIENT, DeploymentParameters(), job)
    try:
        outcome = short_pods.try_wave(cluster, settings, naming, [client], alone=True)[CLIENT]
    except ClusterError as error:
        raise ClusterError(f"{cluster.name}: {error}") from error
    if outcome.status == "failed":
        raise PodError(f"{cluster.name}: the client pod does not start: {outcome.reason}", final=True)


def rehearse(study: SweepStudy) -> None:
    """Make the checks of a sweep that create nothing, and raise ClusterError with all that failed."""
    settings = rehearsal.settings_of(study)
    cluster = _with_rights(settings)
    naming = Naming.new("", TRIAL, settings)
    wanted = list(rehearsal.planned_deployments(study, nodes.node_pairs(cluster, settings), naming))
    found = list(rehearsal.quotas(cluster, wanted, naming, used=False))
    found += rehearsal.policies(cluster, rehearsal.distinct_jobs(wanted), naming, []).values()
    subjects: dict[str, list[str]] = {}
    for finding in found:
        if finding.status == "failed":
            subjects.setdefault(finding.reason, []).append(finding.subject)
    if subjects:
        words = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in subjects.items())
        raise PodError(f"{cluster.name}: {words}", final=True)


def manifests(study: SweepStudy) -> list[dict[str, Any]]:
    """Return the Job of each distinct pod of a sweep; it asks a cluster for `pairs: all` alone.

    Raises ConfigurationError for a wrong pod template.
    """
    raise_any(template_problems(study))
    settings = rehearsal.settings_of(study)
    all_of_them = settings.paths.pairs == "all"
    pairs = nodes.node_pairs(api.connect_cluster(settings), settings) if all_of_them else settings.pairs
    naming = replace(Naming.new("", "rehearsal", settings), identifier="0" * 10)
    planned = rehearsal.planned_deployments(study, pairs, naming)
    return [objects.words(each.job) for each in rehearsal.distinct_jobs(planned)]


def check(study: SweepStudy) -> Iterator[Finding]:
    """Yield all checks of a sweep on its cluster. Raises ConfigurationError for a wrong template, and TeardownError."""
    raise_any(template_problems(study))
    settings = rehearsal.settings_of(study)
    yield Finding(study.testbed_file, "configuration", "ok")
    try:
        cluster = api.find_cluster(settings)
        yield from rehearsal.answers(cluster)
    except ClusterError as error:
        yield Finding(study.testbed_name, rehearsal.CONTEXT, "failed", str(error))
        yield from _skipped(study, [rehearsal.RIGHTS, *LATER], "the API server does not answer")
        return
    rights, lacking = rehearsal.rights(cluster)
    yield rights
    naming = Naming.new("", TRIAL, settings)
    try:
        pairs = nodes.node_pairs(cluster, settings)
    except ClusterError as error:
        yield Finding(study.testbed_name, "nodes", "failed", str(error))
        yield from _skipped(study, LATER, "the pairs of nodes are not known")
        return
    wanted = list(rehearsal.planned_deployments(study, pairs, naming))
    if not wanted:
        why = f"no pair serves a deployment of sweep {study.name}; choose another by --sweep"
        yield from _skipped(study, LATER, why)
        return
    distinct = rehearsal.distinct_jobs(wanted)
    quotas = list(rehearsal.quotas(cluster, wanted, naming, used=True))
    yield from quotas
    policies = rehearsal.policies(cluster, distinct, naming, lacking)
    yield from policies.values()
    yield from rehearsal.networks(cluster, pairs)
    small = any(one.status == "failed" for one in quotas)
    clients = [deployment[0] for deployment in wanted]
    tried = _outcomes(cluster, settings, naming, clients, distinct, policies, lacking, small=small)
    found = [row for planned, outcome in tried for row in short_pods.rows(planned, outcome)]
    yield from sorted(found, key=lambda row: short_pods.CHECKS.index(row.check))


def _outcomes(
    cluster: Cluster,
    settings: Kubernetes,
    naming: Naming,
    clients: Sequence[Planned],
    distinct: Sequence[Planned],
    policies: Mapping[str, Finding],
    lacking: Sequence[str],
    *,
    small: bool,
) -> Iterator[tuple[Planned, Outcome]]:
    """Try the distinct placements of a sweep, with small resources where the cluster refuses those of the sweep."""

    def fitting(planned: Planned) -> Planned | None:
        refused = planned.subject in policies and policies[planned.subject].status != "ok"
        if not (small or refused):
            return planned
        job = objects.small_job(planned.job)
        return None if rehearsal.refusal(cluster, job) else planned._replace(job=job)

    for wave in short_pods.waves(distinct):
        client = next(each for each in clients if each.pair is wave[0].pair)
        outcomes: dict[str, Outcome] = {}
        why = f"no pod is started: {rehearsal.lacks(lacking)}" if lacking else ""
        if not why:
            whole = {each.name: fitting(each) for each in (client, *wave)}
            why = "" if whole[CLIENT] else "the cluster refuses the client's pod"
            accepted = [each for each in whole.values() if each]
            try:
                if not why:
                    outcomes = short_pods.try_wave(cluster, settings, naming, accepted)
            except ClusterError as error:
                why = str(error)
        for each in wave:
            reason = why or "the cluster refuses its pod"
            yield each, outcomes.get(each.name, Outcome(short_pods.IMAGES, "skipped", reason))


def _skipped(study: SweepStudy, checks: Sequence[str], why: str) -> Iterator[Finding]:
    return (Finding(study.testbed_name, check, "skipped", why) for check in checks)


def _with_rights(settings: Kubernetes) -> Cluster:
    """Return the cluster of a testbed. Raises ClusterError if the clocks differ, or if the user lacks a right."""
    cluster = api.find_cluster(settings)
    answers = list(rehearsal.answers(cluster))
    rights, _ = rehearsal.rights(cluster)
    for finding in (*answers, rights):
        if finding.status == "failed":
            raise PodError(f"{cluster.name}: {finding.reason}", final=True)
    return cluster
