# SPDX-License-Identifier: Apache-2.0
"""What bound a cell's throughput, and the numbers that say so. Pure.

Of every limit there are signs: numbers with a threshold each. A limit is reached when all signs of one of its rules
are; the first reached in the order of `RULES` is the cell's limit. docs/limits.md says why the order is this one, and
how often the rules are right on cells that were built to have a known limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tpcsweep import tcp
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.measure.readings import Series, mean
from tpcsweep.variables import GBIT_PER_MS

Summary = Mapping[str, float | int | None]

NONE_FOUND = "none_found"
RAMP = 0.5
"""Share of a transfer's time that its handshakes and slow start take at least, from which on files are too small for
the path."""

ROUND_TRIPS = {"pull": 6, "push": 4}
"""Round trips of a transfer of one byte, by copy_mode: connections, requests and answers. Found: at 100 ms such
transfers by curl took 0.62 s and 0.42 s, each of them."""
REDIRECTED = 13
"""The same that a pull takes more where both sides have a redirector. Found: 13 for files of 4 MiB, and 16 for 64 MiB;
docs/shipped-sweeps.md."""
RULES: Mapping[str, tuple[Mapping[str, float], ...]] = {
    # Whatever else is improved, at most a ninth can be gained. Verified paths may be 5 % slow.
    "bandwidth": ({"path_used": 0.9},),
    # A quota is given in slices, of which some are lost; and one thread moves the bytes of a transfer.
    **{
        f"cpu_{side}": ({f"{side}_quota_used": 0.9}, {f"{side}_throttled": 0.5}, {f"{side}_thread": 0.9})
        for side in ("source", "destination")
    },
    "client": ({"client_throttled": 0.5}, {"client_thread": 0.9}),
    "disk": ({"disk_wait": 0.5},),
    # The kernel's own account, unless it is a slow reader that closes windows; or windows as full as they get.
    "window": ({"window_limited": 0.5, "window_used": 0.25}, {"window_used": 0.5}),
    "slow_start": ({"ramp": RAMP},),
    "path_queue": ({"network_limited": 0.5, "loss_used": 0.4, "queue_drops": 0.5},),
    "loss": ({"network_limited": 0.5, "loss_used": 0.4},),
    "machine": ({"machine_used": 0.95}, {"path_cpu": 0.9}),
}
"""Every limit with its rules, who goes before whom: names of a summary's numbers, and their thresholds, of which
docs/limits.md says where they are from."""

EQUALS = ("cpu_source", "cpu_destination", "client")
"""Of these the one binds whose signs are furthest beyond their thresholds."""


def means(samples: Series, warmup: int) -> dict[str, float]:
    """Means over time of samples, without `warmup` of them; NaN where nothing is known.

    Of `sent` and `resent` none is left out, as windows remember losses.
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

    `means` are those of the samples, and `rtt_idle`; `totals` is what was counted over the cell. `transfers` are the
    seconds of each that ended well; without any, the cell's duration is the least that one takes.
    """
    rtt, goodput = means["rtt_idle"], means["goodput"]
    streams = wanted.streams * wanted.tcp_streams
    quota = wanted.cores / wanted.origins if wanted.cores else math.nan
    busiest = {side: _known(summary[f"{side}_cpu_busiest"]) for side in ("source", "destination")}
    shortest = median(transfers or [_known(summary["duration"])])
    waited = means["rwnd_limited"] + means["sndbuf_limited"]
    signs = {
        "path_used": means["wire_throughput"] / wanted.bandwidth,
        **{f"{side}_quota_used": cores / quota for side, cores in busiest.items()},
        "client_throttled": counted_share(totals["client_throttled"], totals["client_periods"]),
        **{name: means[name] for name in ("source_thread", "destination_thread", "client_thread")},
        "disk_wait": max(means["source_waiting"], means["destination_waiting"]) / wanted.streams,
        "connections_busy": means["busy"] / streams,
        "window_limited": waited / streams,
        "network_limited": (means["busy"] - waited) / streams,
        "window_used": _over(goodput * rtt, GBIT_PER_MS * means["busy"] * wanted.tcp_buffer),
        "ramp": min(_over(ramp_seconds(wanted, rtt), shortest), 1.0),  # NaN remains
        "loss_seen": _over(means["resent"], means["sent"]),
        "queue_drops": counted_share(totals["path_queue_drops"], totals["path_drops"]),
        "machine_used": means["machine_cpu"] + means["machine_steal"],
    }
    loaded = means["rtt_loaded"] if math.isfinite(means["rtt_loaded"]) else rtt
    leaves = means["busy"] * loss_rate(wanted, signs["loss_seen"], max(rtt, loaded))
    return signs | {"loss_used": _over(goodput, leaves)}


def find_limit(summary: Summary) -> tuple[str, dict[str, Any]]:
    """The limit of a cell that went well, by its summary with the `numbers`, and the evidence as its file has it.

    That is for every limit whether it was reached, and its `signs`, rule by rule: the number's name, its value (null
    where it is not known), its threshold, and whether it is reached.
    """

    def sign(number: str, threshold: float) -> dict[str, Any]:
        value = summary[number]
        reached = value is not None and value >= threshold
        return {"number": number, "value": value, "threshold": threshold, "reached": reached}

    beyond, evidence = {}, {}
    for limit, rules in RULES.items():
        signs = [[sign(*known) for known in rule.items()] for rule in rules]
        beyond[limit] = max(min((one["value"] or 0.0) / one["threshold"] for one in rule) for rule in signs)
        evidence[limit] = {"reached": beyond[limit] >= 1, "signs": signs}
    first = next((limit for limit in RULES if beyond[limit] >= 1), NONE_FOUND)
    return max(EQUALS, key=beyond.__getitem__) if first in EQUALS else first, evidence


def ramp_seconds(wanted: Parameters, rtt: float) -> float:
    """What handshakes and slow start of one transfer take at least on a path with an RTT in ms.

    After the first `INITIAL_WINDOW`, which goes with the handshakes, the window doubles each round trip (RFC 5681)
    until the file is sent, or the TCP buffer or a connection's share of the path is full.
    """
    connections = wanted.streams * wanted.tcp_streams
    share = wanted.bandwidth * rtt / GBIT_PER_MS / connections
    most = min(wanted.file_size / wanted.tcp_streams, wanted.tcp_buffer, share)
    doublings = max(0.0, float(tcp.slow_start(most, tcp.INITIAL_WINDOW * tcp.payload(wanted.mtu))) - 1)
    asks = wanted.origins > 1 and wanted.endpoint == "redirector" and wanted.copy_mode == "pull"
    return (ROUND_TRIPS[wanted.copy_mode] + REDIRECTED * asks + doublings) * rtt / 1000


def loss_rate(wanted: Parameters, loss: float, rtt: float) -> float:
    """The rate in Gbit/s at which a connection sends that loses a share of its packets, at an RTT in ms.

    It is inf without loss, and NaN where no law is known for the congestion control.
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


def counted_share(part: int | None, whole: int | None) -> float:
    """A share of what was counted: none of nothing, NaN where nothing counts."""
    if part is None or whole is None:
        return math.nan
    return part / whole if whole else 0.0


def _over(value: float, by: float) -> float:
    return value / by if by else math.nan
