# SPDX-License-Identifier: Apache-2.0
"""Data connections between hosts by the senders' kernels: figures of a cell, and the time that windows limited; pure.

`measuring.host_state` reads them on hosts of endpoints, whose kernels the sampler does not reach. They are all
connections over which a host sends to the destination's doors: those of other traffic between the hosts are included.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tpcsweep.data.cell_result import CellResult, Limit, Summary
from tpcsweep.data.host_buffers import WINDOW_CLOSED
from tpcsweep.data.variables import NOT_VISIBLE, SHARES
from tpcsweep.measuring.limits import binding

Reading = Mapping[str, Any]
"""Reading of a host by `measuring.host_state.Senders`, of counters that began with its process."""
_US, _MS = 1e-6, 1e-3  # seconds of a microsecond, and of a millisecond or milliseconds of a microsecond


class Sent(NamedTuple):
    """Growth of the counters of data connections in a time; NaN for fields that a kernel lacks."""

    connections: float  # mean number
    open: float  # seconds, of all connections together, like the next three
    busy: float  # with something to send or unacknowledged
    rwnd_limited: float  # that the receiver's window kept from sending
    sndbuf_limited: float  # that the send buffer kept from sending
    bytes: float  # acknowledged
    segments: float  # sent, with repeated ones
    resent: float
    rtt: float  # smallest RTT, ms
    rtt_loaded: float  # smoothed RTT, mean, ms


def sent_between(readings: Sequence[Reading], seconds: float) -> Sent:
    """Return the growth between the first and the last of some readings, `seconds` apart."""
    before, after = (reading.get("sums", {}) for reading in (readings[0], readings[-1]))

    def growth(name: str) -> float:
        return float(after.get(name, math.nan) - before.get(name, 0))

    number = _mean([reading["number"] for reading in readings])
    return Sent(
        connections=number,
        open=number * seconds,
        busy=growth("busy_time") * _US,
        rwnd_limited=growth("rwnd_limited") * _US,
        sndbuf_limited=growth("sndbuf_limited") * _US,
        bytes=growth("bytes_acked"),
        segments=growth("data_segs_out"),
        resent=growth("total_retrans"),
        rtt=min((reading["min_rtt"] * _MS for reading in readings if "min_rtt" in reading), default=math.nan),
        rtt_loaded=_mean([reading["rtt"] * _MS for reading in readings if "rtt" in reading]),
    )


def together(hosts: Sequence[Sent]) -> Sent | None:
    """Return the sum over the hosts that send; None if none does."""
    sending = [host for host in hosts if host.connections]
    if not sending:
        return None
    sums = Sent(*map(math.fsum, zip(*sending, strict=True)))
    rtts = [host.rtt for host in sending if math.isfinite(host.rtt)]
    return sums._replace(
        rtt=min(rtts, default=math.nan), rtt_loaded=_mean([host.rtt_loaded for host in sending])
    )


def figures(sent: Sent) -> dict[str, float]:
    """Return figures by the names of `data.variables.SUMMARY`."""
    return {
        "host_rtt": sent.rtt,
        "host_rtt_loaded": sent.rtt_loaded,
        "host_connections": sent.connections,
        "host_busy": _ratio(sent.busy, sent.open),
        "host_in_flight": in_flight(sent),
        "host_rwnd_limited": _ratio(sent.rwnd_limited, sent.busy),
        "host_sndbuf_limited": _ratio(sent.sndbuf_limited, sent.busy),
        "host_retransmitted": _ratio(sent.resent, sent.segments),
    }


def in_flight(sent: Sent) -> float:
    """Return the bytes under way of a busy connection, which are its rate times the RTT."""
    return _ratio(sent.bytes * sent.rtt * _MS, sent.busy)


def window_share(sent: Sent, receive_buffer: float, send_buffer: float) -> float:
    """Return the share of open connections' time that the size of a window limited; 0 if unknown.

    Buffers are the largest of the kernels, in bytes. A window with much less under way was closed by a slow reader, not
    limited by its size, as in `limits.attribute`.
    """
    limited = ((sent.rwnd_limited, receive_buffer), (sent.sndbuf_limited, send_buffer))
    seconds = sum(time for time, buffer in limited if in_flight(sent) >= WINDOW_CLOSED * buffer)
    share = _ratio(seconds, max(sent.open, sent.busy))
    return min(share, 1.0) if math.isfinite(share) else 0.0


def with_window(measured: CellResult, share: float) -> CellResult:
    """Return a cell in which a share of the time without a visible limit is that of TCP's window."""
    shares = {limit: measured.summary.figures.get(name) for limit, name in SHARES.items()}
    hidden = shares[NOT_VISIBLE]
    if not hidden or not share or measured.limit is None:
        return measured
    known = {limit: value or 0.0 for limit, value in shares.items()}
    known |= {NOT_VISIBLE: hidden * (1 - share), "window": known["window"] + hidden * share}
    changed = {SHARES[limit]: known[limit] for limit in (NOT_VISIBLE, "window")}
    limit: Limit = binding(known)
    summary = Summary({**measured.summary.figures, **changed})
    return dataclasses.replace(measured, limit=limit, summary=summary)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _ratio(value: float, by: float) -> float:
    return value / by if by else math.nan
