"""Whether a testbed can do what a sweep asks, settled before anything is deployed.

What holds on every testbed is here; what one kind of testbed alone knows is in its module `limits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from tpcsweep.configuration.loading import Configuration
from tpcsweep.configuration.parameters import DEPLOYMENT, Value, chosen, show_value
from tpcsweep.configuration.problems import ConfigurationError, Problem, suggest
from tpcsweep.configuration.sweep import Cell, Grid, Sweep
from tpcsweep.configuration.units import SIZE, show
from tpcsweep.extras import EXTRAS
from tpcsweep.tools import TOOLS


def require(configuration: Configuration) -> None:
    """Raises ConfigurationError where `check` finds a problem."""
    if problems := check(configuration):
        raise ConfigurationError(problems)


def check(configuration: Configuration) -> list[Problem]:
    """Everything that the sweep asks for and the testbed cannot do, by the `limits` of its kind."""
    # By name, as a testbed's modules import this one, and a run needs those of one kind alone.
    limits = import_module(f"tpcsweep.testbeds.{configuration.testbed.kind}.limits")
    problems: list[Problem] = limits.check(configuration)
    return problems


def extras(configuration: Configuration) -> list[str]:
    """The extras of set-up that measuring the sweep takes: its testbed's, or on this machine those of its tools."""
    kind = configuration.testbed.kind
    if kind in EXTRAS:
        return [kind]
    tools = _combinations(configuration.grid, ("tool",))
    return sorted({extra for (tool,) in tools if (extra := TOOLS[str(tool)].extra)})


@dataclass(frozen=True, slots=True)
class Rule:
    """What some parameters of a cell must satisfy together; the first of them is the one to change."""

    names: tuple[str, ...]
    allowed: Callable[..., str | None]
    """Given the values in the order of the names: None where they are fine, else what is allowed."""


def everywhere(memory: int, memory_of: str) -> list[Rule]:
    """The rules of every testbed. The files of a cell must fit into `memory` bytes; `memory_of` says whose they are."""

    def tool(value: str) -> str | None:
        return None if value in TOOLS else suggest(value, TOOLS)

    def files(size: int, streams: int, content: str, layer: str) -> str | None:
        count = files_of(layer, streams, content).memory
        if count * size <= memory:
            return None
        return f"at most {rounded(memory // count)}: {count} files in {rounded(memory)} ({memory_of})"

    return [
        Rule(("tool",), tool),
        *_of_tools(),
        Rule(("source_content", "layer"), _source_content),
        Rule(("file_size", "streams", "source_content", "layer"), files),
    ]


class Files(NamedTuple):
    """How many files of a cell there are at a time."""

    memory: int
    disk: int


def files_of(layer: str, streams: int, content: str) -> Files:
    """Of both sides together, without sparse ones, which take no room."""
    # Each stream keeps one file at the destination; two more are being written or deleted meanwhile.
    arriving, source = streams + 2, int(content == "random")
    if layer == "memory_to_memory":
        return Files(arriving + source, 0)
    if layer == "memory_to_disk":
        return Files(source, arriving)
    # From a disk each stream reads a file of its own.
    return Files(0, arriving + streams) if layer == "disk_to_disk" else Files(0, 0)


def _source_content(content: str, layer: str) -> str | None:
    if content == "random" or layer != "disk_to_disk":
        return None
    return "random: holes are not read from a disk"


def _of_tools() -> list[Rule]:
    """What a tool can do. One that is unknown is told by another rule."""

    def tcp_streams(count: int, tool: str, copy_mode: str) -> str | None:
        most, why = TOOLS[tool].connections(copy_mode) if tool in TOOLS else (count, "")
        if count <= most:
            return None
        return f"{most if most == 1 else f'at most {most}'}: {why}"

    def copy_mode(value: str, tool: str) -> str | None:
        modes = TOOLS[tool].copy_modes if tool in TOOLS else (value,)
        if value in modes:
            return None
        side = {"pull": "destination", "push": "source"}
        return " or ".join(f"{mode}: the {side[mode]} opens {tool}'s connections" for mode in modes)

    def layer(value: str, tool: str) -> str | None:
        if tool not in TOOLS or value in TOOLS[tool].layers:
            return None
        able = [name for name, other in TOOLS.items() if value in other.layers]
        return f"{' or '.join(TOOLS[tool].layers)} with {tool}; {value} needs the tool {' or '.join(able)}"

    def origins(count: int, tool: str) -> str | None:
        place = TOOLS[tool].place if tool in TOOLS else "client"
        if count == 1 or place == "client":
            return None
        return f"1: {tool} runs at the {place}, in the network and under the CPU quota of its one origin"

    def endpoint(value: str, tool: str, origins: int) -> str | None:
        protocol = TOOLS[tool].protocol if tool in TOOLS else "https"
        if value == "direct" or origins == 1 or protocol in ("https", "root"):
            return None
        return f"direct: only XRootD has redirectors, and {tool} speaks {protocol}"

    return [
        Rule(("tcp_streams", "tool", "copy_mode"), tcp_streams),
        Rule(("copy_mode", "tool"), copy_mode),
        Rule(("layer", "tool"), layer),
        Rule(("origins", "tool"), origins),
        Rule(("endpoint", "tool", "origins"), endpoint),
    ]


def emulated() -> list[Rule]:
    """The rules of testbeds that make their paths."""

    def queue_limit(packets: int | None, rtt: float) -> str | None:
        if packets is None or rtt > 0:
            return None
        return "null with rtt 0 ms: it bounds packets under way, and none are"

    return [Rule(("queue_limit", "rtt"), queue_limit)]


def broken(rules: Sequence[Rule], configuration: Configuration) -> list[Problem]:
    """What the cells of a configuration break of the rules, each combination of values once."""
    grid, file = configuration.grid, configuration.sweep_file
    return [problem for rule in rules for problem in _broken(rule, grid, file)]


def rounded(size: int) -> str:
    """A size that was found rather than written, rounded down to MiB where it has some."""
    return show(size - size % 2**20 if size > 2**20 else size, SIZE)


def _broken(rule: Rule, grid: Grid, file: str) -> Iterable[Problem]:
    name = rule.names[0]
    for values in _combinations(grid, rule.names):
        allowed = rule.allowed(*values)
        if allowed is not None:
            others = [f"{n} {show_value(n, v)}" for n, v in zip(rule.names[1:], values[1:], strict=True)]
            given = " with ".join([show_value(name, values[0]), *([", ".join(others)] if others else [])])
            yield Problem(_place(grid.sweep, name, values[0]), given, allowed, file)


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
