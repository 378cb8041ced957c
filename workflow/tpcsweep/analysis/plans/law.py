# SPDX-License-Identifier: Apache-2.0
"""Plan without data: buffers, streams and cores for a rate at an RTT, by the law of throughput and measured constants.

A stream sends at most a window in each round trip, at most the path's bandwidth, and at most as much as one core of the
busier side moves. Between files it waits for the start of the tool and for slow start (`measuring.throughput.demand`).
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table

from tpcsweep.analysis.plans.question import Question
from tpcsweep.common.installation import PACKAGE
from tpcsweep.common.numbers import GBIT_PER_MS, between, counted, short
from tpcsweep.measuring import throughput
from tpcsweep.measuring.first_bytes import start_of, startup
from tpcsweep.measuring.tcp import first_window, slow_start, window_rate
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.problems import Problem, raise_any, validated
from tpcsweep.sweeps.units import RATE, RTT, SIZE, show

USED = ("rtt", "bandwidth", "tcp_buffer", "file_size", "mtu", "tool")
"""Parameters of the law; others need data."""
FILE_SIZE = 2**30  # bytes, without another size
MTU = 1500  # bytes, as in most networks
LINUX = 4 * 2**20
"""Bytes of the largest send buffer of Linux' defaults, the third number of net.ipv4.tcp_wmem."""
_MIB = 2**20
_BUFFERS = (LINUX, 16 * _MIB, 64 * _MIB, 256 * _MIB)


@dataclass(frozen=True)
class Constant:
    """Measured constant with its middle half, and the place of its measurement."""

    value: float
    low: float
    high: float
    unit: str
    meaning: str
    source: str


@cache
def constants() -> Mapping[str, Constant]:
    content = tomllib.loads((PACKAGE / "analysis/plans/law.toml").read_text(encoding="utf-8"))
    return {name: Constant(**entry) for name, entry in content.items()}


@dataclass(frozen=True)
class Row:
    """Streams that a buffer needs."""

    tcp_buffer: int  # bytes: third number of tcp_rmem and tcp_wmem
    sending: float  # Gbit/s of a stream while it sends
    stream: float  # Gbit/s of a stream with its pauses between files
    streams: int


@dataclass(frozen=True)
class LawPlan:
    """Answer of the law to a question."""

    target: float  # Gbit/s
    given: Mapping[str, Any]  # parameters in base units, with defaults
    rows: Sequence[Row]
    cores: Mapping[str, tuple[float, float, float]]  # of each side: median, and its middle half
    window: float  # bytes under way at the target: rate × RTT
    first_byte: float  # s from the start of a tool to its first byte

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "constants": {name: asdict(one) for name, one in constants().items()}}


def plan_by_law(content: Mapping[str, Any]) -> LawPlan:
    """Return the plan for the fields of a `Question`, without data.

    Raises ConfigurationError without an RTT, with parameters that need data, or with a target beyond the bandwidth.
    """
    question = validated(Question, content)
    given: dict[str, Any] = dict(question.given)
    problems = [Problem(name, "a value without data", f"only {', '.join(USED)}; others need RESULTS")
                for name in given if name not in USED]  # fmt: skip
    if not given.get("rtt"):
        problems.append(
            Problem("rtt", show(0, RTT) if "rtt" in given else "nothing", "--rtt, more than 0 ms")
        )
    target = question.target or 0.0
    bandwidth = given.get("bandwidth")
    if bandwidth is not None and target > bandwidth:
        problems.append(
            Problem("target", show(target, RATE), f"at most the bandwidth, {show(bandwidth, RATE)}")
        )
    raise_any(problems)
    whole: dict[str, Any] = {
        "bandwidth": math.inf,
        "file_size": FILE_SIZE,
        "mtu": MTU,
        "tool": Parameters().tool,
        **given,
    }
    rtt = float(whole["rtt"])
    sides = {side: constants()[f"{side}_cpu"] for side in ("source", "destination")}
    most = min(float(whole["bandwidth"] or math.inf), 1 / max(one.value for one in sides.values()), target)
    share = constants()["window"].value
    unbound = math.ceil(most * rtt / GBIT_PER_MS / share / _MIB) * _MIB
    buffers = (
        [whole["tcp_buffer"]] if whole.get("tcp_buffer") else [*(b for b in _BUFFERS if b < unbound), unbound]
    )
    return LawPlan(
        target=target,
        given={name: value for name, value in whole.items() if value != math.inf},
        rows=[_row(int(buffer), most, target, whole) for buffer in buffers],
        cores={
            side: (target * one.value, target * one.low, target * one.high) for side, one in sides.items()
        },
        window=target * rtt / GBIT_PER_MS,
        first_byte=startup(str(whole["tool"]), rtt),
    )


def _row(buffer: int, most: float, target: float, whole: Mapping[str, Any]) -> Row:
    rtt, start = float(whole["rtt"]), start_of(str(whole["tool"]))
    sending = min(float(window_rate(constants()["window"].value * buffer, rtt)), most)
    trips = start.round_trips + float(slow_start(sending, window_rate(first_window(whole["mtu"]), rtt)))
    stream = float(throughput.demand(1, sending, start.seconds, trips, rtt, whole["file_size"]))
    return Row(buffer, sending, stream, max(1, math.ceil(target / stream - 1e-9)))


def law_table(plan: LawPlan) -> RenderableType:
    """Return a plan by the law as printable text: buffers with streams, cores, and the first measurements."""
    rtt = float(plan.given["rtt"])
    rows = Table(
        "TCP buffer", "Gbit/s of a stream", "streams", "third number of tcp_rmem, tcp_wmem", box=SIMPLE_HEAD
    )
    for row in plan.rows:
        linux = " (Linux' default)" if row.tcp_buffer == LINUX else ""
        rows.add_row(_size(row.tcp_buffer) + linux, short(row.stream), str(row.streams), str(row.tcp_buffer))
    files = (
        f"files of {show(plan.given['file_size'], SIZE)}, tool {plan.given['tool']}, MTU {plan.given['mtu']}"
    )
    cores = ", ".join(
        f"{side} {short(middle)} ({between(low, high)})" for side, (middle, low, high) in plan.cores.items()
    )
    few, many = plan.rows[-1], plan.rows[0]
    return Group(
        f"{show(plan.target, RATE)} at {show(rtt, RTT)} by the law of throughput, without data; {files}",
        f"under way: {_size(plan.window)}; a stream waits {plan.first_byte:.1f} s for the first byte of each file",
        rows,
        f"cores of each side: {cores}",
        "measure first, because constants are those of other machines:",
        f"- one stream with the buffer that you have: with {_size(many.tcp_buffer)} the law expects "
        f"{short(many.stream)} Gbit/s. Less: packet loss, CPU, or another limit, which the page names",
        f"- {counted(few.streams, 'stream')} with {_size(few.tcp_buffer)}: do the cores above suffice?",
        f"a sweep: parameters: {{rtt: {show(rtt, RTT)}, streams: [1, {max(2, few.streams)}, {many.streams}]}}; "
        "then the same question with RESULTS",
        *(f"{name}: {short(one.value)} {one.unit}: {one.source}" for name, one in constants().items()),
    )


def _size(size: float) -> str:
    """Return a size for people: 95 MB, or 4 MiB where that is exact."""
    return show(int(size), SIZE) if size % 2**20 == 0 else f"{short(size / 1e6)} MB"
