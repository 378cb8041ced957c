# SPDX-License-Identifier: Apache-2.0
"""Rules that raise the flags of cells: one function for each entry of flags.toml, with its name. Pure.

A deployment's job raises SETTING_CHANGED itself, and `production_load` by the load of hosts that it counts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tpcsweep.common.numbers import BYTES
from tpcsweep.data.cell_result import Number, Status, Summary
from tpcsweep.data.flags import FLAGS, SETTING_CHANGED, SHORTEST

BUSY = 0.95  # share of the machine's CPU time above which the machine itself may limit a cell
FILES = 1.0  # fewest files of each stream that must end after the warm-up to sample the pauses between files
DISTURBED_SHARE = 0.1
"""Share of the machine's CPU time used by others or the hypervisor above which a cell is disturbed."""
SLOWED = 0.5
"""Slowdown of a piece of work, relative to the machine's fastest, above which a cell is disturbed."""
WAITED_SHARE = 0.1
"""Share of the streams' time, waited for pauses that a server asks for, from which a rate is made of waiting."""
PRODUCTION_SHARE = 0.1
"""Share of a host's speed used by others above which production loads it.
Tuning of hosts is to gain 10 % (WLCG's host-tuning challenge); other traffic of this size may take as much."""
MONITORED = 0.01
"""Tolerated relative difference of XRootD's sum of bytes and that of the files.
Both count payload, so that they are equal unless a record is lost."""
PAYLOAD_SHARE = 0.85
"""Smallest plausible goodput over the rate on the path.
Headers of packets and of TLS, and a few per cent of retransmissions explain no smaller ratio."""
HEADERS = 64 << 10
"""Most bytes of a transfer's requests, answers and TLS handshakes: curl 12 KiB, gfal-copy 32 KiB."""
EMPTIED = 0.98  # smallest rate on the path over goodput after the warm-up; buffers that empty explain little
COUNTING = 1.005  # largest ratio of two counters that are read a millisecond apart
LARGEST_BANDWIDTH = 10_000.0  # Gbit/s; no interface comes near
TOLERANCE = 0.1
"""Tolerated relative excess over the possible: a path has up to 3 % more than requested, and clocks differ."""
_NEVER_NEGATIVE = (
    *("throughput", "throughput_average", "throughput_max", "wire_throughput", "duration", "warmup"),
    *("source_cpu", "destination_cpu", "client_cpu", "path_cpu", "machine_cpu"),
)


class Counters(NamedTuple):
    """Data of a cell with its warm-up, by two counts in the same unit."""

    arrived: float  # payload in the destination's files
    carried: float  # bytes on the path's interface
    transfers: int  # transfers that were begun
    unbounded: float = 0.0  # goodput after the warm-up, not bounded by the rate on the path, Gbit/s


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What flags are judged by. A default raises no flag, for cells without such evidence."""

    status: Status
    summary: Summary
    bandwidth: float  # bandwidth of the path as requested or declared, Gbit/s; NaN if unknown
    declared: bool = False  # whether the testbed declares the bandwidth, so that the path may have more
    precision: float = math.inf  # requested half width of the interval, relative to the mean
    files: int = 0  # fewest transfers of the cell
    counters: Counters | None = None
    steady: bool = True  # see `measuring.steady.Steady`, like the next
    short: bool = False
    cycles: float = math.inf
    slow_path: bool = False  # whether the path has less bandwidth than requested
    broken: bool = False  # whether the deployment was unusable after the cell
    outside: bool = False  # whether this machine neither holds nor moves the data
    hosts_used: float = math.nan  # share of the speed of a host's interfaces that others used at least
    usable: bool = True  # whether the figures are those of a measurement that was not interrupted


Rule = Callable[[Evidence], bool]
RULES: dict[str, Rule] = {}
"""Rule of each flag."""
_ALWAYS: set[str] = set()


def _rule(rule: Rule) -> Rule:
    """Add the rule of the flag that has the function's name."""
    if rule.__name__ not in FLAGS:
        raise TypeError(f"flags.toml has no flag {rule.__name__}")
    RULES[rule.__name__] = rule
    return rule


def _always(rule: Rule) -> Rule:
    """Add a rule that also judges cells whose measurement was interrupted."""
    _ALWAYS.add(rule.__name__)
    return _rule(rule)


def raised_flags(cell: Evidence) -> tuple[str, ...]:
    """Return the flags of a cell, in the order of `FLAGS`."""
    judged = (flag for flag in FLAGS if flag != SETTING_CHANGED)
    return tuple(flag for flag in judged if (cell.usable or flag in _ALWAYS) and RULES[flag](cell))


@_rule
def not_steady(cell: Evidence) -> bool:
    return not cell.steady


