# SPDX-License-Identifier: Apache-2.0
"""An agent's part in looking at a path: it sends, and takes what another sends, from those alone who know a word.

Whoever measures makes the word up, and agents hear it over TLS. The port is open while a path is looked at. Handshakes
say nothing; whatever is sent begins with the word, or is cut off.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tpcsweep.testbeds.kubernetes.pod import network


class Probes:
    """What an agent can be asked of a path."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._word = b""
        self._server: asyncio.Server | None = None

    @property
    def verbs(self) -> Mapping[str, Callable[..., Any]]:
        """Its functions, by what they are asked by."""
        return {
            "open_probes": self._open,
            "close_probes": self._close,
            **{verb: partial(asyncio.to_thread, getattr(network, verb)) for verb in ("arriving", "emptied")},
            **{verb: partial(self._send, getattr(network, verb)) for verb in ("round_trips", "pour")},
        }

    async def _open(self, word: str) -> None:
        """Take probes from now on, from whoever knows the word, and show it to others."""
        self._word = word.encode()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Swallower(self._word), None, self._port)

    async def _close(self) -> None:
        """Take none any more."""
        if self._server:
            self._server.close()

    async def _send(self, function: Callable[..., Any], **asked: Any) -> Any:
        return await asyncio.to_thread(function, word=self._word, **asked)


class Swallower(asyncio.BufferedProtocol):
    """The other end of what `network` sends: reads, at as little CPU as it can, and closes when it is told all."""

    _buffer = bytearray(1 << 18)
    """One for all: what is in it is looked at at once, or not at all."""
    _transport: asyncio.Transport

    def __init__(self, word: bytes) -> None:
        self._word = word
        self._said: bytes | None = b""
        """What has come before it is known to begin with the word; None afterwards."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, _sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        if self._said is None:
            return
        self._said += self._buffer[:size]
        if len(self._said) >= len(self._word):  # as a whole: byte by byte it could be guessed
            known = hmac.compare_digest(self._said[: len(self._word)], self._word)
            self._said = None
            if not known:
                self._transport.abort()
