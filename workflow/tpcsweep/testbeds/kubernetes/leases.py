"""Locks that end with their holders: Leases, one for each set of nodes that one deployment at a time may use.

A Lease is held as long as it is renewed. Whether it is, everybody judges by what they themselves see and by their own
clock: a Lease that one process has watched for DURATION without a change belongs to nobody any more. Clocks that
disagree between machines do no harm, and taking over from a holder that has died takes DURATION.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from kubernetes.client import V1DeleteOptions, V1Lease, V1LeaseSpec, V1ObjectMeta, V1Preconditions

from tpcsweep.testbeds.kubernetes.api import (
    PATIENCE,
    SELECTOR,
    Cluster,
    ClusterError,
    RefusedError,
    call,
    create,
)

DURATION = 30.0
"""Seconds after which a Lease that has not been renewed may be taken over."""
RENEWAL = 5.0
"""Seconds between renewals."""
LOST = 24.0
"""Seconds without a renewal after which its holder gives a Lease up: well before another takes it."""
POLL = 1.0
"""Seconds between looks while waiting."""
RACE = 0.1
"""Seconds until the next look of one that another was faster than; twice as many the next time."""
TIMEOUT = (3.0, 10.0)
"""Seconds to connect and to wait, for a renewal: there is time for two before LOST. A busy server lets requests queue
for some seconds, and whoever gives up and comes again is the last once more."""
RELEASE = 10.0
"""Seconds for which giving back is tried: a Lease that stays expires."""

SWEEP = "tpcsweep/sweep"
CELLS = "tpcsweep/cells"
OWNER = "tpcsweep/owner"
"""Annotations of every object: whose it is."""


class BusyError(ClusterError):
    """The nodes are in use by another deployment that lives."""


class LostError(ClusterError):
    """A Lease is not held any more, or may not be: others may use the same nodes now."""


class Leases:
    """Leases that are held and renewed. `index` says which of the alternatives they are."""

    def __init__(self, cluster: Cluster, identifier: str, index: int, taken: dict[str, V1Lease]) -> None:
        self.index = index
        self._cluster = cluster
        self._identifier = identifier
        self._taken = taken
        self._renewed = dict.fromkeys(taken, time.monotonic())
        self._gone: str | None = None
        self._problem = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True, name="leases")
        self._thread.start()

    def lost(self) -> str | None:
        """Why these nodes may be another's by now; None while they are ours."""
        if self._gone:
            return self._gone
        silent = time.monotonic() - min(self._renewed.values())
        if silent > LOST:
            return f"a Lease could not be renewed for {silent:.0f} s: {self._problem or 'this process was stopped'}"
        return None

    def check(self) -> None:
        """Raise LostError if these nodes may be another's by now."""
        if why := self.lost():
            raise LostError(why)

    def release(self) -> None:
        """Give back what is still ours; what cannot be given back expires."""
        self._ended.set()
        self._thread.join(sum(TIMEOUT) + 1)
        _release(self._cluster, self._identifier, self._taken)

    def _renew(self) -> None:
        pause = RENEWAL
        while not self._ended.wait(pause):
            pause = RENEWAL
            for name in list(self._taken):
                try:
                    self._one(name)
                except ClusterError as error:
                    self._problem = str(error)
                    pause = POLL
                if self._gone:
                    return

    def _one(self, name: str) -> None:
        """Renew one Lease. Another may take it DURATION after the server has it, which is after `began`."""
        began = time.monotonic()
        lease = self._taken[name].model_copy(deep=True)
        _spec(lease).renew_time = _now()
        try:
            self._taken[name] = call(
                lambda: self._cluster.coordination.replace_namespaced_lease(
                    name, self._cluster.namespace, lease, _request_timeout=TIMEOUT
                ),
                seconds=0,
            )
            self._renewed[name] = began
        except RefusedError as error:
            if error.status not in (404, 409):
                raise
            self._look(name)

    def _look(self, name: str) -> None:
        """Somebody has changed a Lease: we, in a renewal whose answer was lost, or another."""
        lease = _read(self._cluster, name, seconds=0)
        if lease is None:
            self._gone = f"Lease {name} was deleted by somebody"
            return
        if _spec(lease).holder_identity == self._identifier:
            self._taken[name] = lease  # renewed at the next round, which has to come soon
            raise ClusterError(f"Lease {name} was changed by somebody")
        self._gone = f"Lease {name} was taken over by {describe(lease)}"


def name_of(nodes: str) -> str:
    """The name of the Lease for what `nodes` says, the same on every machine."""
    return f"tpcsweep-{hashlib.sha256(nodes.encode()).hexdigest()[:12]}"


