# SPDX-License-Identifier: Apache-2.0
"""Locks that end with their holders: Leases, one for each way in which a deployment chooses nodes.

They have those wait that ask for the same nodes, and tell which deployments live. That no node has two deployments,
whatever it is called by, is the scheduler's part (`objects.apart`): a deployment that loses a Lease is still alone.

A Lease is held as long as it is renewed. Whether it is, everybody judges by what they themselves see: a Lease that one
process has watched for DURATION without a change, while the server answered, belongs to nobody any more, nor does one
whose `renewTime` is STALE by the server's own clock. The clocks of the machines do not matter.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kubernetes.client import V1DeleteOptions, V1Job, V1Lease, V1LeaseSpec, V1OwnerReference, V1Preconditions

from tpcsweep.testbeds.kubernetes.api import (
    PATIENCE,
    Cluster,
    ClusterError,
    RefusedError,
    call,
    create_object,
)
from tpcsweep.testbeds.kubernetes.metadata import SELECTOR, Naming, meta_of, name_of, reference, whose

DURATION = 30.0
"""Seconds after which a Lease that has not been renewed may be taken over."""
STALE = 300.0
"""Seconds since its last renewal after which a Lease is taken over at first sight. Much longer than DURATION: when a
server has stalled, all Leases look old, and their holders are about to renew them."""
RENEWAL = 5.0
POLL = 1.0
RACE = 0.1
"""Seconds until the next look of one that another was faster than; twice as many the next time."""
TIMEOUT = (3.0, 10.0)
"""Seconds to connect and to wait, for a renewal: there is time for two before DURATION. A busy server lets requests
queue for some seconds, and whoever gives up and comes again is the last once more."""
RELEASE = 10.0
"""Seconds for which giving back is tried: a Lease that stays expires."""


class NodesInUseError(ClusterError):
    """The nodes are in use by another deployment that lives."""


class Leases:
    """Leases that are held and renewed."""

    def __init__(self, cluster: Cluster, naming: Naming) -> None:
        self.index = -1
        """Which of the alternatives they are."""
        self._cluster = cluster
        self._naming = naming
        self._taken: dict[str, V1Lease] = {}
        self._owners: list[V1OwnerReference] | None = None
        self._gone: str | None = None
        self._lock = threading.Lock()
        """For whoever renews."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True, name="leases")

    def take_first(
        self, alternatives: Sequence[Collection[str]], waiting: Callable[[str], None] | None
    ) -> None:
        """Take all Leases of one alternative, and renew them from now on; see `first_free`.

        What is STALE is removed, whatever it is for: nobody else may ever want that of a trial that was killed.
        """
        watched = _Watched(self._cluster)
        told = ""
        races = 0
        while True:
            present = watched.look()
            free = [
                index
                for index, names in enumerate(alternatives)
                if all(name not in present or watched.expired(present[name]) for name in names)
            ]
            if free:
                # Many who start together all want the first one; those who are too late must not all want the next.
                self.index = random.choice(free) if races else free[0]
                if self._take(alternatives[self.index], present):
                    break
                self._give_back()
                text, pause = "others who want the same", min(RACE * 2**races, POLL)
            else:
                wanted = [present[name] for names in alternatives for name in names if name in present]
                text, pause = _waits_for(watched, wanted), POLL
                if waiting is None:
                    raise NodesInUseError(f"the nodes are in use: {text}. End that first.")
            if waiting and text != told:
                waiting(text)
                told = text
            races = races + 1 if free else 0
            # Those who wait for the same must not look at the same moments, or they keep one another from it.
            time.sleep(pause * random.uniform(0.7, 1.3))
        self._thread.start()
        for name, lease in present.items():
            if name not in self._taken and watched.stale(lease):
                with contextlib.suppress(ClusterError):  # it stays for the next run
                    _delete(self._cluster, lease)

    def lost(self) -> str | None:
        """Who has these Leases instead of us; None while they are ours, as far as is known.

        A server that is silent takes them from nobody: whoever takes one over asks that server for it.
        """
        return self._gone

    def go_with(self, owner: V1Job | None) -> None:
        """Let the cluster collect the Leases with a Job, should nobody be left to give them back; None: let it not.

        It is done now if the server answers, else by the next renewal that arrives.
        """
        with self._lock:
            self._owners = [reference(owner)] if owner else None
            for name in self._taken:
                if not self._keep(name):  # it may have shown how the Lease is now
                    self._keep(name)

    def release(self) -> None:
        """Give back what is still ours; what cannot be given back expires."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(sum(TIMEOUT) + 1)
        self._give_back()

    def _take(self, names: Collection[str], present: Mapping[str, V1Lease]) -> bool:
        """Take these in an order that is everybody's; False as soon as another has been faster."""
        replace = self._cluster.coordination.replace_namespaced_lease
        for name in sorted(set(names)):
            before = present.get(name)
            lease = self._lease(name, before)
            try:
                if before:
                    self._taken[name] = call(replace, name, self._cluster.namespace, lease)
                else:
                    self._taken[name] = create_object(self._cluster, lease)
            except RefusedError as error:
                # Where there was none before, it is the namespace that is not there.
                if error.status != 409 and not (error.status == 404 and before):
                    raise
                current = _read(self._cluster, name)
                if current is None or not self._ours(current):
                    return False
                self._taken[name] = current  # by a request whose answer was lost
        return True

    def _lease(self, name: str, before: V1Lease | None) -> V1Lease:
        now = _now(self._cluster)
        meta = self._naming.meta(name)
        meta.resource_version = meta_of(before).resource_version if before else None
        return V1Lease(
            metadata=meta,
            spec=V1LeaseSpec(
                holder_identity=self._naming.identifier,
                lease_duration_seconds=int(DURATION),
                acquire_time=now,
                renew_time=now,
                lease_transitions=(_spec(before).lease_transitions or 0) + 1 if before else 0,
            ),
        )

    def _ours(self, lease: V1Lease) -> bool:
        return _spec(lease).holder_identity == self._naming.identifier

    def _give_back(self) -> None:
        for name, lease in sorted(self._taken.items()):
            with contextlib.suppress(ClusterError):
                if not _delete(self._cluster, lease):
                    current = _read(self._cluster, name)
                    if current and self._ours(current):
                        _delete(self._cluster, current)
        self._taken.clear()

    def _renew(self) -> None:
        pause = RENEWAL
        while not self._ended.wait(pause):
            pause = RENEWAL
            with self._lock:
                for name in list(self._taken):
                    if not (self._ended.is_set() or self._keep(name)):
                        pause = POLL
            if self._gone:
                return

    def _keep(self, name: str) -> bool:
        """Renew a Lease; whether the server has said that it is renewed. There is a next time."""
        lease = self._taken[name].model_copy(deep=True)
        _spec(lease).renew_time = _now(self._cluster)
        meta_of(lease).owner_references = self._owners
        replace, space = self._cluster.coordination.replace_namespaced_lease, self._cluster.namespace
        try:
            self._taken[name] = call(replace, name, space, lease, seconds=0, _request_timeout=TIMEOUT)
        except RefusedError as error:
            if error.status in (404, 409):
                self._look(name)
            return False
        except ClusterError:
            return False
        return True

    def _look(self, name: str) -> None:
        """See who has changed a Lease: another who takes it, or we, in a renewal whose answer was lost."""
        try:
            lease = _read(self._cluster, name, seconds=0)
        except ClusterError:
            return
        if lease is None:
            self._gone = f"Lease {name} was deleted by somebody"
        elif self._ours(lease):
            self._taken[name] = lease
        else:
            self._gone = f"Lease {name} was taken over by {describe_lease(lease)}"


