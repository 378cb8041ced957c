# SPDX-License-Identifier: Apache-2.0
"""What holds for tests on real servers: what they share, what earlier runs have left, and how they fail."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from tpcsweep.configuration.testbeds import Netns
from tpcsweep.testbeds.netns import state
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.testbeds.netns.testbed import reap

from tests.support.logs import told
from tests.support.pool import Pool
from tests.support.sites import MIB

HERE = Path(__file__).parent
POOL = Pool()
PAIR = {
    "tools": ["davix-put", "davix-get", "xrdcp", "xrdcp-direct", "globus-url-copy"],
    "streams": 2,
    "rtt": 2,
    "bandwidth": 0.2,
    "tcp_buffer": 8 * MIB,
    "mtu": 1500,
}
SHARED = {
    "pair": PAIR,
    "open_pair": {**PAIR, "authorization": "none"},
    "clusters": {"tools": ["xrdcp", "globus-url-copy"], "origins": 2, "rtt": 2, "bandwidth": 0.2},
}
"""Deployments for tests that only look, by the names of their fixtures.

`pair` has one origin on each side, with the servers of all tools that move files; `open_pair` lets everybody in;
`clusters` has two origins and a redirector on each side.
"""
CRASHED = re.compile("(xrootd|cmsd) was killed by SIG(SEGV|ABRT)")
"""What XRootD 5.5.3 does now and then of itself, on little CPU."""
BEGAN = pytest.StashKey[float]()
BASE = pytest.StashKey[Path]()


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_of_earlier_runs() -> None:
    """A run that was killed leaves its deployment behind. One that is up is another's, who removes what it finds."""
    with contextlib.suppress(state.MachineBusyError, PermissionError):
        reap(Netns(kind="netns"))


@pytest.fixture(scope="session", autouse=True)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where pytest keeps what tests write."""
    request.session.stash[BASE] = tmp_path_factory.getbasetemp()


def _site(name: str) -> Any:
    def site(tmp_path_factory: pytest.TempPathFactory) -> NetnsSite:
        return POOL.site(lambda: tmp_path_factory.mktemp(name), SHARED[name])

    return pytest.fixture(name=name)(site)


pair, open_pair, clusters = map(_site, SHARED)


def _shared(item: pytest.Item | None) -> str:
    """The shared deployment that a test uses; "" of none."""
    used = getattr(item, "fixturenames", ())
    return next((name for name in SHARED if name in used), "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a deployment come one after the other, before those that have one of their own."""
    places = [number for number, item in enumerate(items) if HERE in item.path.parents]
    order = [*SHARED, ""]
    here = sorted((items[number] for number in places), key=lambda item: order.index(_shared(item)))
    for number, item in zip(places, here, strict=True):
        items[number] = item


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Once more where a server has crashed of itself: that is not what these tests are about."""
    if HERE not in item.path.parents:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed and CRASHED.search(report.longreprtext) for report in reports):
        item.warn(pytest.PytestWarning("once more: a server has crashed"))
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note when a module begins to deploy."""
    module = item.getparent(pytest.Module)
    assert module
    module.stash.setdefault(BEGAN, time.time())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say where the logs are, and hand a deployment in which a test has failed to no other."""
    report = yield
    if report.failed and BASE in item.session.stash:
        module = item.getparent(pytest.Module)
        assert module
        if logs := told(item.session.stash[BASE], module.stash[BEGAN]):
            report.sections.append(("logs of deployments", logs))
        POOL.discard()
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Take a shared deployment down after the last test that uses it."""
    yield
    if not _shared(nextitem) or _shared(nextitem) != _shared(item):
        POOL.close()


def pytest_sessionfinish() -> None:
    """Whatever has ended the run."""
    POOL.close()