def describe(lease: V1Lease) -> str:
    """Whose Lease it is."""
    notes = _meta(lease).annotations or {}
    cells = notes.get(CELLS) or "the only deployment"
    owner = f" by {notes[OWNER]}" if OWNER in notes else ""
    return f"{_spec(lease).holder_identity}: {cells} of sweep {notes.get(SWEEP) or '(unknown)'}{owner}"


@contextlib.contextmanager
def held(
    cluster: Cluster,
    names: Collection[str],
    identifier: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    waiting: Callable[[str], None] | None = None,
) -> Iterator[Leases]:
    """Hold all of these Leases for the length of a `with`; see `first_free`."""
    with first_free(cluster, [names], identifier, labels, annotations, waiting) as leases:
        yield leases


@contextlib.contextmanager
def first_free(
    cluster: Cluster,
    alternatives: Sequence[Collection[str]],
    identifier: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    waiting: Callable[[str], None] | None = None,
) -> Iterator[Leases]:
    """Hold all Leases of the first alternative that is free, for the length of a `with`.

    With `waiting` wait for one, and tell whom for; without, raise BusyError. Nothing is held while waiting. Raises
    ClusterError where the API server refuses or is gone.
    """
    taken: dict[str, V1Lease] = {}
    try:
        index = _take_first(cluster, alternatives, taken, _Holder(identifier, labels, annotations), waiting)
    except BaseException:
        _release(cluster, identifier, taken)
        raise
    leases = Leases(cluster, identifier, index, taken)
    try:
        yield leases
    finally:
        leases.release()


def reap(cluster: Cluster) -> list[str]:
    """Delete the Leases of the dead; returns whose they were.

    Takes one renewal of the living where there are no dead, and DURATION where there are.
    """
    watched = _Watched()
    doubtful: set[str] | None = None
    dead: dict[str, V1Lease] = {}
    while doubtful is None or doubtful:
        there = _all(cluster)
        watched.look(there.values())
        if doubtful is None:
            doubtful = set(there)
        for name in sorted(doubtful):
            if name in there and watched.expired(there[name]):
                dead[name] = there[name]
            if name not in there or name in dead or watched.renewed(there[name]):
                doubtful.discard(name)
        if doubtful:
            time.sleep(POLL)
    # Only as it was seen: a holder that comes back to life renews first, and keeps it.
    return [describe(lease) for lease in dead.values() if _delete(cluster, lease)]


def holders(cluster: Cluster) -> set[str]:
    """Identifiers of the deployments that have Leases, expired ones included."""
    return {_spec(lease).holder_identity or "" for lease in _all(cluster).values()}