def name_for(nodes: str) -> str:
    """The name of the Lease for what `nodes` says, the same on every machine."""
    return f"tpcsweep-{hashlib.sha256(nodes.encode()).hexdigest()[:12]}"


def describe_lease(lease: V1Lease) -> str:
    return whose(_spec(lease).holder_identity or "", meta_of(lease).annotations or {})


@contextlib.contextmanager
def first_free(
    cluster: Cluster,
    alternatives: Sequence[Collection[str]],
    naming: Naming,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[Leases]:
    """Hold all Leases of the first alternative that is free, for the length of a `with`.

    With `waiting` one is waited for, while nothing is held; it is told whom for.

    Raises:
        NodesInUseError: None is free, and `waiting` is not given.
        ClusterError: The API server refuses or is gone.
    """
    leases = Leases(cluster, naming)
    try:
        leases.take_first(alternatives, waiting)
        yield leases
    finally:
        leases.release()


def reap(cluster: Cluster) -> list[str]:
    """Delete the Leases of the dead; returns whose they were.

    Takes one renewal of the living where there are no dead, or none that died less than STALE ago; else DURATION.
    """
    watched = _Watched(cluster)
    present = watched.look()
    doubtful = set(present)
    dead: dict[str, V1Lease] = {}
    while doubtful:
        for name in sorted(doubtful):
            if name in present and watched.expired(present[name]):
                dead[name] = present[name]
            if name not in present or name in dead or watched.renewed(present[name]):
                doubtful.discard(name)
        if doubtful:
            time.sleep(POLL)
            present = watched.look()
    # Only as it was seen: a holder that comes back to life renews first, and keeps it.
    return [describe_lease(lease) for lease in dead.values() if _delete(cluster, lease)]


def holders(cluster: Cluster) -> set[str]:
    """Identifiers of the deployments that have Leases, expired ones included."""
    return {_spec(lease).holder_identity or "" for lease in _all(cluster)}


class _Seen(NamedTuple):
    version: str | None
    quiet: float
    """Seconds for which it has not changed, of those in which the server answered."""
    renewed: bool
    """Whether it has ever changed."""


class _Watched:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen: dict[str, _Seen] = {}
        self._looked = time.monotonic()

    def look(self) -> dict[str, V1Lease]:
        leases = {name_of(lease): lease for lease in _all(self._cluster)}
        now = time.monotonic()
        # Where the server did not answer for longer, the holders could not renew either.
        passed = min(now - self._looked, RENEWAL)
        self._looked = now
        for name, lease in leases.items():
            version, before = meta_of(lease).resource_version, self._seen.get(name)
            if before is None or before.version != version:
                self._seen[name] = _Seen(version, 0.0, renewed=before is not None)
            else:
                self._seen[name] = before._replace(quiet=before.quiet + passed)
        return leases

    def quiet(self, lease: V1Lease) -> float:
        return self._seen[name_of(lease)].quiet

    def renewed(self, lease: V1Lease) -> bool:
        return self._seen[name_of(lease)].renewed

    def expired(self, lease: V1Lease) -> bool:
        if not _spec(lease).holder_identity:
            return True
        return self.quiet(lease) > _promised(lease) or self.stale(lease)

    def stale(self, lease: V1Lease) -> bool:
        """Whether it has expired by its own word, at first sight."""
        renewed = _spec(lease).renew_time
        if renewed is None:
            return False
        return (self._cluster.now() - renewed).total_seconds() > max(STALE, _promised(lease))


def _promised(lease: V1Lease) -> float:
    """Seconds for which a holder need not renew: one that has promised less may not know better; more is believed."""
    return max(DURATION, _spec(lease).lease_duration_seconds or 0)


def _waits_for(watched: _Watched, wanted: Iterable[V1Lease]) -> str:
    """Whose these are. The words must change only when the situation does: they are shown whenever they change."""
    silent = f" (silent: taken over after {DURATION:.0f} s of that)"
    texts = [
        describe_lease(lease) + (silent if watched.quiet(lease) > 2 * RENEWAL else "") for lease in wanted
    ]
    first, *others = dict.fromkeys(texts)  # one has several Leases
    return f"{first} and {len(others)} more" if others else first


def _delete(cluster: Cluster, lease: V1Lease) -> bool:
    """Delete a Lease in that very state; False where it has changed. Raises ClusterError."""
    meta = meta_of(lease)
    state = V1Preconditions(uid=meta.uid, resource_version=meta.resource_version)
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


def _read(cluster: Cluster, name: str, seconds: float = PATIENCE) -> V1Lease | None:
    read = cluster.coordination.read_namespaced_lease
    try:
        return call(read, name, cluster.namespace, seconds=seconds, _request_timeout=TIMEOUT)
    except RefusedError as error:
        if error.status != 404:
            raise
        return None


def _spec(lease: V1Lease) -> V1LeaseSpec:
    if lease.spec is None:
        lease.spec = V1LeaseSpec()
    return lease.spec


def _now(cluster: Cluster) -> datetime.datetime:
    now = cluster.now()
    # The server refuses a time without a fraction, which is how Python writes a whole second.
    return now.replace(microsecond=now.microsecond or 1)
