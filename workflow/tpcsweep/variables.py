# SPDX-License-Identifier: Apache-2.0
"""Every figure that a cell's file and the dataset hold: its name, unit and meaning, in one place.

Throughput is in Gbit/s (10⁹ bit/s) and counts payload unless it says "wire"; CPU is in cores, that is CPU
seconds used per second; RTT is in ms.
"""

from __future__ import annotations

from typing import NamedTuple

NOT_MEASURED = "not_measured"
"""The status of a cell whose deployment could not be made as asked; its message says why."""


class Variable(NamedTuple):
    """What a figure is: its CF-style unit and its name for people."""

    units: str
    long_name: str


SUMMARY = {
    "throughput": Variable("Gbit/s", "goodput at the destination, mean after warm-up"),
    "throughput_low": Variable("Gbit/s", "lower end of the confidence interval of the throughput"),
    "throughput_high": Variable("Gbit/s", "upper end of the confidence interval of the throughput"),
    "throughput_freedom": Variable("1", "degrees of freedom of Student's t behind the confidence interval"),
    "throughput_average": Variable(
        "Gbit/s", "goodput at the destination, mean over the whole cell, warm-up included"
    ),
    "throughput_max": Variable("Gbit/s", "largest goodput in any one second, warm-up included"),
    "wire_throughput": Variable(
        "Gbit/s", "rate on the path towards the destination, as its interface counts"
    ),
    "duration": Variable("s", "time measured, warm-up included"),
    "warmup": Variable("s", "time cut as warm-up"),
    "length_correlations": Variable("1", "time after warm-up over the correlation time of the goodput"),
    "length_rtts": Variable("1", "time after warm-up over rtt_idle"),
    "length_files": Variable("1", "files that each stream ended after warm-up, mean over streams"),
    "source_cpu": Variable("cores", "CPU used by the source origins"),
    "destination_cpu": Variable("cores", "CPU used by the destination origins"),
    "source_cpu_busiest": Variable("cores", "CPU used by the busiest of the source origins"),
    "destination_cpu_busiest": Variable("cores", "CPU used by the busiest of the destination origins"),
    "client_cpu": Variable("cores", "CPU used by the client and its tools"),
    "path_cpu": Variable("cores", "CPU used by the path's emulator where it is a process"),
    "source_throttled": Variable("1", "share of scheduling periods in which a source origin was throttled"),
    "destination_throttled": Variable(
        "1", "share of scheduling periods in which a destination origin was throttled"
    ),
    "machine_cpu": Variable("1", "share of the machine's CPU time that was busy"),
    "machine_steal": Variable("1", "share of the machine's CPU time that the hypervisor took"),
    "machine_others": Variable(
        "1", "share of the machine's CPU time that processes used which are not the deployment's"
    ),
    "machine_pressure": Variable("1", "share of the time in which some process waited for a CPU"),
    "machine_work": Variable("ms", "CPU time of a fixed piece of work: the machine's own speed"),
    "machine_slowed": Variable(
        "1", "share by which a fixed piece of work took longer than when the deployment's machine was fastest"
    ),
    "retransmits": Variable("1", "TCP segments retransmitted by the source origins"),
    "path_drops": Variable("1", "packets that the path dropped"),
    "path_used": Variable("1", "rate on the path over its bandwidth"),
    "source_quota_used": Variable("1", "CPU of the busiest source origin over its quota"),
    "destination_quota_used": Variable("1", "CPU of the busiest destination origin over its quota"),
    "client_throttled": Variable("1", "share of scheduling periods in which the client was throttled"),
    "source_thread": Variable("cores", "CPU used by the busiest thread of any source origin"),
    "destination_thread": Variable("cores", "CPU used by the busiest thread of any destination origin"),
    "client_thread": Variable("cores", "CPU used by the busiest thread of the client and its tools"),
    "disk_wait": Variable(
        "1", "threads of the side with more of them that waited for a disk, for each stream"
    ),
    "connections_busy": Variable(
        "1", "share of the streams' time in which a connection had something to send or unacknowledged"
    ),
    "window_limited": Variable("1", "share of the streams' time in which a TCP window kept one from sending"),
    "network_limited": Variable(
        "1", "share of the streams' time in which one sent as fast as congestion control let it"
    ),
    "window_used": Variable("1", "data under way of a busy connection over the largest TCP buffer"),
    "ramp": Variable("1", "share of a transfer's time that handshakes and slow start take at least"),
    "loss_seen": Variable("1", "bytes sent again over all bytes sent by data connections"),
    "loss_used": Variable(
        "1", "throughput over what the losses seen leave, by the law of the congestion control"
    ),
    "queue_drops": Variable("1", "share of the packets dropped by the path that found a queue full"),
    "machine_used": Variable("1", "share of the machine's CPU time that was busy or taken by the hypervisor"),
    "rtt_idle": Variable("ms", "round-trip time of the path, measured before the cells, median"),
    "rtt_loaded": Variable("ms", "smoothed RTT of the data connections, mean over connections and time"),
    "bandwidth_found": Variable(
        "Gbit/s", "bandwidth of the path, measured before the cells, smaller of both directions"
    ),
    "fairness": Variable(
        "1", "Jain's index of the bytes that each stream brought after warm-up; 1: all the same"
    ),
    "transfers": Variable("1", "transfers that ended well"),
    "transfers_failed": Variable("1", "transfers that failed"),
    "attempts": Variable("1", "how often the cell was measured; the measurement with fewer warnings is kept"),
    "run": Variable(
        "1", "which run of the measurements, by its number: what one has in common differs in the next"
    ),
    "xrootd_transfers": Variable("1", "third-party copies that ended well by XRootD's own monitoring"),
    "xrootd_share": Variable(
        "1", "bytes of the transfers that ended well by XRootD's own monitoring, over those in their files"
    ),
}


