# SPDX-License-Identifier: Apache-2.0
"""Limits of a cell's throughput: the time of a cell, attributed to limits by pure functions.

Each instant after the warm-up is attributed to the first cause in the order of `attribute`. Resources that all streams
share precede each stream's own time, because nothing else can help while one is exhausted. docs/limits.md has the
rules, their sources and their accuracy, docs/decisions/limits.md the rules that were rejected.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from tpcsweep.common.numbers import BYTES, GBIT_PER_MS
from tpcsweep.data.cell_result import Limit
from tpcsweep.data.host_buffers import WINDOW_CLOSED
from tpcsweep.data.variables import NONE_FOUND, NOT_VISIBLE, SHARES
from tpcsweep.measuring import tcp
from tpcsweep.measuring.readings import Series, mean
from tpcsweep.sweeps.parameters import WITHOUT_FILES, Parameters

FULL = 0.9  # used share above which a path, a quota or a core is exhausted; verified paths may be 5 % slow
SATURATED = 0.95
"""Share of CPU time above which CPUs without a quota are exhausted: a machine's, or a pod's exclusive ones."""
WINDOW_FULL = 0.5
"""Data in flight over the TCP buffer above which a window binds without the kernel's report (`WINDOW_CLOSED`: with it).
The kernel lets 0.6 to 0.75 of a buffer be used."""
CWND_USED = 0.5  # share of congestion windows from which they limit a sender
LOST = 0.4  # throughput over the rate that the losses allow, above which they bind
DROPS = ("path_queue_drops", "path_drops")
TIED = 0.1  # difference of shares up to which two limits bind equally
SMOOTHED, PERIOD = 3, 10
"""Samples over which rates and CPU are smoothed.
Rates, because readings are late at times; CPU, because a quota's period is a second at most."""
ROUND_TRIPS = {"pull": 6, "push": 4}
"""Round trips of a one-byte transfer by copy_mode: connections, requests and answers.
Measured: at 100 ms each such transfer by curl took 0.62 s and 0.42 s."""
PACE_STEPS = 20  # of an iteration that rises to the shortest growth that fits a transfer's time
REDIRECTED = 13
"""Additional round trips of a pull if both sides have a redirector.
Measured: 13 for files of 4 MiB, and 16 for 64 MiB; docs/shipped-sweeps.md."""


def means(samples: Series, weights: NDArray[np.float64]) -> dict[str, float]:
    """Return the means of samples by the weights of the throughput; NaN if nothing is known.

    `sent` and `resent` include the warm-up, because windows remember losses.
    """
    whole = ("sent", "resent")
    return {name: mean(values, None if name in whole else weights) for name, values in samples.items()}


