# SPDX-License-Identifier: Apache-2.0
"""Doors that ask for fewer transfers, and the pauses of the streams of a cell. Standard library only."""

import asyncio
import re
import time

from tpcsweep.common.connecting import tls_context
from tpcsweep.common.urls import below, door_of
from tpcsweep.measuring.tools.http import Connections, HttpError
from tpcsweep.measuring.tools.http_tpc import common_headers, wish, wished_pause
from tpcsweep.measuring.tools.tool import Credentials, Transfer

BUSY = re.compile(r"\b(429|503)\b|Too Many Requests|Service Unavailable", re.IGNORECASE)
"""Failures by which a server requests fewer transfers; each one makes the next pause of a stream longer."""


class Pauses:
    """The pauses that doors of a cell ask for, by `Retry-After` in answers to tools or to tpcsweep's own requests."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._until: dict[str, float] = {}  # by door, monotonic
        self._asking: dict[str, asyncio.Task[str]] = {}  # by door

    def note(self, door: str, seconds: float) -> None:
        self._until[door] = max(time.monotonic() + seconds, self._until.get(door, 0.0))

    def left(self, transfer: Transfer) -> float:
        """Return the seconds until both doors of a transfer accept requests again; not positive if they do."""
        doors = map(door_of, transfer.ends[::2])
        return max(self._until.get(door, 0.0) for door in doors) - time.monotonic()

    async def explained(self, failure: str, transfer: Transfer) -> str:
        """Return a failure; of a busy door with the pause that it asks for, which gfal tools and davix hide."""
        role, url = transfer.asked
        known = wished_pause(failure) is not None or self.left(transfer) > 0
        if known or not BUSY.search(failure) or not url.startswith("http"):
            return failure
        door = door_of(url)
        if (task := self._asking.get(door)) is None or task.done():
            task = self._asking[door] = asyncio.create_task(self._asked(role, url, transfer))
        return failure + await asyncio.shield(task)

    async def _asked(self, role: str, url: str, transfer: Transfer) -> str:
        """Return the pause that a door asks for in words, by a COPY that no server can carry out; "" for none.

        It names no other end, and a file that does not exist.
        """
        folder, name = url.rpartition("/")[0], transfer.destination.rpartition("/")[2]
        tls, token = tls_context(self._credentials.authority), None
        try:
            if self._credentials.needed:
                token = self._credentials.token(role)
                if not token:
                    tls.load_cert_chain(self._credentials.certificate, self._credentials.key)
            asked = Connections(tls).request("COPY", below(folder, f"{name}.busy"), common_headers(token))
            async with asked as (head, _):
                return wish(head.status, head.headers.get("retry-after", ""), head.headers.get("date", ""))
        except (HttpError, OSError, ValueError):
            return ""
