# SPDX-License-Identifier: Apache-2.0
"""SciTags: packets by which servers announce their flows ("fireflies"), with the tag of the transfer.

A COPY has a tag in a header, a number with the experiment in its upper bits and the activity in its lower six. Servers
send a packet of UDP with JSON, as syslog messages, at the begin and the end of each connection for data. Sources: the
SciTags technical specification (scitags.org), and the packets of release 5.8.1.
"""

import json
import socket
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from tpcsweep.deploying.xrootd.server_config import FIREFLY_PORT, LOOPBACK

_ACTIVITIES = 64
_DATAGRAM = 1 << 16


def parse_packet(datagram: bytes) -> int | None:
    """Return the tag in a packet that announces the end of a flow; None for other packets.

    Raises ValueError if it is no such packet.
    """
    try:
        content = json.loads(datagram[datagram.index(b"{") :].rstrip(b"\0\n"))
        ended = content["flow-lifecycle"]["state"] == "end"
        context = content["context"]
        return int(context["experiment-id"]) * _ACTIVITIES + int(context["activity-id"]) if ended else None
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a packet of SciTags: {error!r}") from None


class Flows:
    """Receiver of the packets that servers send to their own loopbacks."""

    def __init__(self, sockets: Iterable[socket.socket]) -> None:
        """Listen on UDP sockets, one in the network of each server; `close` closes them."""
        self._sockets = list(sockets)
        for each in self._sockets:
            each.setblocking(False)
            each.bind((LOOPBACK, FIREFLY_PORT))

    def tags(self) -> Counter[int]:
        """Return the tags of the flows that ended since the last call, with their numbers."""
        found: Counter[int] = Counter()
        for each in self._sockets:
            with suppress(BlockingIOError):
                while True:
                    if (tag := parse_packet(each.recv(_DATAGRAM))) is not None:
                        found[tag] += 1
        return found

    def close(self) -> None:
        for each in self._sockets:
            each.close()
