# SPDX-License-Identifier: Apache-2.0
"""Definitions of all figures in cell files and datasets: name, unit and meaning.

Throughput is in Gbit/s (10⁹ bit/s) and counts payload unless it says "wire"; CPU is in cores, that is CPU seconds used
per second; RTT is in ms. Standard library only, because pods import it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

GBIT = 8e-9  # Gbit in a byte; Gbit/s in a byte per second
GBIT_PER_MS = 8e-6  # Gbit/s in a byte per ms
BYTES = 125e6  # bytes in a Gbit

NOT_MEASURED = "not_measured"
"""Status of a cell whose deployment could not be created as requested; its message has the reason."""


class Variable(NamedTuple):
    """Figure with its CF-style unit, its name for people, and its origin."""

    units: str
    long_name: str
    source: str = ""  # key of SOURCES, for figures of a cell


SOURCES = {
    "cell": "`measure.cell` computes it",
    "mean": "`measure.cell` takes the mean of the samples of this name after the warm-up",
    "total": "the growth of the counter of this name in `totals` of the site, over the cell",
    "limits": "`measure.limits.numbers` computes it",
    "shares": "`measure.limits.attribute` computes it",
    "run": "the run that measures the deployment counts it",
    "import": "only datasets from elsewhere have it",
    "series": "`measure.readings.sampled_series` computes it",
    "transfer": "the client tells it, or XRootD's monitoring",
    "fold": "`dataset.groups` computes it from the other columns",
}


def _lines(table: str) -> list[str]:
    """Return the lines of a table, each joined with its indented continuation lines."""
    return re.sub(r"\n +", " ", table.strip()).splitlines()


def _table(text: str) -> dict[str, Variable]:
    """Parse a table whose lines have name, unit (- for words), source and meaning."""
    rows = (line.split(maxsplit=3) for line in _lines(text))
    return {name: Variable(unit.strip("-"), meaning, source) for name, unit, source, meaning in rows}


SUMMARY = _table("""
throughput               Gbit/s  cell    goodput at the destination, mean after warm-up
throughput_low           Gbit/s  cell    lower end of the confidence interval of the throughput
throughput_high          Gbit/s  cell    upper end of the confidence interval of the throughput
throughput_freedom       1       cell    degrees of freedom of Student's t behind the confidence interval
throughput_average       Gbit/s  cell    goodput at the destination, mean over the whole cell, warm-up
                                         included
throughput_max           Gbit/s  cell    largest goodput in any one second, warm-up included
wire_throughput          Gbit/s  mean    rate on the path towards the destination, as its interface counts
duration                 s       cell    time measured, warm-up included
warmup                   s       cell    time cut as warm-up
length_correlations      1       cell    time after warm-up over the correlation time of the goodput
length_rtts              1       cell    time after warm-up over rtt_idle
length_files             1       cell    files that each stream ended after warm-up, mean over streams
source_cpu               cores   mean    CPU used by the source origins
destination_cpu          cores   mean    CPU used by the destination origins
source_cpu_busiest       cores   cell    CPU used by the busiest of the source origins
destination_cpu_busiest  cores   cell    CPU used by the busiest of the destination origins
client_cpu               cores   mean    CPU used by the client and its tools
path_cpu                 cores   mean    CPU used by the path's emulator where it is a process
source_throttled         1       cell    share of scheduling periods in which a source origin was throttled
destination_throttled    1       cell    share of scheduling periods in which a destination origin was
                                         throttled
machine_cpu              1       mean    share of the machine's CPU time that was busy
machine_steal            1       mean    share of the machine's CPU time that the hypervisor took
machine_others           1       cell    share of the machine's CPU time that processes used which are not the
                                         deployment's
machine_pressure         1       mean    share of the time in which some process waited for a CPU
machine_work             ms      mean    CPU time of a fixed piece of work: the machine's own speed
machine_slowed           1       mean    share by which a fixed piece of work took longer than when the
                                         deployment's machine was fastest
retransmits              1       cell    TCP segments retransmitted by the source origins
path_drops               1       total   packets that the path dropped
path_used                1       limits  rate on the path over its bandwidth
source_quota_used        1       limits  CPU of the busiest source origin over its quota
destination_quota_used   1       limits  CPU of the busiest destination origin over its quota
client_throttled         1       limits  share of scheduling periods in which the client was throttled
source_thread            cores   limits  CPU used by the busiest thread of any source origin
destination_thread       cores   limits  CPU used by the busiest thread of any destination origin
client_thread            cores   limits  CPU used by the busiest thread of the client and its tools
disk_wait                1       limits  threads of the side with more of them that waited for a disk, for
                                         each stream
