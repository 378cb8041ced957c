"""What bound a cell's throughput, and the numbers that say so. Pure.

Of every limit there are signs: numbers with a threshold each. A limit is reached when all signs of one of its rules
are; the first reached in the order of `RULES` is the cell's limit. docs/limits.md says why the order is this one, and
how often the rules are right on cells that were built to have a known limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from tpcsweep import tcp
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.measure.readings import Series, mean
from tpcsweep.rates import GBIT_PER_MS

Summary = Mapping[str, float | int | None]

NONE_FOUND = "none_found"

PATH_FULL = 0.9
"""Share of the path's bandwidth, in bytes on the wire, from which on the path binds: whatever else is improved, no
more than a ninth can be gained. Full paths had 0.95 to 1.00 here, verified paths may be 5 % slow (paths/verify.py)."""
QUOTA_USED = 0.9
"""Share of its quota that an origin uses when the quota binds it: the kernel gives a quota in slices, of which some
are lost (Documentation/scheduler/sched-bwc.rst)."""
THROTTLED = 0.5
"""Share of the scheduling periods in which the quota ran out, from which on it binds though less is used on average:
what is throttled waits for the rest of a period (the same source)."""
ONE_THREAD = 0.9
"""Cores that the busiest thread uses when it binds: one thread moves the bytes of a transfer, and none gets more than
one core."""
WAITS_FOR_DISK = 0.5
"""Threads that wait for a disk, for each stream: from here on a stream waits most of its time."""
WINDOW_LIMITED = 0.5
"""Share of the streams' time in which a window kept a connection from sending, by the kernel's own account (struct
tcp_info: tcpi_rwnd_limited, tcpi_sndbuf_limited; Linux commit 05b055e89121, 2016): most of it."""
WINDOW_USED = 0.25
"""Data under way of a busy connection (its rate × RTT) over the largest TCP buffer, from which on the buffer and not
its reader binds. The kernel makes a window of half a buffer (tcp_adv_win_scale), less overhead: 0.6 to 0.75 of the
buffer in the end, and less until it has grown. A slow reader on a short path left a thousandth here."""
WINDOW_FULL = 0.5
"""The same, from which on it binds whatever the kernel's account says: that was 0.2 of the time here for a sender that
polled for room in its send buffer (pushing) and 0.73 for one that waited in it (pulling), at the same 0.6."""
RAMP = 0.5
"""Share of a transfer's time that its handshakes and slow start take at least, from which on files are too small for
the path."""
NETWORK_LIMITED = 0.5
"""Share of the streams' time in which a connection sent as fast as the network let it, that is what is left of the
kernel's account (as for WINDOW_LIMITED): most of it."""
LOSS_USED = 0.4
"""Throughput over what the losses leave by Mathis and others or by CUBIC's law, from which on losses bind. It was 0.6
to 1.2 where random loss bound, and 3 to 3.8 where a small queue did; what loses less than binds it has less."""
QUEUE_DROPS = 0.5
"""Share of the dropped packets that found a queue full, from which on it is the queue that loses them."""
MACHINE_USED = 0.95
"""Share of the machine's CPU time, what the hypervisor took included, from which on the machine itself may bind."""
EMULATOR_USED = 0.9
"""Cores that the path's emulator uses when it may bind."""

ROUND_TRIPS = {"pull": 6, "push": 4}
"""Round trips of a transfer of one byte, by copy_mode: connections, requests and answers. Found: at 100 ms such
transfers by curl took 0.62 s and 0.42 s, each of them."""
REDIRECTED = 13
"""The same that a pull takes more where both sides have a redirector. Found: 13 for files of 4 MiB, and 16 for 64 MiB;
docs/shipped-sweeps.md."""


