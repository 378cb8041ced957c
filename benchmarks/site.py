# SPDX-License-Identifier: Apache-2.0
"""Deployment for benchmarks."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tpcsweep.common import signals
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.testbeds.interface import Request
from tpcsweep.testbeds.netns import ownership
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.testbeds.netns.testbed import brought_up

MEMORY = 4 << 30


@contextlib.contextmanager
def site_of(tools: Sequence[str] = (), streams: int = 1, **parameters: Any) -> Iterator[NetnsSite]:
    """Yield a deployment for cells of these tools and at most `streams` streams; its logs are temporary."""
    settings, wanted = Netns(kind="netns", memory=MEMORY), Parameters(**parameters)
    handlers = {number: signal.getsignal(number) for number in signals.ENDING}
    with tempfile.TemporaryDirectory() as logs:
        request = Request("benchmark", "benchmark", wanted, tools, 0.0, Path(logs), print, streams)
        owner = ownership.Owner("benchmark", "benchmark", os.getpid(), logs)
        try:
            with (
                ownership.exclusive(owner, waiting=print),
                brought_up(settings, request, owner) as site,
            ):
                yield site
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