def _summarized(*names: str) -> dict[str, Variable]:
    return {name: SUMMARY[name] for name in names}


SAMPLES = {
    "goodput": Variable("Gbit/s", "payload arriving in the destination's files"),
    "source_throughput": Variable("Gbit/s", "bytes sent by the source side, headers included"),
    "wire_throughput": Variable(
        "Gbit/s", "bytes leaving the path at the destination, as its interface counts"
    ),
    **_summarized("source_cpu", "destination_cpu", "client_cpu", "path_cpu", "machine_cpu", "machine_steal"),
    **_summarized("machine_others", "machine_pressure", "machine_work", "machine_slowed", "retransmits"),
    "rtt_loaded": Variable("ms", "smoothed RTT of the data connections, mean over connections"),
    "cwnd": Variable("1", "congestion window of the data connections in segments, mean over connections"),
    "connections": Variable("1", "data connections open at the source"),
    "busy": Variable("1", "data connections with something to send or unacknowledged"),
    "rwnd_limited": Variable("1", "data connections that the receiver's window kept from sending"),
    "sndbuf_limited": Variable("1", "data connections that their send buffers kept from sending"),
    "sent": Variable("Gbit/s", "data sent by the data connections, what was sent again included"),
    "resent": Variable("Gbit/s", "data sent again by the data connections"),
    **_summarized("source_thread", "destination_thread", "client_thread"),
    "source_waiting": Variable("1", "threads of the source origins that wait for a disk"),
    "destination_waiting": Variable("1", "threads of the destination origins that wait for a disk"),
}

ORIGIN_SAMPLES = {
    "source_origin_cpu": Variable("cores", "CPU used by each source origin"),
    "destination_origin_cpu": Variable("cores", "CPU used by each destination origin"),
}
"""Samples that each origin has of its own: one row for each."""

TRANSFERS = {
    "cell": Variable("1", "the cell's place in the grid of the axes, flattened, the last axis fastest"),
    "stream": Variable("1", "which of the concurrent streams, from 0"),
    "number": Variable("1", "which transfer of its stream, from 0"),
    "start": Variable("s", "when the client asked the tool for it, since the cell's start"),
    "first_byte": Variable("s", "when its first byte was in the destination's file, since the cell's start"),
    "end": Variable("s", "when the tool had ended, since the cell's start"),
    "startup": Variable(
        "s", "from start to first byte: the tool's own start, its tokens, redirections, the request"
    ),
    "sending": Variable("s", "from first byte to end"),
    "total": Variable("s", "from start to end"),
    "size": Variable("B", "bytes that arrived in its file"),
    "rate": Variable("Gbit/s", "size over total"),
    "ok": Variable("1", "1 for a transfer that ended well, 0 for one that failed"),
    "message": Variable("", "what the tool said of a transfer that failed"),
    "xrootd_begin": Variable("s", "when XRootD took the copy up, by its monitoring, since the cell's start"),
    "xrootd_end": Variable(
        "s", "when XRootD was done with the copy, by its monitoring, since the cell's start"
    ),
    "xrootd_connections": Variable("1", "connections of the copy, by XRootD's monitoring"),
    "xrootd_size": Variable("B", "bytes of the copy, by XRootD's monitoring"),
    "xrootd_code": Variable("1", "0 for a copy that ended well by XRootD's monitoring, else its code"),
    "xrootd_direction": Variable("", "pull or push, by XRootD's monitoring"),
}
"""What is known of every transfer. Of what XRootD's monitoring did not tell there is NaN, or no text."""

LIMITS = {
    "bandwidth": "the path was full",
    "cpu_source": "a source origin used up its CPU quota, or one of its threads a core",
    "cpu_destination": "a destination origin used up its CPU quota, or one of its threads a core",
    "client": "the client used up its CPU quota, or one of its threads a core",
    "disk": "the servers' threads waited for a disk",
    "window": "TCP's windows were too small for the path",
    "slow_start": "the files were too small for the path: handshakes and slow start took most of their time",
    "path_queue": "a queue of the path lost packets before the path was full",
    "loss": "packets lost at random kept TCP's windows small",
    "server": "a server's own ceiling, whatever its cores; simulated cells alone have it",
    "machine": "the machine's CPUs were all busy, or the path's emulator was",
    "none_found": "nothing that is looked for",
}
"""What may bind a cell. docs/limits.md has the rules."""

LIMIT_NAMES = {
    "bandwidth": "the path's bandwidth",
    "cpu_source": "the source's CPU",
    "cpu_destination": "the destination's CPU",
    "client": "the client's CPU",
    "disk": "the disk",
    "window": "TCP's window",
    "slow_start": "slow start",
    "path_queue": "a queue of the path",
    "loss": "random loss",
    "server": "the server's ceiling",
    "machine": "the machine",
    "none_found": "nothing that is looked for",
}
"""For legends and sentences: what binds."""

CPU_LIMITS = frozenset({"cpu_source", "cpu_destination", "client", "machine"})
"""Limits of which the machine's own speed is a factor: a quota is CPU time, and a slow CPU does less in it."""
