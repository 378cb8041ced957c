# SPDX-License-Identifier: Apache-2.0
"""What holds for tests on real servers: what they share, what earlier runs have left, and how they fail."""

import contextlib
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from tpcsweep.common.errors import BrokenError
from tpcsweep.testbeds.netns import ownership
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.testbeds.netns.testbed import reap
from xdist.scheduler import LoadScopeScheduling

from tests.support.logs import told
from tests.support.sites import CLIENT_FOR_HTTP, MIB, site_of
from tests.support.storage import Storage, linger, nothing_stays, storage_of
from tests.support.workflow import Sweep

HERE = Path(__file__).parent
TOOLS = ["davix-put", "davix-get", "xrdcp", "xrdcp-direct", "globus-url-copy"]
TOOLS += ["xrdcp-http"] if CLIENT_FOR_HTTP else []
PATH = {"rtt": 2, "bandwidth": 0.2}
PAIR: dict[str, Any] = {"tools": TOOLS, "streams": 2, **PATH, "tcp_buffer": 8 * MIB, "mtu": 1500}
SITES: dict[str, dict[str, Any]] = {
    "pair": PAIR,
    "open_pair": {**PAIR, "authorization": "none"},
    "clusters": {"tools": ["xrdcp", "globus-url-copy"], "origins": 2, **PATH},
}
"""Deployments for tests that only look, by the names of their fixtures: one origin on each side, with the servers of
all tools that move files; the same servers, which let everybody in; and two origins and a redirector on each side."""
CRASHED = re.compile(
    "(xrootd|cmsd) was killed by SIG(SEGV|ABRT)|(handshake|read) operation timed out|no end within 60 s|"
    "no bytes have been received in 60 s|library failure=Timeout was reached"
)
"""XRootD up to 5.9.1 crashes or hangs now and then of itself, on little CPU (docs/studies.md)."""
SCOPES = {name: name for name in ("first_page", "open_questions", "pages", "published", "slurm", "uml")}
SCOPES |= {f"endpoints{part}": "endpoints" for part in ("", "_faults", "_pairs", "_tokens", "_user")}
"""What runs next to the modules that deploy on this machine, one at a time: endpoints wait more than they compute."""
BASE = pytest.StashKey[Path]()


class OneMachine(LoadScopeScheduling):
    """Tests that deploy on this machine run one after the other in one process, and others next to them."""

    def _split_scope(self, nodeid: str) -> str:
        name = Path(nodeid.partition("::")[0]).stem.removeprefix("test_")
        return SCOPES.get(name, "machine")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneMachine:
    return OneMachine(config, log)


class Shared:
    """The shared deployment that is up, and with it the machine: close it before another one comes up."""

    def __init__(self) -> None:
        self._up = contextlib.ExitStack()
        self._site: NetnsSite | None = None
        self._name = ""

    def site(self, name: str, folders: pytest.TempPathFactory) -> NetnsSite:
        """Return the deployment that is up, if it is the wanted one and whole, or a new one."""
        with contextlib.suppress(BrokenError):
            if self._site is not None and self._name == name:
                self._site.check()
                return self._site
        self.close()
        self._site = self._up.enter_context(site_of(folders.mktemp(name), **SITES[name]))
        self._name = name
        return self._site

    def discard(self) -> None:
        """Give the deployment that is up to no other test."""
        self._name = ""

    def close(self) -> None:
        self._site = None
        self._up.close()


SHARED = Shared()


def _fixture(name: str) -> Any:
    @pytest.fixture(name=name)
    def site(tmp_path_factory: pytest.TempPathFactory) -> NetnsSite:
        return SHARED.site(name, tmp_path_factory)

    return site


pair, open_pair, clusters = map(_fixture, SITES)


@pytest.fixture(scope="session", autouse=True)
def clean(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Remove the deployments of killed runs, but none that is up, and note where pytest keeps files of tests."""
    with contextlib.suppress(ownership.MachineBusyError, PermissionError):
        reap(Netns(kind="netns"))
    request.session.stash[BASE] = tmp_path_factory.getbasetemp()


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A small sweep with several axes, measured by the plain command to its page; for reading only."""
    axes = {"rtt": [0, "4 ms"], "tool": ["gfal-copy", "curl"], "streams": [1, 2]}
    sweep = Sweep(tmp_path_factory.mktemp("swept")).define(
        parameters={**axes, "bandwidth": "200 Mbit/s", "file_size": "8 MiB"},
        exclude=[{"rtt": 0, "tool": "curl", "streams": 2}],
        measurement={"until": "files", "files": 3, "max_time": "10 min"},
        notebooks={"curves": {"x": "streams", "curve": "tool"}},
    )
    done = sweep.run()
    assert done.returncode == 0, done.stdout
    assert "7 of 7 cells measured" in done.stdout
    assert done.stdout.splitlines()[-1] == f"page: {sweep.results / 'index.html'}"
    return sweep


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    """Servers that tpcsweep has not started, and that accept certificates and macaroons."""
    with storage_of(asks=True) as found:
        yield found


@pytest.fixture
def nothing_left(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No file on the storage and no entry in the ledger outlive a test."""
    with nothing_stays(storage, tmp_path / "state", monkeypatch):
        yield


@pytest.fixture
def lingering(nothing_left: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001, it is set up before
    """Deployments between endpoints wait for servers, in tests in which copies may outlive their client."""
    linger(monkeypatch)


def _shared(item: pytest.Item | None) -> str:
    """The shared deployment that a test uses; "" of none."""
    used = getattr(item, "fixturenames", ())
    return next((name for name in SITES if name in used), "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a deployment come one after the other, before those that have one of their own."""
    places = [number for number, item in enumerate(items) if HERE in item.path.parents]
    order = [*SITES, ""]
    here = sorted((items[number] for number in places), key=lambda item: order.index(_shared(item)))
    for number, item in zip(places, here, strict=True):
        item.add_marker(pytest.mark.real)
        items[number] = item


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Once more if a server has crashed or hung of itself: that is not what these tests are about."""
    if HERE not in item.path.parents:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed and CRASHED.search(report.longreprtext) for report in reports):
        item.warn(pytest.PytestWarning("once more: a server has crashed or hung"))
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say where the logs are, and hand servers with which a test has failed to no other."""
    report = yield
    if report.failed and BASE in item.session.stash:
        if logs := told(item.session.stash[BASE]):
            report.sections.append(("logs of deployments", logs))
        SHARED.discard()
        # A server that hangs for some requests still answers others.
        if isinstance(storage := getattr(item, "funcargs", {}).get("storage"), Storage):
            storage.changed.update(storage.doors)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Take a shared deployment down after the last test that uses it."""
    yield
    if not _shared(nextitem) or _shared(nextitem) != _shared(item):
        SHARED.close()


def pytest_sessionfinish() -> None:
    SHARED.close()
