# SPDX-License-Identifier: Apache-2.0
"""Whether a testbed can do what a sweep asks, settled before anything is deployed.

What holds on every testbed is here; what one kind of testbed alone knows is in its module `limits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import NamedTuple

from tpcsweep.configuration.loading import Configuration
from tpcsweep.configuration.parameters import DEPLOYMENT, Value, chosen, show_value
from tpcsweep.configuration.problems import MOST, Problem, raise_any, suggest
from tpcsweep.configuration.sweep import Cell, Grid, Sweep
from tpcsweep.configuration.testbeds import Netns
from tpcsweep.configuration.units import SIZE, show
from tpcsweep.tools import TOOLS, Tool
from tpcsweep.xrootd.obtaining import EXTRA, to_build


def require(configuration: Configuration) -> None:
    """Raise ConfigurationError where `check` finds a problem."""
    raise_any(check(configuration))


def check(configuration: Configuration) -> list[Problem]:
    """List everything that the sweep asks for and the testbed cannot do, by the `limits` of its kind."""
    # By name, as a testbed's modules import this one, and a run needs those of one kind alone.
    limits = import_module(f"tpcsweep.testbeds.{configuration.testbed.kind}.limits")
    problems: list[Problem] = limits.check(configuration)
    return problems


def extras(configuration: Configuration) -> list[str]:
    """List the extras that measuring or simulating a sweep needs, by its testbed, tools and releases."""
    testbed = configuration.testbed
    if testbed.simulated:
        return [] if configuration.sweep.measurement.until == "steady" else ["simulation"]
    if not isinstance(testbed, Netns):  # tools run elsewhere
        return []
    tools = {TOOLS[str(tool)].extra for (tool,) in _combinations(configuration.grid, ("tool",))}
    releases = (str(name) for (name,) in _combinations(configuration.grid, ("xrootd",)))
    builds = {EXTRA} if any(to_build(name, testbed.own_releases) for name in releases) else set()
    return sorted(filter(None, tools | builds))


@dataclass(frozen=True, slots=True)
class Rule:
    """What some parameters of a cell must satisfy together; the first of them is the one to change."""

    names: tuple[str, ...]
    allowed: Callable[..., str | None]
    """Given the values in the order of the names: None where they are fine, else what is allowed."""


def everywhere(memory: int, memory_of: str) -> list[Rule]:
    """Give the rules of every testbed. The files of a cell must fit into so much memory, B, of `memory_of`."""

    def tool(value: str) -> str | None:
        return None if value in TOOLS else suggest(value, TOOLS)

    def files(size: int, streams: int, content: str, layer: str) -> str | None:
        count = files_of(layer, streams, content).memory
        if count * size <= memory:
            return None
        return f"at most {rounded(memory // count)}: {count} files in {rounded(memory)} ({memory_of})"

    def source_content(content: str, layer: str) -> str | None:
        holes = content != "random" and layer == "disk_to_disk"
        return "random: holes are not read from a disk" if holes else None

    return [
        Rule(("tool",), tool),
        *_of_tools(),
        Rule(("source_content", "layer"), source_content),
        Rule(("file_size", "streams", "source_content", "layer"), files),
    ]


class Files(NamedTuple):
    """How many files of a cell there are at a time."""

    memory: int
    disk: int


def files_of(layer: str, streams: int, content: str) -> Files:
    """Count those of both sides together, without sparse ones, which take no room."""
    # Each stream keeps one file at the destination; two more are being written or deleted meanwhile.
    arriving, source = streams + 2, int(content == "random")
    if layer == "memory_to_memory":
        return Files(arriving + source, 0)
    if layer == "memory_to_disk":
        return Files(source, arriving)
    # From a disk each stream reads a file of its own.
    return Files(0, arriving + streams) if layer == "disk_to_disk" else Files(0, 0)


def _of_tools() -> list[Rule]:
    def tcp_streams(count: int, tool: Tool, copy_mode: str) -> str | None:
        most, why = tool.connections(copy_mode)
        if count <= most:
            return None
        return f"{most if most == 1 else f'at most {most}'}: {why}"

    def copy_mode(value: str, tool: Tool) -> str | None:
        if value in tool.copy_modes:
            return None
        side = {"pull": "destination", "push": "source"}
        return " or ".join(
            f"{mode}: the {side[mode]} opens {tool.name}'s connections" for mode in tool.copy_modes
        )

    def layer(value: str, tool: Tool) -> str | None:
        if value in tool.layers:
            return None
        able = " or ".join(name for name, other in TOOLS.items() if value in other.layers)
        return f"{' or '.join(tool.layers)} with {tool.name}; {value} needs the tool {able}"

    def origins(count: int, tool: Tool) -> str | None:
        if count == 1 or tool.place == "client":
            return None
        return f"1: {tool.name} runs at the {tool.place}, in the network and under the CPU quota of its one origin"

    def encryption(value: str, tool: Tool, authorization: str) -> str | None:
        if value not in ("usual", *tool.encryptions):
            kept = "not encrypted" if value == "tls" else "encrypted"
            return f"usual or {' or '.join(tool.encryptions)}: {tool.name}'s data are {kept}"
        if value == "none" and authorization != "none":
            return tool.needs_tls and f"usual or tls, or authorization none: {tool.needs_tls}"
        return None

    def authorization(value: str, tool: Tool) -> str | None:
        able = ("usual", *tool.authorizations)
        if value in able:
            return None
        why = "shows no macaroon" if value == "macaroons" else "does not copy without credentials"
        return f"{' or '.join(able)}: {tool.name} {why}"

    def by_redirector(value: str, tool: Tool, endpoint: str, origins: int) -> str | None:
        direct = value != "none" or tool.protocol != "https" or endpoint == "direct" or origins == 1
        return None if direct else "usual or tls, or endpoint direct: redirectors send everybody on by https"

    def endpoint(value: str, tool: Tool, origins: int) -> str | None:
        if value == "direct" or origins == 1 or tool.protocol in ("https", "root"):
            return None
        return f"direct: only XRootD has redirectors, and {tool.name} speaks {tool.protocol}"

    def rule(parameter: str, of_tool: Callable[..., str | None], *names: str) -> Rule:
        def allowed(value: Value, name: str, *others: Value) -> str | None:
            # A tool that is unknown is told by another rule.
            return of_tool(value, TOOLS[name], *others) if name in TOOLS else None

        return Rule((parameter, "tool", *names), allowed)

    return [
        rule("tcp_streams", tcp_streams, "copy_mode"),
        rule("copy_mode", copy_mode),
        rule("layer", layer),
        rule("origins", origins),
        rule("endpoint", endpoint, "origins"),
        rule("encryption", encryption, "authorization"),
        rule("encryption", by_redirector, "endpoint", "origins"),
        rule("authorization", authorization),
    ]


def broken(rules: Sequence[Rule], configuration: Configuration) -> list[Problem]:
    """List what the cells of a configuration break of the rules, each combination of values once; of many some."""
    return list(islice(_broken(rules, configuration), MOST + 1))


def _broken(rules: Sequence[Rule], configuration: Configuration) -> Iterator[Problem]:
    for rule in rules:
        name, *names = rule.names
        for value, *values in _combinations(configuration.grid, rule.names):
            allowed = rule.allowed(value, *values)
            if allowed is not None:
                others = ", ".join(f"{n} {show_value(n, v)}" for n, v in zip(names, values, strict=True))
                given = show_value(name, value) + (f" with {others}" if others else "")
                place = _place(configuration.sweep, name, value)
                yield Problem(place, given, allowed, configuration.sweep_file)


def rounded(size: int) -> str:
    """Give a size that was found rather than written, rounded down to MiB where it has some."""
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
    includes = {f"include[{index}]": chosen(entry) for index, entry in enumerate(sweep.include)}
    for key, entry in {"parameters": given, **includes}.items():
        values = entry.get(name, ())
        if isinstance(values, tuple) and value in values:
            return f"{key}.{name}[{values.index(value)}]"
        if values == value:
            return f"{key}.{name}"
    return f"parameters.{name}"
