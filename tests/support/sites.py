# SPDX-License-Identifier: Apache-2.0
"""Deployments for tests: up for the length of a `with`, measured for a second or two, and gone without a trace."""

import contextlib
import filecmp
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tpcsweep.common import signals
from tpcsweep.deploying.xrootd.obtaining import to_build
from tpcsweep.deploying.xrootd.releases import HTTP_CLIENT, SYSTEM, Release
from tpcsweep.deploying.xrootd.server_config import READY_FILE
from tpcsweep.measuring.cell import measure
from tpcsweep.measuring.client.client_process import Client, ClientRun
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.interface import Request
from tpcsweep.testbeds.netns import ownership
from tpcsweep.testbeds.netns.settings import Netns, OwnRelease
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.testbeds.netns.testbed import brought_up

from tests.support.leftovers import present, stayed
from tests.support.workflow import wait_until

MIB = 1 << 20
CLIENT_FOR_HTTP = Release(SYSTEM).copies_by_http() or not to_build(HTTP_CLIENT, {})
"""Whether there is an xrdcp that copies by HTTP: building one takes a quarter of an hour."""


@contextlib.contextmanager
def site_of(
    folder: Path,
    tools: Sequence[str] = (),
    streams: int = 1,
    own: Sequence[OwnRelease] = (),
    **parameters: Any,
) -> Iterator[NetnsSite]:
    """A deployment, with the machine's lock; nothing of it may stay."""
    settings = Netns(kind="netns", memory=2 << 30, path="measure", releases=tuple(own))
    asked = Parameters(**{**settings.defaults(), **parameters})
    request = Request("test", "deployment", asked, tools, 0.0, folder, print, streams)
    owner = ownership.Owner("test", "deployment", os.getpid(), str(folder))
    with ownership.exclusive(owner, waiting=print):
        before = present()
        try:
            with handlers_kept(), brought_up(settings, request, owner) as site:
                yield site
        finally:
            assert stayed(before) == {}


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """This process's handlers of signals, which a deployment replaces, are back at the end of a `with`."""
    handlers = {number: signal.getsignal(number) for number in signals.ENDING}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def files(number: int) -> Measurement:
    """A cell that is over when each stream has brought so many files: soon where the machine is fast."""
    return Measurement(until="files", files=number, max_time=120.0)


def seconds(length: float) -> Measurement:
    return Measurement(until="seconds", seconds=length)


def cell(site: NetnsSite, how: Measurement, **parameters: Any) -> dict[str, Any]:
    """Measure a cell, and return what its file would contain."""
    return measure(site, Parameters(**parameters), how, "t", lambda *_: None).to_json()


def whole(site: NetnsSite, how: Measurement, **parameters: Any) -> dict[str, Any]:
    """The same of a cell that must go well, whose figures agree with each other and with the path."""
    found = cell(site, how, **parameters)
    assert found["status"] == "ok", found["message"]
    summary, sizes = found["summary"], found["transfers"]["size"]
    assert "transfers_failed" not in found["flags"], found["message"]
    assert 0 < summary["throughput_average"] < 1.05 * site.link.path.bandwidth
    if how.until == "files":
        assert len(sizes) == summary["transfers"] == how.files * parameters["streams"]
        arrived = summary["throughput_average"] * summary["duration"] / 8e-9
        assert 0.5 * sum(sizes) < arrived < 1.01 * sum(sizes)  # the last of it came after the last reading
    return found


def copied(
    site: NetnsSite, tool: str, streams: int = 1, endpoint: str = "redirector", **how: Any
) -> tuple[str, dict[str, Any]]:
    """Copy a file of random bytes by so many TCP streams; return its name at the source and how the first try ended."""
    name = site.add_source(3 * MIB + 1, "random", 1)
    client = site.client_of(tool)
    run = {"tool": tool, "streams": 1, "pairs": site.pairs(endpoint), "file_name": name, "prefix": "same"}
    run |= {"copy_mode": TOOLS[tool].copy_modes[0], "tcp_streams": streams, "folders": site.folders}
    client.run(ClientRun(**run | how))
    events: list[dict[str, Any]] = []
    wait_until(lambda: events.extend(client.events()) or events, "a transfer ends")
    client.stop()
    return name, events[0]


def arrives(site: NetnsSite, tool: str, streams: int = 1, endpoint: str = "redirector", **how: Any) -> None:
    """Copy a file by a transfer of so many TCP streams, and compare."""
    name, ended = copied(site, tool, streams, endpoint, **how)
    assert ended["failure"] is None
    source, destination = map(Path, site.folders)
    assert filecmp.cmp(source / name, destination / ended["name"], shallow=False)
    site.settle()
    assert left(site) == []


def streaming(site: NetnsSite, tool: str, streams: int, endpoint: str = "direct") -> Client:
    """A client whose streams pull files that take long."""
    run = {"tool": tool, "streams": streams, "pairs": site.pairs(endpoint), "prefix": tool, "tcp_streams": 1}
    client = site.client_of(tool)
    client.run(ClientRun(**run, file_name=site.add_source(512 * MIB, "sparse", 1), copy_mode="pull"))
    return client


def left(site: NetnsSite) -> list[str]:
    """Names of the files at the destination, but for the one that tells that its server is ready."""
    return [path.name for path in site.sides["dst"].files.iterdir() if path.name != READY_FILE]
