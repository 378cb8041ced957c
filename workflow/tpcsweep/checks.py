"""Whether a testbed can do what a sweep asks, settled before anything is deployed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tpcsweep.configuration import Configuration
from tpcsweep.parameters import DEPLOYMENT, Value, chosen, show_value
from tpcsweep.problems import ConfigurationError, Problem, suggest
from tpcsweep.sweep import Cell, Grid, Sweep
from tpcsweep.units import CORES, RATE, RTT, SIZE, show

_CONGESTION_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine can do."""

    cpus: int
    memory: int
    """Memory available, in bytes."""
    smallest_rtt: float
    """The smallest RTT above 0 that a path can make, in ms."""
    congestion_controls: Collection[str]
    tools: Collection[str]
    """Names of the tools that are known."""


def this_machine(smallest_rtt: float, tools: Collection[str]) -> Machine:
    """What the machine offers, as far as the process may use it."""
    return Machine(
        cpus=len(os.sched_getaffinity(0)),
        memory=psutil.virtual_memory().available,
        smallest_rtt=smallest_rtt,
        congestion_controls=tuple(_CONGESTION_CONTROLS.read_text().split()),
        tools=tuple(tools),
    )


def require(configuration: Configuration, machine: Machine) -> None:
    """Raises ConfigurationError where `check` finds a problem."""
    if problems := check(configuration, machine):
        raise ConfigurationError(problems)


def check(configuration: Configuration, machine: Machine) -> list[Problem]:
    """Everything that the sweep asks for and the testbed on this machine cannot do. Pure."""
    testbed, file = configuration.testbed, configuration.testbed_file
    problems = []
    if testbed.cpus is not None and testbed.cpus > machine.cpus:
        problems.append(
            Problem("cpus", str(testbed.cpus), f"at most {machine.cpus}, the CPUs of this machine", file)
        )
    if testbed.memory is not None and testbed.memory > machine.memory:
        allowed = f"at most {_rounded(machine.memory)}, what this machine has available"
        problems.append(Problem("memory", show(testbed.memory, SIZE), allowed, file))
    for rule in _rules(configuration, machine):
        problems += _broken(rule, configuration.grid, configuration.sweep_file)
    return problems


@dataclass(frozen=True, slots=True)
class _Rule:
    """What some parameters of a cell must satisfy together; the first of them is the one to change."""

    names: tuple[str, ...]
    allowed: Callable[..., str | None]
    """Given the values in the order of the names: None where they are fine, else what is allowed."""


def _rules(configuration: Configuration, machine: Machine) -> list[_Rule]:
    testbed, file = configuration.testbed, configuration.testbed_file
    cpus, cpus_of = (
        (testbed.cpus, f"cpus in {file}") if testbed.cpus else (machine.cpus, "the CPUs of this machine")
    )
    memory, memory_of = (
        (testbed.memory, f"memory in {file}")
        if testbed.memory
        else (machine.memory // 2, "half of what this machine has available")
    )

    def cores(value: float | None) -> str | None:
        if value is None or value * 2 <= cpus:
            return None
        return f"at most {show(cpus / 2, CORES)}, half of {cpus} ({cpus_of})"

    def rtt(value: float) -> str | None:
        if value > testbed.max_rtt:
            return f"at most {show(testbed.max_rtt, RTT)} (max_rtt in {file})"
        if 0 < value < machine.smallest_rtt:
            return f"0, or at least {show(machine.smallest_rtt, RTT)}, the smallest that a path here can make"
        return None

    def bandwidth(value: float) -> str | None:
        limit = testbed.max_bandwidth
        return None if value <= limit else f"at most {show(limit, RATE)} (max_bandwidth in {file})"

    def congestion_control(value: str) -> str | None:
        return None if value in machine.congestion_controls else suggest(value, machine.congestion_controls)

    def tool(value: str) -> str | None:
        return None if value in machine.tools else suggest(value, machine.tools)

    def tcp_streams(count: int, copy_mode: str) -> str | None:
        if count == 1 or copy_mode == "pull":
            return None
        return "1 with copy_mode push: multi-stream is pull only in XRootD"

    def file_size(size: int, streams: int, content: str) -> str | None:
        # Each stream keeps one file at the destination; two more are being written or deleted meanwhile.
        files = streams + 2 + (content == "random")
        if files * size <= memory:
            return None
        return f"at most {_rounded(memory // files)}: {files} files in {_rounded(memory)} ({memory_of})"

    return [
        _Rule(("cores",), cores),
        _Rule(("rtt",), rtt),
        _Rule(("bandwidth",), bandwidth),
        _Rule(("congestion_control",), congestion_control),
        _Rule(("tool",), tool),
        _Rule(("tcp_streams", "copy_mode"), tcp_streams),
        _Rule(("file_size", "streams", "source_content"), file_size),
    ]


def _broken(rule: _Rule, grid: Grid, file: str) -> Iterable[Problem]:
    name = rule.names[0]
    for values in _combinations(grid, rule.names):
        allowed = rule.allowed(*values)
        if allowed is not None:
            others = [f"{n} {show_value(n, v)}" for n, v in zip(rule.names[1:], values[1:], strict=True)]
            given = " with ".join([show_value(name, values[0]), *([", ".join(others)] if others else [])])
            yield Problem(_place(grid.sweep, name, values[0]), given, allowed, file)


def _rounded(size: int) -> str:
    """A size that was found rather than written, rounded down to MiB where it has some."""
    return show(size - size % 2**20 if size > 2**20 else size, SIZE)


def _combinations(grid: Grid, names: tuple[str, ...]) -> list[tuple[Value, ...]]:
    """The distinct values that cells have for these parameters together, in the order of the grid."""
    cells: Iterable[Cell] = grid.cells
    # Where the names are of one kind, a cell of each kind is enough: a grid can have 10⁵ cells.
    if all(name in DEPLOYMENT for name in names):
        cells = {cell.deployment.path: cell for cell in grid.cells}.values()
    elif not any(name in DEPLOYMENT for name in names):
        cells = {cell.setting.path: cell for cell in grid.cells}.values()
    return list(dict.fromkeys(tuple(cell.value(name) for name in names) for cell in cells))


def _place(sweep: Sweep, name: str, value: Value) -> str:
    """The key of the sweep that gives a parameter this value."""
    given = chosen(sweep.parameters)
    if name not in given:
        return f"parameters.{name} (left out)"
    for key, entry in _entries(sweep, given):
        found: Any = entry.get(name, ())
        if isinstance(found, tuple) and value in found:
            return f"{key}.{name}[{found.index(value)}]"
        if not isinstance(found, tuple) and found == value:
            return f"{key}.{name}"
    return f"parameters.{name}"


def _entries(sweep: Sweep, given: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    yield "parameters", given
    for index, entry in enumerate(sweep.include):
        yield f"include[{index}]", chosen(entry)