def evidence(
    wanted: Parameters,
    summary: Mapping[str, float | int | None],
    means: Mapping[str, float],
    samples: Series,
    transfers: Sequence[float],
) -> dict[str, float]:
    """Return the figures that explain a limit and are not yet in the summary; NaN if unknown.

    `means` are those of the samples, `rtt_idle`, and `client_cores`; `samples` include the warm-up.
    `transfers` are the seconds of each successful transfer; without any, the cell's duration is the shortest possible.
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
        "client_quota_used": _ratio(means["client_cpu"], means["client_cores"]),
        "client_throttled": throttled(samples, "client"),
        "disk_wait": max(means["source_waiting"], means["destination_waiting"]) / wanted.streams,
        "connections_busy": means["busy"] / streams,
        "window_limited": waited / streams,
        "network_limited": (means["busy"] - waited) / streams,
        "window_used": _ratio(goodput * rtt, GBIT_PER_MS * means["busy"] * wanted.tcp_buffer),
        "ramp": min(_ratio(ramp_seconds(wanted, rtt, shortest), shortest), 1.0),  # NaN remains
        "loss_seen": _ratio(means["resent"], means["sent"]),
        "queue_drops": counted_share(*(np.minimum(samples[name], 1.0) for name in DROPS)),
        "machine_used": means["machine_cpu"] + means["machine_steal"],
    }
    loaded = means["rtt_loaded"] if math.isfinite(means["rtt_loaded"]) else rtt
    signals = float((samples["recoveries"] + samples["timeouts"]).sum())
    packets = means["sent"] * _known(summary["duration"]) * BYTES / tcp.payload(wanted.mtu)
    signs["loss_signals"] = _ratio(signals, packets)
    leaves = means["busy"] * loss_rate(wanted, signs["loss_signals"], max(rtt, loaded))
    # The path's rate, because files may grow by large blocks.
    carried = means["wire_throughput"] * tcp.payload(wanted.mtu) / wanted.mtu
    return signs | {"loss_used": _ratio(carried, leaves)}


def attribute(
    wanted: Parameters, samples: Series, moving: NDArray[np.float64], signs: Mapping[str, float]
) -> dict[str, float]:
    """Attribute the time of a cell to limits, by its samples after the warm-up.

    `moving` is a `transfers.moving_share`. `signs` are the cell's `evidence`, its `rtt_idle`, and its shares of
    throttled scheduling periods. The shares of `SHARES` add up to 1 if there is a sample, and are NaN otherwise.
    """
    streams = wanted.streams * wanted.tcp_streams
    busy, waited = (share / streams for share in _connections(samples, moving * streams))
    active = np.minimum(1.0, busy * streams)
    left, shares = np.ones(moving.size), dict.fromkeys(SHARES, math.nan if moving.size == 0 else 0.0)

    def attribute_share(limit: str, share: NDArray[np.float64] | float) -> None:
        taken = np.minimum(left, np.clip(share, 0.0, 1.0))
        np.subtract(left, taken, out=left)
        shares[limit] += float(taken.mean()) if taken.size else 0.0

    rate, flowing = _smoothed(samples["wire_throughput"], SMOOTHED), _smoothed(active, SMOOTHED)
    path = _zero(rate / wanted.bandwidth)
    full = np.where(path >= FULL, 1.0, np.where(path >= FULL * flowing, active, 0.0))
    waiting = np.maximum(active, np.minimum(1.0, moving * streams))
    source, destination = (
        _exhausted(side, wanted, samples, waiting, signs) for side in ("source", "destination")
    )
    disks = [
        np.minimum(1.0, _zero(samples[f"{side}_waiting"]) / wanted.streams)
        for side in ("source", "destination")
    ]
    before, behind = np.maximum([source, destination], disks)
    attribute_share("bandwidth", full * (1 - _hidden(wanted, samples, before, behind)))
    ahead = source * signs["source_quota_used"] > destination * signs["destination_quota_used"]
    ahead |= source > destination
    attribute_share("cpu_source", np.where(ahead, source, 0.0))
    attribute_share("cpu_destination", np.where(ahead, 0.0, destination))
    # A client is idle during a third-party copy, unless it uses up a core.
    used_up = 1.0 if signs["client_quota_used"] >= SATURATED else _zero(signs["client_throttled"])
    throttled = used_up * (1 - moving if wanted.layer not in WITHOUT_FILES else 1.0)
    attribute_share("client", np.where(_zero(samples["client_thread"]) >= FULL, 1.0, throttled))
    attribute_share("disk", np.max(disks, axis=0))
    attribute_share("between_files", 1 - moving)
    # By the path's rate if it is known, because files may grow by large blocks.
    on_path = rate * tcp.payload(wanted.mtu) / wanted.mtu
    rate = np.where(np.isfinite(on_path), on_path, _smoothed(samples["goodput"], SMOOTHED))
    under_way = rate * signs["rtt_idle"] / (GBIT_PER_MS * wanted.tcp_buffer)
    used = _zero(under_way / np.maximum(_smoothed(busy, SMOOTHED) * streams, 1e-9))
    attribute_share(
        "window", np.where(used >= WINDOW_FULL, busy, np.where(used >= WINDOW_CLOSED, waited, 0.0))
    )
    lossy = busy * (signs["loss_used"] >= LOST) * _congested(wanted, samples, busy * streams, signs)
    attribute_share("path_queue", lossy * (signs["queue_drops"] >= 0.5))
    attribute_share("loss", lossy)
    if seen := servers_seen(samples):  # otherwise only its own processes can make the client a limit
        machine = _zero(samples["machine_cpu"]) + _zero(samples["machine_steal"]) >= SATURATED
        attribute_share("machine", np.where(machine | (_zero(samples["path_cpu"]) >= FULL), 1.0, 0.0))
    attribute_share(NONE_FOUND if seen else NOT_VISIBLE, 1.0)
    return shares


def servers_seen(samples: Series) -> bool:
    """Return whether the CPU of a server was sampled, which is so except at others' servers."""
    return any(np.isfinite(samples[f"{side}_origin_cpu"]).any() for side in ("source", "destination"))