class Sign(NamedTuple):
    """A number of the cell's summary that speaks for a limit when it is at least so large."""

    number: str
    threshold: float

    def beyond(self, summary: Summary) -> float:
        """How often the number is its threshold; 0 where it is not known."""
        value = summary[self.number]
        return 0.0 if value is None else value / self.threshold

    def evidence(self, summary: Summary) -> dict[str, Any]:
        """The sign as a cell's file has it."""
        value = summary[self.number]
        reached = value is not None and value >= self.threshold
        return {"number": self.number, "value": value, "threshold": self.threshold, "reached": reached}


Rule = tuple[Sign, ...]

RULES: Mapping[str, tuple[Rule, ...]] = {
    "bandwidth": ((Sign("path_used", PATH_FULL),),),
    **{
        f"cpu_{side}": (
            (Sign(f"{side}_quota_used", QUOTA_USED),),
            (Sign(f"{side}_throttled", THROTTLED),),
            (Sign(f"{side}_thread", ONE_THREAD),),
        )
        for side in ("source", "destination")
    },
    "client": ((Sign("client_throttled", THROTTLED),), (Sign("client_thread", ONE_THREAD),)),
    "disk": ((Sign("disk_wait", WAITS_FOR_DISK),),),
    "window": (
        (Sign("window_limited", WINDOW_LIMITED), Sign("window_used", WINDOW_USED)),
        (Sign("window_used", WINDOW_FULL),),
    ),
    "slow_start": ((Sign("ramp", RAMP),),),
    "path_queue": (
        (
            Sign("network_limited", NETWORK_LIMITED),
            Sign("loss_used", LOSS_USED),
            Sign("queue_drops", QUEUE_DROPS),
        ),
    ),
    "loss": ((Sign("network_limited", NETWORK_LIMITED), Sign("loss_used", LOSS_USED)),),
    "machine": ((Sign("machine_used", MACHINE_USED),), (Sign("path_cpu", EMULATOR_USED),)),
}
"""Every limit with its rules; who goes before whom."""

EQUALS = ("cpu_source", "cpu_destination", "client")
"""Of these the one binds whose signs are furthest beyond their thresholds."""


def means(samples: Series, warmup: int) -> dict[str, float]:
    """Means over time of samples; NaN where nothing is known.

    Args:
        samples: by name, (samples,) or (origins, samples).
        warmup: how many are left out; of `sent` and `resent` none, as windows remember losses.
    """
    first = {name: 0 if name in ("sent", "resent") else warmup for name in samples}
    return {name: mean(values[..., first[name] :]) for name, values in samples.items()}


def numbers(
    wanted: Parameters,
    summary: Summary,
    means: Mapping[str, float],
    totals: Mapping[str, int | None],
    transfers: Sequence[float],
) -> dict[str, float]:
    """The numbers that `RULES` ask for and a summary has not yet; NaN for what is not known.

    Args:
        wanted: the cell's parameters.
        summary: what else is known of the cell.
        means: those of its samples, and `rtt_idle`.
        totals: what was counted over the cell.
        transfers: seconds that each took which ended well; of none, the cell's duration is the least that one takes.
    """
    rtt, goodput = means["rtt_idle"], means["goodput"]
    streams = wanted.streams * wanted.tcp_streams
    quota = wanted.cores / wanted.origins if wanted.cores else math.nan
    waited = means["rwnd_limited"] + means["sndbuf_limited"]
    signs = {
        "path_used": means["wire_throughput"] / wanted.bandwidth,
        **{
            f"{side}_quota_used": _known(summary[f"{side}_cpu_busiest"]) / quota
            for side in ("source", "destination")
        },
        "client_throttled": _ratio(totals["client_throttled"], totals["client_periods"]),
        **{name: means[name] for name in ("source_thread", "destination_thread", "client_thread")},
        "disk_wait": max(means["source_waiting"], means["destination_waiting"]) / wanted.streams,
        "connections_busy": means["busy"] / streams,
        "window_limited": waited / streams,
        "network_limited": (means["busy"] - waited) / streams,
        "window_used": _over(goodput * rtt, GBIT_PER_MS * means["busy"] * wanted.tcp_buffer),
        "ramp": min(
            1.0, _over(ramp_seconds(wanted, rtt), median(transfers or [_known(summary["duration"])]))
        ),
        "loss_seen": _over(means["resent"], means["sent"]),
        "queue_drops": _ratio(totals["path_queue_drops"], totals["path_drops"]),
        "machine_used": means["machine_cpu"] + means["machine_steal"],
    }
    loaded = means["rtt_loaded"] if math.isfinite(means["rtt_loaded"]) else rtt
    leaves = means["busy"] * loss_rate(wanted, signs["loss_seen"], max(rtt, loaded))
    return signs | {"loss_used": _over(goodput, leaves)}


