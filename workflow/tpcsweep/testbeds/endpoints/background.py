# SPDX-License-Identifier: Apache-2.0
"""Traffic of other pairs while a cell is measured: transfers without an end, whose files are deleted as they arrive."""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from tpcsweep.common.errors import BrokenError
from tpcsweep.common.numbers import BYTES
from tpcsweep.measuring.client.client_process import ClientRun, ToolRefusedError
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.endpoints.site import EndpointsSite
from tpcsweep.testbeds.endpoints.spans import arrived

POLL = 0.2  # seconds between looks at events of the client


class Background:
    """The traffic of one pair."""

    def __init__(self, site: EndpointsSite, wanted: Parameters, how: Measurement) -> None:
        """Start the transfers. Raises BrokenError if that fails."""
        self._site, self._failure = site, ""
        site.begin(wanted, None)
        name = site.add_source(wanted.file_size, wanted.source_content, wanted.streams)
        self._client = site.client_of(wanted.tool)
        request = ClientRun(
            tool=wanted.tool,
            streams=wanted.streams,
            pairs=site.pairs(wanted.endpoint),
            file_name=name,
            folders=site.folders,
            prefix=f"beside-{secrets.token_hex(4)}",
            copy_mode=wanted.copy_mode,
            tcp_streams=wanted.tcp_streams,
            macaroon_hours=2 + int(how.bounds[1] / 3600),
            longest_pause=how.bounds[1],
        )
        try:
            self._client.run(request)
        except ToolRefusedError as error:
            raise BrokenError(f"background traffic of {site.pair.name}: {error}") from error
        self._began, self._ended = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._follow, name="background traffic", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.wait(POLL):
            try:
                for event in self._client.events():
                    if event["event"] == "end":
                        self._failure = event["failure"] or self._failure
                        self._site.received(event)
                self._site.check()
            except BrokenError as error:
                self._failure = str(error)
                return

    def stop(self) -> tuple[float, str]:
        """End the transfers and delete their files; return the goodput in Gbit/s, and a reason if one failed.

        Raises BrokenError if the files remain.
        """
        ended = time.monotonic()
        self._ended.set()
        self._thread.join()
        for event in self._client.stop():
            if event["event"] == "end":
                self._site.received(event)
        spans = self._site.known_spans(strict=True)
        before, after = arrived(np.array([self._began, ended]), spans)
        self._site.settle()
        return float(after - before) / max(ended - self._began, 1e-6) / BYTES, self._failure


def _stop(one: Background, found: list[tuple[float, str]]) -> None:
    found.append(one.stop())


@contextmanager
def traffic(site: EndpointsSite, wanted: Parameters, how: Measurement) -> Iterator[list[tuple[float, str]]]:
    """Carry background traffic for the length of a `with`; its rates and failures are known afterwards."""
    found: list[tuple[float, str]] = []
    with ExitStack() as undo:
        for other, streams in site.beside:
            mine = wanted.model_copy(update={"streams": streams or wanted.streams})
            one = Background(other, mine, how)
            undo.callback(_stop, one, found)
        yield found