class _Holder:
    """What is written into a Lease."""

    def __init__(self, identifier: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        self.identifier = identifier
        self.labels = dict(labels)
        self.annotations = dict(annotations)

    def lease(self, name: str, before: V1Lease | None) -> V1Lease:
        """A Lease of ours, new or in the place of another's."""
        now = _now()
        return V1Lease(
            metadata=V1ObjectMeta(
                name=name,
                labels=self.labels,
                annotations=self.annotations,
                resource_version=_meta(before).resource_version if before else None,
            ),
            spec=V1LeaseSpec(
                holder_identity=self.identifier,
                lease_duration_seconds=int(DURATION),
                acquire_time=now,
                renew_time=now,
                lease_transitions=(_spec(before).lease_transitions or 0) + 1 if before else 0,
            ),
        )


class _Watched:
    """For how long this process has seen each Lease unchanged."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str | None, float, bool]] = {}

    def look(self, leases: Iterable[V1Lease]) -> None:
        """Take note of the present state."""
        now = time.monotonic()
        for lease in leases:
            name, version = _name(lease), _meta(lease).resource_version
            before = self._seen.get(name)
            if before is None or before[0] != version:
                self._seen[name] = (version, now, before is not None)

    def quiet(self, lease: V1Lease) -> float:
        """Seconds without a change."""
        return time.monotonic() - self._seen[_name(lease)][1]

    def renewed(self, lease: V1Lease) -> bool:
        """Whether it has changed while it was watched."""
        return self._seen[_name(lease)][2]

    def expired(self, lease: V1Lease) -> bool:
        """Whether it is nobody's."""
        if not _spec(lease).holder_identity:
            return True
        # A holder that has promised less may not know better; one that has promised more is believed.
        return self.quiet(lease) > max(DURATION, _spec(lease).lease_duration_seconds or 0)


def _take_first(
    cluster: Cluster,
    alternatives: Sequence[Collection[str]],
    taken: dict[str, V1Lease],
    holder: _Holder,
    waiting: Callable[[str], None] | None,
) -> int:
    """Fill `taken` with all Leases of one alternative, whose index is returned."""
    watched = _Watched()
    told = ""
    raced = 0
    while True:
        there = _all(cluster)
        watched.look(there.values())
        free = [
            index
            for index, names in enumerate(alternatives)
            if all(name not in there or watched.expired(there[name]) for name in names)
        ]
        if free:
            # Many who start together all want the first one; those who are too late must not all want the next.
            index = random.choice(free) if raced else free[0]
            if _take(cluster, sorted(set(alternatives[index])), there, taken, holder):
                return index
            _release(cluster, holder.identifier, taken)
            text, pause = "others who want the same", min(RACE * 2**raced, POLL)
        else:
            wanted = [there[name] for names in alternatives for name in names if name in there]
            text, pause = _waits_for(watched, wanted), POLL
            if waiting is None:
                raise BusyError(f"the nodes are in use: {text}. End that first.")
        if waiting and text != told:
            waiting(text)
            told = text
        raced = raced + 1 if free else 0
        # Those who wait for the same must not look at the same moments, or they keep one another from it.
        time.sleep(pause * random.uniform(0.7, 1.3))


def _waits_for(watched: _Watched, wanted: Iterable[V1Lease]) -> str:
    """Whose these are. The words must change only when the situation does: they are shown whenever they change."""
    silent = f" (silent: taken over after {DURATION:.0f} s of that)"
    texts = [describe(lease) + (silent if watched.quiet(lease) > 2 * RENEWAL else "") for lease in wanted]
    first, *others = dict.fromkeys(texts)  # one has several Leases
    return f"{first} and {len(others)} more" if others else first


def _take(
    cluster: Cluster,
    names: Sequence[str],
    there: Mapping[str, V1Lease],
    taken: dict[str, V1Lease],
    holder: _Holder,
) -> bool:
    """Take these in their order, which is everybody's; False as soon as another has been faster."""
    for name in names:
        lease = holder.lease(name, there.get(name))
        try:
            if name in there:
                taken[name] = call(_replacing(cluster, name, lease))
            else:
                taken[name] = create(cluster, lease)
        except RefusedError as error:
            # Where there was none before, it is the namespace that is not there.
            if error.status != 409 and not (error.status == 404 and name in there):
                raise
            found = _read(cluster, name)
            if found is None or _spec(found).holder_identity != holder.identifier:
                return False
            taken[name] = found  # ours, by a request whose answer was lost
    return True


def _replacing(cluster: Cluster, name: str, lease: V1Lease) -> Callable[[], V1Lease]:
    return lambda: cluster.coordination.replace_namespaced_lease(name, cluster.namespace, lease)


def _release(cluster: Cluster, identifier: str, taken: dict[str, V1Lease]) -> None:
    """Delete what is ours, as far as the server lets us."""
    for name, lease in sorted(taken.items()):
        with contextlib.suppress(ClusterError):
            if not _delete(cluster, lease):
                found = _read(cluster, name)
                if found and _spec(found).holder_identity == identifier:
                    _delete(cluster, found)
    taken.clear()


def _delete(cluster: Cluster, lease: V1Lease) -> bool:
    """Delete a Lease in that very state; False where it has changed. Raises ClusterError."""
    meta = _meta(lease)
    state = V1Preconditions(uid=meta.uid, resource_version=meta.resource_version)
    try:
        call(
            lambda: cluster.coordination.delete_namespaced_lease(
                _name(lease), cluster.namespace, body=V1DeleteOptions(preconditions=state)
            ),
            seconds=RELEASE,
        )
    except RefusedError as error:
        if error.status not in (404, 409):
            raise
        return error.status == 404
    return True


def _all(cluster: Cluster) -> dict[str, V1Lease]:
    found = call(
        lambda: cluster.coordination.list_namespaced_lease(cluster.namespace, label_selector=SELECTOR)
    )
    return {_name(lease): lease for lease in found.items}


def _read(cluster: Cluster, name: str, seconds: float = PATIENCE) -> V1Lease | None:
    try:
        return call(
            lambda: cluster.coordination.read_namespaced_lease(
                name, cluster.namespace, _request_timeout=TIMEOUT
            ),
            seconds,
        )
    except RefusedError as error:
        if error.status != 404:
            raise
        return None


def _spec(lease: V1Lease) -> V1LeaseSpec:
    if lease.spec is None:
        lease.spec = V1LeaseSpec()
    return lease.spec


def _meta(lease: V1Lease) -> V1ObjectMeta:
    return lease.metadata or V1ObjectMeta()


def _name(lease: V1Lease) -> str:
    return _meta(lease).name or ""


def _now() -> datetime.datetime:
    now = datetime.datetime.now(datetime.UTC)
    # The server refuses a time without a fraction, which is how Python writes a whole second.
    return now.replace(microsecond=now.microsecond or 1)