def judge(summary: Summary) -> tuple[str, dict[str, Any]]:
    """The limit of a cell that went well, and the evidence: for every limit whether it was reached, and its signs.

    Args:
        summary: with the `numbers`.

    Returns:
        The limit, and the evidence as a cell's file has it: `signs` are, rule by rule, the number's name, its value
        (null where it is not known), its threshold, and whether it is reached.
    """
    beyond = {
        limit: max(min(sign.beyond(summary) for sign in rule) for rule in rules)
        for limit, rules in RULES.items()
    }
    evidence = {
        limit: {
            "reached": beyond[limit] >= 1,
            "signs": [[sign.evidence(summary) for sign in rule] for rule in rules],
        }
        for limit, rules in RULES.items()
    }
    first = next((limit for limit in RULES if beyond[limit] >= 1), NONE_FOUND)
    return max(EQUALS, key=beyond.__getitem__) if first in EQUALS else first, evidence


def ramp_seconds(wanted: Parameters, rtt: float) -> float:
    """What handshakes and slow start of one transfer take at least on a path.

    After the first `INITIAL_WINDOW`, which goes with the handshakes, the window doubles each round trip (RFC 5681)
    until the file is sent, or the TCP buffer or a connection's share of the path is full.

    Args:
        wanted: the cell's parameters.
        rtt: ms.
    """
    connections = wanted.streams * wanted.tcp_streams
    share = wanted.bandwidth * rtt / GBIT_PER_MS / connections
    most = min(wanted.file_size / wanted.tcp_streams, wanted.tcp_buffer, share)
    doublings = max(0.0, float(tcp.slow_start(most, tcp.INITIAL_WINDOW * tcp.payload(wanted.mtu))) - 1)
    asks = wanted.origins > 1 and wanted.endpoint == "redirector" and wanted.copy_mode == "pull"
    return (ROUND_TRIPS[wanted.copy_mode] + REDIRECTED * asks + doublings) * rtt / 1000


def loss_rate(wanted: Parameters, loss: float, rtt: float) -> float:
    """The rate in Gbit/s at which a connection sends that loses packets; inf without loss.

    NaN where no law is known for the congestion control.

    Args:
        wanted: the cell's parameters.
        loss: share of packets.
        rtt: ms.
    """
    if wanted.congestion_control not in ("cubic", "reno") or math.isnan(loss):
        return math.nan
    if not loss or not rtt:
        return math.inf
    payload = tcp.payload(wanted.mtu)
    rate = float(tcp.mathis(payload, rtt, loss))
    if wanted.congestion_control == "cubic":  # never slower than Reno: RFC 9438, section 4.3
        rate = max(rate, tcp.cubic(payload, rtt, loss))
    return rate


def _known(value: float | int | None) -> float:
    return math.nan if value is None else value


def _ratio(part: int | None, whole: int | None) -> float:
    """A share of what was counted: none of nothing, NaN where nothing counts."""
    if part is None or whole is None:
        return math.nan
    return part / whole if whole else 0.0


def _over(value: float, by: float) -> float:
    """A quotient; NaN by nothing."""
    return value / by if by else math.nan