connections_busy         1       limits  share of the streams' time in which a connection had something to
                                         send or unacknowledged
window_limited           1       limits  share of the streams' time in which a TCP window kept one from
                                         sending
network_limited          1       limits  share of the streams' time in which one sent as fast as congestion
                                         control let it
window_used              1       limits  data under way of a busy connection over the largest TCP buffer
ramp                     1       limits  share of a transfer's time that handshakes and slow start take at
                                         least
loss_seen                1       limits  bytes sent again over all bytes sent by data connections
loss_used                1       limits  throughput over what the losses seen leave, by the law of the
                                         congestion control
queue_drops              1       limits  share of the packets dropped by the path that found a queue full
machine_used             1       limits  share of the machine's CPU time that was busy or taken by the
                                         hypervisor
rtt_idle                 ms      cell    round-trip time of the path, measured before the cells, median
rtt_loaded               ms      mean    smoothed RTT of the data connections, mean over connections and time
bandwidth_found          Gbit/s  cell    bandwidth of the path, measured before the cells, smaller of both
                                         directions
fairness                 1       cell    Jain's index of the bytes that each stream brought after warm-up; 1:
                                         all the same
transfers                1       cell    transfers that ended well
transfers_failed         1       cell    transfers that failed
attempts                 1       run     how often the cell was measured; the measurement with fewer warnings
                                         is kept
run                      1       import  which run of the measurements, by its number: what one has in common
                                         differs in the next
xrootd_transfers         1       cell    third-party copies that ended well by XRootD's own monitoring
xrootd_share             1       cell    bytes of the transfers that ended well by XRootD's own monitoring,
                                         over those in their files
""")
"""Figures with one value for each cell; shares of limits follow below.
Only these tables, and the code that computes a figure, name it: folding, export, import and their checks use the
tables."""


_LIMITS = [
    line.split(" | ")
    for line in _lines("""
bandwidth | the path's bandwidth | the path was full | a path with more bandwidth
cpu_source | the source's CPU | a source origin used up its CPU quota, or one of its threads a core | more cores or
    origins at the source
cpu_destination | the destination's CPU | a destination origin used up its CPU quota, or one of its threads a
    core | more cores or origins at the destination
client | the client's CPU | the client used up its CPU quota, or one of its threads a core | more CPU for the
    client, or a lighter tool
disk | the disk | the servers' threads waited for a disk | faster disks, or more of them
window | TCP's window | TCP's windows were too small for the path | larger TCP buffers, or more streams
between_files | time between files | streams waited between files: start-up, tokens, redirection, handshakes
    and slow start | larger files, more streams, or connections used again
slow_start | slow start | pauses between files, by the rule of earlier versions | larger files
path_queue | a queue of the path | a queue of the path lost packets before the path was full | longer queues on
    the path, or paced senders
loss | random loss | packets lost at random kept TCP's windows small | a path without errors, or more streams
server | the server's ceiling | a server's own ceiling, at any number of cores; only in simulated cells | more
    origins
machine | the machine | the machine's CPUs were all busy, or the path's emulator was | a machine with nothing
    else to do, or more CPUs
none_found | no known cause | no known cause applied | a look at the servers' logs and the time
    series
not_visible | a cause hidden from outside | no cause visible without access to the servers | a look at the
    servers' own monitoring
