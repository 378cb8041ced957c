# SPDX-License-Identifier: Apache-2.0
"""Locks that end with their holders: Leases, one for each way in which a deployment chooses nodes.

Deployments that ask for the same nodes wait for each other by them, and a Lease shows which deployments live. The
scheduler keeps two deployments off one node in any case (`objects.apart`), so a lost Lease spoils no measurement.

A holder renews its Lease every RENEWAL seconds. A process that sees a Lease unchanged for DURATION, while the server
answers, takes it over; the clocks of the machines do not matter, as in client-go's leader election.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from kubernetes.client import V1DeleteOptions, V1Job, V1Lease, V1LeaseSpec, V1Preconditions

from tpcsweep.testbeds.kubernetes.api import Cluster, ClusterError, RefusedError, call, create_object
from tpcsweep.testbeds.kubernetes.metadata import SELECTOR, Naming, meta_of, name_of, reference, whose

DURATION = 30.0
"""Seconds after which a Lease that has not been renewed may be taken over."""
STALE = 3600.0
"""Seconds since its last renewal after which any run deletes a Lease, by the clocks of both machines."""
RENEWAL = 5.0
POLL = 1.0
RACE = 0.1
"""Seconds until the next attempt after a race for a Lease was lost; they double with each race."""
TIMEOUT = (3.0, 10.0)
"""Seconds to connect and to wait for a renewal: two fit into DURATION."""
RELEASE = 10.0
"""Seconds for which the deletion of a Lease is tried; a Lease that remains expires."""


class NodesInUseError(ClusterError):
    """A live deployment uses the nodes."""


class Leases:
    """Leases that this process holds and renews."""

    def __init__(self, cluster: Cluster, naming: Naming) -> None:
        self.index = -1
        """Which of the alternatives they are."""
        self._cluster = cluster
        self._naming = naming
        self._taken: dict[str, V1Lease] = {}
        self._owners: list[dict[str, Any]] | None = None
        self._gone: str | None = None
        self._lock = threading.Lock()
        """Held by the thread that renews."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="leases")

    def take_first(
        self, alternatives: Sequence[Collection[str]], waiting: Callable[[str], None] | None
    ) -> None:
        """Take all Leases of one alternative, and renew them from now on; see `first_free`."""
        watched = _Watched(self._cluster)
        told, races = "", 0
        while True:
            present = watched.look()
            free = [
                index
                for index, names in enumerate(alternatives)
                if all(name not in present or watched.expired(present[name]) for name in names)
            ]
            if free:
                # Processes that start together all want the first alternative; after a race each chooses at random.
                self.index = random.choice(free) if races else free[0]
                if self._take(alternatives[self.index], present):
                    break
                self._give_back()
                text, pause = "deployments that want the same nodes", min(RACE * 2**races, POLL)
            else:
                wanted = [present[name] for names in alternatives for name in names if name in present]
                first, *others = dict.fromkeys(map(describe_lease, wanted))
                text, pause = f"{first} and {len(others)} more" if others else first, POLL
                if waiting is None:
                    raise NodesInUseError(f"the nodes are in use: {text}. End that first.")
            if waiting and text != told:
                waiting(text)
                told = text
            races = races + 1 if free else 0
            time.sleep(
                pause * random.uniform(0.7, 1.3)
            )  # or processes that wait would look at the same moments
        self._thread.start()
        # The Lease of a killed trial has a name of its own, which nobody else asks for.
        for lease in (each for name, each in present.items() if name not in self._taken and _stale(each)):
            with contextlib.suppress(ClusterError):
                _delete(self._cluster, lease)

    def lost(self) -> str | None:
        """Say which of these Leases is not ours any more; None if all are, as far as this process knows."""
        return self._gone

    def go_with(self, owner: V1Job | None) -> None:
        """Let the cluster collect the Leases with a Job, should this process be killed; None: with no Job."""
        with self._lock:
            self._owners = [reference(owner).model_dump(by_alias=True, exclude_none=True)] if owner else None
            self._renew()

    def release(self) -> None:
        """Delete the Leases that are still ours."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(sum(TIMEOUT) + 1)
        self._give_back()

    def _take(self, names: Collection[str], present: Mapping[str, V1Lease]) -> bool:
        """Take Leases in the order of their names; return False as soon as another process was faster."""
        for name in sorted(set(names)):
            if name in present and not _delete(self._cluster, present[name]):
                return False
            now = datetime.datetime.now(datetime.UTC)
            spec = V1LeaseSpec(
                holder_identity=self._naming.identifier,
                lease_duration_seconds=int(DURATION),
                acquire_time=now,
                renew_time=now,
            )
            try:
                lease = V1Lease(metadata=self._naming.meta(name), spec=spec)
                self._taken[name] = create_object(self._cluster, lease)
            except RefusedError as error:
                if error.status != 409:
                    raise
                return False
        return True

    def _give_back(self) -> None:
        for _, lease in sorted(self._taken.items()):
            with contextlib.suppress(ClusterError):
                _delete(self._cluster, lease, as_seen=False)
        self._taken.clear()

    def _keep(self) -> None:
        pause = RENEWAL
        while not (self._ended.wait(pause) or self._gone):
            with self._lock:
                pause = RENEWAL if self._renew() else POLL

    def _renew(self) -> bool:
        """Renew all Leases; return whether the server has confirmed that."""
        renewed = True
        for name, lease in self._taken.items():
            # A time without a fraction is refused. The uid is a precondition: another's Lease has another one.
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
            meta = {"uid": meta_of(lease).uid, "ownerReferences": self._owners}
            body = {"metadata": meta, "spec": {"renewTime": now}}
            patch, space = self._cluster.coordination.patch_namespaced_lease, self._cluster.namespace
            try:
                call(patch, name, space, body, seconds=0, _request_timeout=TIMEOUT)
            except RefusedError as error:
                renewed = False
                if error.status in (404, 409, 422):
                    self._gone = f"Lease {name} was deleted, or taken over by another deployment"
            except ClusterError:
                renewed = False
        return renewed


def name_for(nodes: str) -> str:
    """Return the name of the Lease for a text that describes nodes, the same on every machine."""
    return f"tpcsweep-{hashlib.sha256(nodes.encode()).hexdigest()[:12]}"


def describe_lease(lease: V1Lease) -> str:
    return whose(_holder(lease), meta_of(lease).annotations or {})


@contextlib.contextmanager
def first_free(
    cluster: Cluster,
    alternatives: Sequence[Collection[str]],
    naming: Naming,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[Leases]:
    """Hold all Leases of the first alternative that is free, for the length of a `with`.

    Args:
        cluster: Cluster of the Leases.
        alternatives: Names of Leases.
        naming: The deployment that holds them.
        waiting: If given, wait for an alternative while none is free; it is called with their holders.

    Raises:
        NodesInUseError: All nodes are in use, and `waiting` is not given.
        ClusterError: The API server refuses or is gone.
    """
    leases = Leases(cluster, naming)
    try:
        leases.take_first(alternatives, waiting)
        yield leases
    finally:
        leases.release()


def reap(cluster: Cluster) -> list[str]:
    """Delete the Leases of dead holders, and return whose they were.

    Takes one renewal if all holders live, and DURATION otherwise.
    """
    watched = _Watched(cluster)
    present = watched.look()
    while any(lease for lease in present.values() if not (watched.renewed(lease) or watched.expired(lease))):
        time.sleep(POLL)
        present = watched.look()
    dead = [lease for lease in present.values() if watched.expired(lease)]
    return [describe_lease(lease) for lease in dead if _delete(cluster, lease)]


def holders(cluster: Cluster) -> set[str]:
    """Return the identifiers of deployments that hold Leases, expired ones included."""
    return set(map(_holder, _all(cluster)))


class _Watched:
    """How long Leases have not changed, in seconds in which the server answered."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._versions: dict[str, list[str | None]] = {}
        self._quiet: dict[str, float] = {}
        self._looked = time.monotonic()

    def look(self) -> dict[str, V1Lease]:
        leases = {name_of(lease): lease for lease in _all(self._cluster)}
        now = time.monotonic()
        # While the server did not answer, holders could not renew either.
        passed, self._looked = min(now - self._looked, RENEWAL), now
        for name, lease in leases.items():
            version, known = meta_of(lease).resource_version, self._versions.setdefault(name, [])
            if known[-1:] == [version]:
                self._quiet[name] += passed
            else:
                known.append(version)
                self._quiet[name] = 0.0
        return leases

    def renewed(self, lease: V1Lease) -> bool:
        return len(self._versions[name_of(lease)]) > 1

    def expired(self, lease: V1Lease) -> bool:
        return self._quiet[name_of(lease)] > DURATION or _stale(lease)


def _stale(lease: V1Lease) -> bool:
    renewed = lease.spec.renew_time if lease.spec else None
    now = datetime.datetime.now(datetime.UTC)
    return renewed is not None and (now - renewed).total_seconds() > STALE


def _holder(lease: V1Lease) -> str:
    return (lease.spec and lease.spec.holder_identity) or ""


def _delete(cluster: Cluster, lease: V1Lease, *, as_seen: bool = True) -> bool:
    """Delete a Lease, `as_seen` only in that very state; return False if it has changed. Raises ClusterError."""
    meta = meta_of(lease)
    state = V1Preconditions(uid=meta.uid, resource_version=meta.resource_version if as_seen else None)
    delete, body = cluster.coordination.delete_namespaced_lease, V1DeleteOptions(preconditions=state)
    try:
        call(delete, name_of(lease), cluster.namespace, body=body, seconds=RELEASE)
    except RefusedError as error:
        if error.status not in (404, 409):
            raise
        return error.status == 404
    return True


def _all(cluster: Cluster) -> list[V1Lease]:
    return call(cluster.coordination.list_namespaced_lease, cluster.namespace, label_selector=SELECTOR).items
