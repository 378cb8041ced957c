"""The kubernetes testbed: deployments on the nodes of a cluster, side by side where the testbed has several pairs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from tpcsweep.broken import FaultError
from tpcsweep.client.handle import ClientError
from tpcsweep.configuration.testbeds import Kubernetes, Pair, Placement
from tpcsweep.measure.cell import measure as measure
from tpcsweep.paths import PathError
from tpcsweep.testbeds import Request
from tpcsweep.testbeds.kubernetes import api, deployment, leases, state
from tpcsweep.testbeds.kubernetes.deployment import Place
from tpcsweep.testbeds.kubernetes.session import SessionError
from tpcsweep.testbeds.kubernetes.site import SettleError, Site
from tpcsweep.testbeds.kubernetes.trial import require as require

EXPECTED = (
    api.ClusterError,
    FaultError,
    PathError,
    SessionError,
    SettleError,
    ClientError,
    state.TeardownError,
)


@contextlib.contextmanager
def deployed(settings: Kubernetes, request: Request) -> Iterator[Site]:
    """Wait for nodes, remove what dead owners left, deploy. Raises what is in EXPECTED."""
    with placed(settings, request) as place:
        request.stage(f"deploying {request.deployment}")
        with deployment.deployed(place, settings, request) as site:
            yield site


@contextlib.contextmanager
def placed(settings: Kubernetes, request: Request) -> Iterator[Place]:
    """Hold the nodes of the first pair that is free, without what dead owners left, for the length of a `with`."""
    cluster = api.connect(settings)
    pairs = [pair for pair in settings.paths.pairs if pair.rtt in (None, request.parameters.rtt)]
    identifier = deployment.identifier()
    with leases.first_free(
        cluster,
        [locks(pair) for pair in pairs],
        identifier,
        state.labels(identifier),
        state.ownership(request.sweep, request.deployment),
        waiting=lambda holder: request.stage(f"waiting for {holder}"),
    ) as held:
        for leftover in state.leftovers(cluster):
            request.stage(f"removing what is left of {state.describe(leftover)}")
            state.teardown(cluster, leftover.identifier)
        yield Place(cluster, pairs[held.index], held, identifier)


def reap(settings: Kubernetes) -> list[str]:
    """Remove what dead owners have left in the namespace. Raises ClusterError, TeardownError."""
    return state.reap(api.connect(settings))


def locks(pair: Pair) -> set[str]:
    """The names of the Leases that keep others off a pair's nodes: one for each way of choosing nodes. Pure."""
    return {leases.name_of(_nodes(placed)) for placed in (pair.source, pair.destination)}


def _nodes(placed: Placement) -> str:
    """What says which nodes a side gets, the same text for the same nodes."""
    return json.dumps([placed.node_selector, placed.affinity.get("nodeAffinity")], sort_keys=True)