@_rule
def wide_interval(cell: Evidence) -> bool:
    if math.isinf(cell.precision):
        return False
    low, high = _known(cell.summary.throughput_low), _known(cell.summary.throughput_high)
    # An unknown interval is wide.
    return not (high - low) / 2 <= cell.precision * _known(cell.summary.throughput)


@_rule
def too_short(cell: Evidence) -> bool:
    return cell.short


@_rule
def within_files(cell: Evidence) -> bool:
    return _known(cell.summary.length_files) < FILES or cell.cycles < FILES


@_rule
def transfers_failed(cell: Evidence) -> bool:
    return bool(cell.summary.transfers_failed)


@_rule
def waited(cell: Evidence) -> bool:
    return _known(cell.summary.waited_share) >= WAITED_SHARE


@_rule
def files_missing(cell: Evidence) -> bool:
    return (cell.summary.transfers or 0) < cell.files


@_rule
def counters_disagree(cell: Evidence) -> bool:
    """Return whether goodput and the path's rate differ by more than headers explain."""
    if cell.counters is None:
        return False
    arrived, carried, transfers, unbounded = cell.counters
    headers = transfers * HEADERS / BYTES / (cell.summary.duration or math.nan)
    payload, wire = _known(cell.summary.throughput), _known(cell.summary.wire_throughput)
    # Over the whole cell, because buffers that filled during the warm-up make writes exceed arrivals later.
    long = (
        _known(cell.summary.duration) >= SHORTEST
    )  # in shorter cells these buffers hold a part of all files
    more = arrived > carried * COUNTING or (long and unbounded * EMPTIED > wire)
    return more or payload < PAYLOAD_SHARE * (wire - headers)


@_rule
def monitoring_disagrees(cell: Evidence) -> bool:
    return abs(_known(cell.summary.xrootd_share) - 1) > MONITORED


@_rule
def machine_saturated(cell: Evidence) -> bool:
    return not cell.outside and _known(cell.summary.machine_used) >= BUSY


@_rule
def disturbed(cell: Evidence) -> bool:
    """Return whether other work used the machine, or the machine was slow. Unknown values count as undisturbed."""
    if cell.outside:
        return False
    used_by_others = (cell.summary.machine_others or 0.0) + (cell.summary.machine_steal or 0.0)
    return used_by_others >= DISTURBED_SHARE or (cell.summary.machine_slowed or 0.0) >= SLOWED


@_rule
def path_slow(cell: Evidence) -> bool:
    return cell.slow_path and cell.status == "ok"


@_rule
def production_load(cell: Evidence) -> bool:
    return cell.hosts_used >= PRODUCTION_SHARE


@_always
def deployment_broken(cell: Evidence) -> bool:
    return cell.broken


@_always
def implausible(cell: Evidence) -> bool:
    return bool(implausible_figure(cell))


def implausible_figure(cell: Evidence) -> str:
    """Return the name of a figure that no cell can have, or "".

    Buffers that filled during the warm-up may make more data arrive afterwards than the path carries in that time.
    Therefore the arrived data are compared with the path's capacity since the start of the cell.
    """
    figures, summary = cell.summary.figures, cell.summary
    wrong = [name for name, value in figures.items() if value is not None and not math.isfinite(value)]
    wrong += [name for name in _NEVER_NEGATIVE if (figures.get(name) or 0) < 0]
    if wrong or cell.status != "ok":
        return next(iter(wrong), "")
    if summary.throughput is None:
        return "throughput"
    counted = 1 - (summary.warmup or 0) / summary.duration if summary.duration else 1
    most = 1 + TOLERANCE
    path = most * (LARGEST_BANDWIDTH if cell.declared or math.isnan(cell.bandwidth) else cell.bandwidth)
    too_large = {
        "throughput": summary.throughput * counted > path,
        "throughput_average": (summary.throughput_average or 0) > path,
        "wire_throughput": (summary.wire_throughput or 0) > path,
        "machine_cpu": (summary.machine_cpu or 0) > most,
    }
    return next((name for name, is_wrong in too_large.items() if is_wrong), "")


@_rule
def beyond_path(cell: Evidence) -> bool:
    """Return whether the path cannot sustain the throughput."""
    return not cell.declared and _exceeds_bandwidth(cell)


@_rule
def beyond_declared(cell: Evidence) -> bool:
    """Return whether the path has more bandwidth than the testbed declares."""
    return cell.declared and _exceeds_bandwidth(cell)


def _exceeds_bandwidth(cell: Evidence) -> bool:
    return cell.status == "ok" and _known(cell.summary.throughput) > cell.bandwidth


def _known(value: Number) -> float:
    """Return NaN for an unknown value; no comparison with it is true."""
    return math.nan if value is None else value
