# SPDX-License-Identifier: Apache-2.0
"""Leases on an API server that is played: what becomes of them when it stalls, loses answers, or a holder dies."""

import datetime
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import V1Job, V1ObjectMeta
from tpcsweep.testbeds.kubernetes import leases
from tpcsweep.testbeds.kubernetes.api import Cluster
from tpcsweep.testbeds.kubernetes.metadata import MANAGED, Naming

from tests.support.played_api import PlayedApi
from tests.support.workflow import wait_until

OURS, THEIRS = "aaaaaa", "bbbbbb"
DAY = 86400.0
JOB = V1Job(metadata=V1ObjectMeta(name="tpc-aaaaaa", uid="uid-of-the-job"))


@pytest.fixture
def cluster(server: PlayedApi) -> Cluster:
    return server.cluster()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that are renewed all the time, by requests that nobody waits for long."""
    for name, value in {"RENEWAL": 0.02, "POLL": 0.02, "TIMEOUT": (5.0, 0.2)}.items():
        monkeypatch.setattr(leases, name, value)


def held_by(identifier: str, cluster: Cluster, *says: Any) -> Any:
    return leases.first_free(cluster, [["a"]], Naming(identifier, "a sweep", "rtt=20"), *says)


def lease_of(identifier: str, renewed: float, name: str = "a", **metadata: object) -> dict[str, Any]:
    """A Lease whose holder is dead, renewed for the last time at a time in seconds since 1970."""
    at = datetime.datetime.fromtimestamp(renewed, datetime.UTC).isoformat(timespec="microseconds")
    spec = {"holderIdentity": identifier, "leaseDurationSeconds": 30, "acquireTime": at, "renewTime": at}
    return {"metadata": {"name": name, "labels": MANAGED, **metadata}, "spec": spec}


def renewed_again(server: PlayedApi) -> None:
    """Wait for two renewals: the first may have been under way already."""
    version = server.version("leases", "a")
    wait_until(lambda: server.version("leases", "a") >= version + 2, "the Lease is renewed")


def lease(server: PlayedApi) -> dict[str, Any]:
    present = server.get("leases", "a")
    assert present is not None
    return present


def owners(server: PlayedApi) -> list[str]:
    return [owner["uid"] for owner in lease(server)["metadata"].get("ownerReferences") or []]


@pytest.mark.usefixtures("fast")
def test_a_renewal_whose_answer_is_lost_was_our_own(server: PlayedApi, cluster: Cluster) -> None:
    with held_by(OURS, cluster) as held:
        for _ in range(2):
            before = server.version("leases", "a")
            with server.without(server.answers):
                wait_until(lambda known=before: server.version("leases", "a") > known, "a renewal arrives")
                asked = len(server.asked)
                wait_until(lambda known=asked: len(server.asked) > known, "it was given up and comes again")
            renewed_again(server)
            assert held.lost() is None
    assert server.get("leases", "a") is None


@pytest.mark.usefixtures("fast")
def test_a_stall_takes_no_lease(server: PlayedApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(ahead=0.0)
    skipping = SimpleNamespace(monotonic=lambda: time.monotonic() + clock.ahead, sleep=time.sleep)
    monkeypatch.setattr(leases, "time", skipping)
    waits, taken = threading.Event(), threading.Event()

    def wait() -> None:
        with held_by(THEIRS, server.cluster(), lambda _: waits.set()):
            taken.set()

    with ThreadPoolExecutor(1) as pool:
        with held_by(OURS, cluster) as held:
            waiting = pool.submit(wait)
            assert waits.wait(60)
            with server.without(server.takes):
                clock.ahead += DAY  # longer than a Lease lasts
                assert held.lost() is None
            renewed_again(server)
            assert held.lost() is None
            assert not taken.is_set()
        waiting.result(60)
        assert taken.is_set()


def test_a_stale_lease_is_taken_at_first_sight(server: PlayedApi, cluster: Cluster) -> None:
    server.put("leases", lease_of(THEIRS, time.time() - leases.STALE + 60))
    with pytest.raises(leases.NodesInUseError, match=f"^the nodes are in use: {THEIRS}: "):
        held_by(OURS, cluster).__enter__()
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "tpc-bbbbbb", "uid": "uid-of-another"}
    server.put("leases", lease_of(THEIRS, time.time() - leases.STALE - 60, ownerReferences=[job]))
    with held_by(OURS, cluster):
        assert leases.holders(cluster) == {OURS}
        assert owners(server) == []  # it does not go with the Job of the dead
        renewed = datetime.datetime.fromisoformat(lease(server)["spec"]["renewTime"]).timestamp()
        assert abs(renewed - time.time()) < 60
    assert server.get("leases", "a") is None


def test_who_takes_a_lease_removes_stale_ones(server: PlayedApi, cluster: Cluster) -> None:
    """The Lease of a trial that was killed has a name of its own: nobody else would ever take it over."""
    for name, silent in (("b", leases.STALE + 60), ("c", leases.STALE - 60)):
        server.put("leases", lease_of(THEIRS, time.time() - silent, name))
    with held_by(OURS, cluster):
        assert [bool(server.get("leases", name)) for name in "abc"] == [True, False, True]


def test_a_stale_lease_is_reaped_at_first_sight(server: PlayedApi, cluster: Cluster) -> None:
    server.put("leases", lease_of(THEIRS, time.time() - leases.STALE - 60))
    assert [words.partition(":")[0] for words in leases.reap(cluster)] == [THEIRS]
    assert sum(verb == "GET" for verb, _ in server.asked) == 1
    assert server.get("leases", "a") is None


@pytest.mark.usefixtures("fast")
def test_who_has_taken_a_lease_is_said(server: PlayedApi, cluster: Cluster) -> None:
    with held_by(OURS, cluster) as held:
        server.put("leases", lease_of(THEIRS, time.time()))
        wait_until(held.lost, "it is noticed")
        assert held.lost() == "Lease a was deleted, or taken over by another deployment"
    assert leases.holders(cluster) == {THEIRS}  # what is not ours stays
    server.remove("leases", "a")
    with held_by(OURS, cluster) as held:
        server.remove("leases", "a")
        wait_until(held.lost, "it is noticed")
        assert held.lost()


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("touched", [False, True])
def test_a_lease_goes_with_the_job(server: PlayedApi, cluster: Cluster, touched: bool) -> None:
    with held_by(OURS, cluster) as held:
        assert owners(server) == []
        for job, expected in ((JOB, ["uid-of-the-job"]), (None, [])):
            if touched:
                server.put("leases", lease(server))
            held.go_with(job)
            assert owners(server) == expected
            renewed_again(server)
            assert owners(server) == expected
        assert held.lost() is None
