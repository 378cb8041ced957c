"""Deployments for tests: up for the length of a `with`, measured for a second or two, and gone without a trace."""

from __future__ import annotations

import contextlib
import filecmp
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tpcsweep import signals
from tpcsweep.measure.cell import measure
from tpcsweep.parameters import Parameters
from tpcsweep.sweep import Measurement
from tpcsweep.testbeds.netns import state
from tpcsweep.testbeds.netns.deployment import Needs, deployed
from tpcsweep.testbeds.netns.site import Site
from tpcsweep.tools import TOOLS
from tpcsweep.xrootd import READY_FILE

from tests.support.leftovers import present, stayed

MIB = 1 << 20
QUICK = Measurement(min_time=1.0, max_time=2.0, precision=0.5)
LONGER = Measurement(min_time=4.0, max_time=5.0, precision=0.5)


@contextlib.contextmanager
def site_of(folder: Path, tools: Sequence[str] = (), streams: int = 1, **parameters: Any) -> Iterator[Site]:
    """A deployment, with the machine's lock; nothing of it may stay."""
    needs = Needs(memory=2 << 30, tools=tools, streams=streams)
    owner = state.Owner("test", "deployment", os.getpid(), str(folder))
    handlers = {number: signal.getsignal(number) for number in signals.ENDING}
    with state.exclusive(owner, waiting=print):
        before = present()
        try:
            with deployed(Parameters(**parameters), owner, needs) as site:
                yield site
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            assert stayed(before) == {}


def cell(site: Site, how: Measurement = QUICK, **parameters: Any) -> dict[str, Any]:
    return measure(site, Parameters(**parameters), how, "t", lambda *_: None)


def arrives(site: Site, tool: str, tcp_streams: int = 1, endpoint: str = "redirector") -> None:
    """Copy a file of random bytes and compare."""
    name = site.add_source(3 * MIB + 1, "random", 1)
    client = site.client_of(tool)
    run = {"tool": tool, "streams": 1, "pairs": site.pairs(endpoint), "file_name": name, "prefix": "same"}
    client.run(**run, copy_mode=TOOLS[tool].copy_modes[0], tcp_streams=tcp_streams, folders=site.folders)
    events = []
    give_up = time.monotonic() + 20
    while not events and time.monotonic() < give_up:
        events = client.events()
        time.sleep(0.02)
    client.stop()
    assert events[0]["failure"] is None
    files = (
        Path(folder) / file for folder, file in zip(site.folders, (name, events[0]["name"]), strict=True)
    )
    assert filecmp.cmp(*files, shallow=False)
    site.settle()
    assert left(site) == []


def left(site: Site) -> list[str]:
    """Names of the files at the destination, but for the one that tells that its server is ready."""
    return [path.name for path in site.sides["dst"].files.iterdir() if path.name != READY_FILE]