""")
]
LIMITS = {limit: meaning for limit, _, meaning, _ in _LIMITS}
"""Limits of a cell and their meanings. docs/limits.md has the rules."""
LIMIT_NAMES = {limit: name for limit, name, _, _ in _LIMITS}  # names for legends and sentences
LIMIT_REMEDIES = {limit: remedy for limit, _, _, remedy in _LIMITS}
"""Remedies that raise the throughput of a cell with this limit."""
SHARES = {limit: f"share_{limit}" for limit in LIMITS if limit != "slow_start"}
"""Name of the figure with a limit's share of a cell's time. The shares of a cell add up to 1."""
SUMMARY |= {
    share: Variable("1", f"share of the time after warm-up that {LIMIT_NAMES[limit]} bound", "shares")
    for limit, share in SHARES.items()
}


def _summarized(*names: str) -> dict[str, Variable]:
    return {name: SUMMARY[name] for name in names}


_RATES = _table("""
goodput            Gbit/s  series  payload arriving in the destination's files
source_throughput  Gbit/s  series  bytes sent by the source side, headers included
wire_throughput    Gbit/s  series  bytes leaving the path at the destination, as its interface counts
""")
_CONNECTIONS = _table("""
rtt_loaded      ms      series  smoothed RTT of the data connections, mean over connections
cwnd            1       series  congestion window of the data connections in segments, mean over connections
connections     1       series  data connections open at the source
busy            1       series  data connections with something to send or unacknowledged
rwnd_limited    1       series  data connections that the receiver's window kept from sending
sndbuf_limited  1       series  data connections that their send buffers kept from sending
sent            Gbit/s  series  data sent by the data connections, what was sent again included
resent          Gbit/s  series  data sent again by the data connections
""")
_WAITING = _table("""
source_waiting       1  series  threads of the source origins that wait for a disk
destination_waiting  1  series  threads of the destination origins that wait for a disk
""")
SAMPLES = {
    **_RATES,
    **_summarized("source_cpu", "destination_cpu", "client_cpu", "path_cpu", "machine_cpu", "machine_steal"),
    **_summarized("machine_others", "machine_pressure", "machine_work", "machine_slowed", "retransmits"),
    **_CONNECTIONS,
    **_summarized("source_thread", "destination_thread", "client_thread"),
    **_WAITING,
}

ORIGIN_SAMPLES = _table("""
source_origin_cpu       cores  series  CPU used by each source origin
destination_origin_cpu  cores  series  CPU used by each destination origin
""")
"""Samples with one row for each origin."""

TRANSFERS = _table("""
cell                1       fold      the cell's place in the grid of the axes, flattened, the last axis
                                      fastest
stream              1       transfer  which of the concurrent streams, from 0
number              1       transfer  which transfer of its stream, from 0
start               s       transfer  when the client asked the tool for it, since the cell's start
first_byte          s       transfer  when its first byte was in the destination's file, since the cell's
                                      start
end                 s       transfer  when the tool had ended, since the cell's start
startup             s       fold      from start to first byte: the tool's own start, its tokens,
                                      redirections, the request
sending             s       fold      from first byte to end
total               s       fold      from start to end
size                B       transfer  bytes that arrived in its file
rate                Gbit/s  fold      size over total
ok                  1       transfer  1 for a transfer that ended well, 0 for one that failed
message             -       transfer  what the tool said of a transfer that failed
xrootd_begin        s       transfer  when XRootD took the copy up, by its monitoring, since the cell's start
xrootd_end          s       transfer  when XRootD was done with the copy, by its monitoring, since the cell's
                                      start
xrootd_connections  1       transfer  connections of the copy, by XRootD's monitoring
xrootd_size         B       transfer  bytes of the copy, by XRootD's monitoring
xrootd_code         1       transfer  0 for a copy that ended well by XRootD's monitoring, else its code
xrootd_direction    -       transfer  pull or push, by XRootD's monitoring
""")
"""Columns of the table of transfers; NaN or "" if XRootD's monitoring did not report a copy."""

OTHER_VARIABLES = (
    *("status", "flags", "limit", "limit_second", "message", "started", "source_node", "destination_node"),
    *("provenance", "provenance_record"),
)
"""Variables of the dataset that are no figures."""

DIMENSIONS = ("repetition", "record", "time", "origin", "transfer")
"""Dimensions of the dataset's groups in addition to the axes."""

CPU_LIMITS = frozenset({"cpu_source", "cpu_destination", "client", "machine"})
"""Limits that depend on the machine's speed: a quota is CPU time, in which a slow CPU does less."""

# --- OpenMetrics 1.0, the format of exported datasets and running cells

METRICS_END = "# EOF"


def metric_name(*parts: str) -> str:
    """Join the non-empty parts of a metric's name."""
    return "_".join(filter(None, ("tpcsweep", *parts)))


def metric_head(metric: str, kind: str, unit: str, meaning: str) -> Iterator[str]:
    """Yield the lines before a metric's samples; its name ends in its unit, if any."""
    yield f"# TYPE {metric} {kind}"
    if unit:
        yield f"# UNIT {metric} {unit}"
    yield f"# HELP {metric} {_escaped(meaning)}"


def metric_labels(values: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{label}="{_escaped(value)}"' for label, value in values.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