def binding(shares: Mapping[str, float]) -> Limit:
    """Return the limit with the largest share, and another one within `TIED` of it, if any."""
    first, second = sorted(shares, key=shares.__getitem__, reverse=True)[:2]
    return Limit(first, second if shares[first] - shares[second] <= TIED else "")


def _connections(
    samples: Series, moving: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return busy and window-limited connections: by the kernel if it counts them, otherwise by the files."""
    busy = _zero(samples["busy"])
    waited = _zero(samples["rwnd_limited"]) + _zero(samples["sndbuf_limited"])
    return (busy, np.minimum(waited, busy)) if busy.any() else (moving, np.zeros(moving.size))


def _hidden(
    wanted: Parameters, samples: Series, before: NDArray[np.float64], behind: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the shares in which exhausted servers `before` and `behind` a path bind that buffers hide.

    A burst fills the path for a part of a second, or memory takes bytes in that do not reach files: the queue that
    never empties is in front of the server. Over a second around each sample, because no scheduling period is longer
    (Linux, Documentation/scheduler/sched-bwc.rst).
    """
    carried, arrived = (_smoothed(samples[name], PERIOD) for name in ("wire_throughput", "goodput"))
    idles = carried < FULL * wanted.bandwidth
    kept = arrived < FULL * carried * tcp.payload(wanted.mtu) / wanted.mtu
    return np.maximum(np.where(idles, before, 0.0), np.where(idles | kept, behind, 0.0))


def _congested(
    wanted: Parameters, samples: Series, busy: NDArray[np.float64], signs: Mapping[str, float]
) -> NDArray[np.bool_]:
    """Return whether `busy` connections used the windows that losses left them, or waited for a timeout.

    A sender with less than half of its window in flight is limited by something else (RFC 7661, 2015, section 4.2).
    The queue of a path that is not full is nearly empty, so that round trips are as short as on the idle path; longer
    ones are those of a reader that stands still, whose kernel delays acknowledgements by 40 ms.
    """
    windows = _zero(samples["cwnd"]) * busy * tcp.payload(wanted.mtu)
    in_flight = _zero(samples["sent"]) * signs["rtt_idle"] / GBIT_PER_MS
    used = _smoothed(in_flight, SMOOTHED) >= CWND_USED * _smoothed(windows, SMOOTHED)
    return np.asarray(used | (_smoothed(_zero(samples["timeouts"]), PERIOD) > 0))


def _exhausted(
    side: str,
    wanted: Parameters,
    samples: Series,
    active: NDArray[np.float64],
    signs: Mapping[str, float],
) -> NDArray[np.float64]:
    """Return the share of each sample in which a side's CPU was exhausted.

    It is the share of scheduling periods whose quota ran out, of the `active` time, or of all the time while an
    origin has no quota left. Exclusive CPUs have no quota that could run out: all of them are in use.
    """
    quota = wanted.cores / wanted.origins if wanted.cores else math.inf
    spent = np.max(
        [_smoothed(_zero(row), PERIOD) for row in samples[f"{side}_origin_cpu"]] or [active * 0], axis=0
    )
    ran_out = _ran_out(side, samples, signs)
    whole = (_zero(samples[f"{side}_thread"]) >= FULL) | ((ran_out == 0) & (spent >= SATURATED * quota))
    return np.asarray(np.where(whole, 1.0, ran_out) * np.where(spent >= FULL * quota, 1.0, active))


def _ran_out(side: str, samples: Series, signs: Mapping[str, float]) -> NDArray[np.float64]:
    """Return the share of scheduling periods of the second around each sample in which a side's quota ran out.

    A longer period does not exist (sched-bwc.rst). A second without the end of a period has the cell's share.
    """
    ended, out = (
        _smoothed(_zero(samples[f"{side}_{name}"]), PERIOD) for name in ("periods", "throttled_periods")
    )
    return np.where(ended > 0, out / np.where(ended > 0, ended, 1.0), _zero(signs[f"{side}_throttled"]))


def _smoothed(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    length = min(length, values.size)
    if length < 2:
        return values
    ones = np.ones(length)
    return np.convolve(values, ones, "same") / np.convolve(np.ones(values.size), ones, "same")


def _zero(values: NDArray[np.float64] | float) -> NDArray[np.float64]:
    return np.nan_to_num(values, nan=0.0)


def ramp_seconds(wanted: Parameters, rtt: float, seconds: float = math.nan) -> float:
    """Return the minimum seconds of one transfer's handshakes and slow start, for an RTT in ms.

    `seconds` are those of the whole transfer, see `growth_seconds`.
    """
    return _handshake_seconds(wanted, rtt) + growth_seconds(wanted, rtt, seconds)


def _handshake_seconds(wanted: Parameters, rtt: float) -> float:
    asks = wanted.origins > 1 and wanted.endpoint == "redirector" and wanted.copy_mode == "pull"
    return (ROUND_TRIPS[wanted.copy_mode] + REDIRECTED * asks) * rtt / 1000


def growth_seconds(wanted: Parameters, rtt: float, seconds: float = math.nan) -> float:
    """Return the seconds in which the window of one transfer grows, for an RTT in ms.

    The `tcp.first_window` is sent with the handshakes. Then the window doubles each round trip (RFC 5681) until the
    file is sent, or the TCP buffer or a connection's share of the path is full. Of a path with an unknown bandwidth,
    the share is the pace at which the file is sent in the rest of the transfer's `seconds`, if they are known.
    """
    size, first = wanted.file_size / wanted.tcp_streams, tcp.first_window(wanted.mtu)
    share = wanted.bandwidth * rtt / GBIT_PER_MS / (wanted.streams * wanted.tcp_streams)  # NaN if unknown

    def growth(share: float) -> float:
        most = float(np.nanmin([size, wanted.tcp_buffer, share]))
        return float(tcp.growth_rounds(most, first)) * rtt / 1000

    if not (math.isnan(share) and math.isfinite(seconds)):
        return growth(share)
    grown = 0.0
    for _ in range(PACE_STEPS):  # a faster pace takes longer to reach, which leaves less time
        rest = seconds - _handshake_seconds(wanted, rtt) - grown
        grown = growth(size * rtt / 1000 / rest if rest > 0 else math.inf)
    return grown


def loss_rate(wanted: Parameters, loss: float, rtt: float) -> float:
    """Return the rate in Gbit/s of a connection that loses a share of its packets, for an RTT in ms.

    It is inf without loss, and NaN if no law is known for the congestion control.
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


def throttled(samples: Series, side: str) -> float:
    return counted_share(samples[f"{side}_throttled_periods"], samples[f"{side}_periods"])


def counted_share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> float:
    """Return a share of events counted in samples: 0 if there were none, NaN if nothing counts them."""
    return float(part.sum() / whole.sum()) if whole.sum() else 0.0


def _ratio(value: float, by: float) -> float:
    return value / by if by else math.nan
