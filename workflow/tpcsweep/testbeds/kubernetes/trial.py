"""Whether deployments can come up at all: one client pod is started and removed before the first of them."""

from __future__ import annotations

import contextlib

from kubernetes.client import V1Pod

from tpcsweep.configuration.testbeds import Kubernetes
from tpcsweep.testbeds.kubernetes import api, leases, objects, state
from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, RefusedError, call, create
from tpcsweep.testbeds.kubernetes.deployment import identifier
from tpcsweep.testbeds.kubernetes.faults import IMAGE
from tpcsweep.testbeds.kubernetes.objects import Naming
from tpcsweep.testbeds.kubernetes.watch import PodError, PodWatch

CELLS = "trial of the image"
"""What it is called where others see it."""
MARGIN = 60.0
"""Seconds that its Job may last beside its start, if nobody removes it."""
RIGHTS = "config/kubernetes/rbac.yaml has the rights that sweeps need"


def require(settings: Kubernetes) -> None:
    """Raise ClusterError with what keeps every deployment from coming up, and what to do about it.

    The cluster cannot be found or reached, the namespace is missing, a right is lacking, or the image does not run
    within `start_time`. Raises TeardownError where the trial does not go.
    """
    cluster = api.connect(settings)
    try:
        _try(cluster, settings)
    except RefusedError as error:
        if error.status == 404:
            missing = f"there is no namespace {cluster.namespace}"
            advice = f"kubectl create namespace {cluster.namespace}, or correct `namespace` of the testbed"
            raise ClusterError(f"{cluster.name}: {missing}: {advice}") from error
        advice = f"; {RIGHTS}" if "lacks the right" in str(error) else ""
        raise ClusterError(f"{cluster.name}: {error}{advice}") from error


def _try(cluster: Cluster, settings: Kubernetes) -> None:
    """A Job like a deployment's, as long as its Lease shows that it is alive, until its pod runs."""
    naming = Naming(identifier(), "", CELLS)
    labels, notes = state.labels(naming.identifier), state.ownership("", CELLS)
    lock = leases.name_of(naming.identifier)
    job = objects.job(naming, settings, settings.start_time + MARGIN)
    assert job.spec
    # The cluster makes the pods of Jobs; those of servers are made with the rights of whoever runs the sweep.
    pod = V1Pod(metadata=naming.meta(f"{naming.prefix}-src1"), spec=job.spec.template.spec)
    call(lambda: cluster.core.create_namespaced_pod(cluster.namespace, pod, dry_run="All"))
    with contextlib.ExitStack() as undo:
        undo.enter_context(leases.held(cluster, [lock], naming.identifier, labels, notes))
        undo.callback(state.teardown, cluster, naming.identifier)
        create(cluster, job)
        watch = undo.enter_context(contextlib.closing(PodWatch(cluster, naming.identifier, patient=False)))
        try:
            watch.running(1, settings.start_time)
        except PodError as error:
            of_image = any(reason in str(error) for reason in IMAGE)
            advice = "; correct `image`, `pull_policy` or `pull_secrets` of the testbed" if of_image else ""
            raise PodError(f"the client pod does not come up: {error}{advice}") from error
