# SPDX-License-Identifier: Apache-2.0
"""Rules for sweeps that several kinds of testbeds use. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tpcsweep.deploying.xrootd.server_config import MOST_ORIGINS
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Tool
from tpcsweep.sweeps.parameters import DEPLOYMENT, Value, selected_parameters, show_value
from tpcsweep.sweeps.problems import Problem, suggest
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.sweep import Cell, Grid, Sweep
from tpcsweep.sweeps.units import CORES, COUNT, RATE, RTT, SIZE, Dimension, show


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on several parameters of a cell; the user should change the first of them."""

    names: tuple[str, ...]
    allowed: Callable[..., str | None]
    """Returns None for valid values, given in the order of the names; otherwise the allowed values."""


def everywhere(memory: int, memory_of: str) -> list[Rule]:
    """Return the rules of every testbed; `memory` is the space for a cell's files in bytes, `memory_of` its name."""

    def files(size: int, streams: int, content: str, layer: str) -> str | None:
        if (count := count_files(layer, streams, content).memory) * size <= memory:
            return None
        return f"at most {rounded(memory // count)}: {count} files in {rounded(memory)} ({memory_of})"

    def source_content(content: str, layer: str) -> str | None:
        holes = content != "random" and layer == "disk_to_disk"
        return "random: holes are not read from a disk" if holes else None

    def mirage(layer: str, content: str, checksum: str, origins: int) -> str | None:
        fits = layer != "mirage" or (content, checksum, origins) == ("sparse", "none", 1)
        return None if fits else "mirage with source_content sparse, checksum none and one origin"

    return [
        Rule(("layer", "source_content", "checksum", "origins"), mirage),
        Rule(("tool",), lambda value: None if value in TOOLS else suggest(value, TOOLS)),
        *_of_tools(),
        Rule(("source_content", "layer"), source_content),
        Rule(("file_size", "streams", "source_content", "layer"), files),
    ]


class Files(NamedTuple):
    """The largest number of files of a cell that exist at the same time."""

    memory: int
    disk: int


def count_files(layer: str, streams: int, content: str) -> Files:
    """Count the files of both sides. Sparse files need no space and are not counted."""
    # Each stream keeps one destination file; two more may be in creation or deletion.
    arriving, source = streams + 2, int(content == "random")
    if layer == "memory_to_memory":
        return Files(arriving + source, 0)
    if layer == "memory_to_disk":
        return Files(source, arriving)
    # With disk_to_disk each stream reads its own source file.
    return Files(0, arriving + streams) if layer == "disk_to_disk" else Files(0, 0)


def _of_tools() -> list[Rule]:
    """Return the rules of tools. Each function below returns the allowed values for an invalid one."""

    def allowed(of_tool: Callable[..., str | None], value: Value, name: str, *others: Value) -> str | None:
        # Another rule refuses an unknown tool.
        return of_tool(value, TOOLS[name], *others) if name in TOOLS else None

    rules: dict[Callable[..., str | None], tuple[str, ...]] = {
        _tcp_streams: ("tcp_streams", "tool", "copy_mode"),
        _copy_mode: ("copy_mode", "tool"),
        _layer: ("layer", "tool"),
        _origins: ("origins", "tool"),
        _endpoint: ("endpoint", "tool", "origins"),
        _encryption: ("encryption", "tool", "authorization"),
        _by_redirector: ("encryption", "tool", "endpoint", "origins"),
        _authorization: ("authorization", "tool"),
        _checksum: ("checksum", "tool"),
        _scitag: ("scitag", "tool"),
    }
    return [Rule(names, partial(allowed, of_tool)) for of_tool, names in rules.items()]


def _tcp_streams(count: int, tool: Tool, copy_mode: str) -> str | None:
    most, why = tool.connections(copy_mode)
    return None if count <= most else f"{most if most == 1 else f'at most {most}'}: {why}"


def _copy_mode(value: str, tool: Tool) -> str | None:
    side = {"pull": "destination", "push": "source"}
    able = (f"{mode}: the {side[mode]} opens {tool.name}'s connections" for mode in tool.copy_modes)
    return None if value in tool.copy_modes else " or ".join(able)


def _layer(value: str, tool: Tool) -> str | None:
    able = " or ".join(name for name, other in TOOLS.items() if value in other.layers)
    allowed = f"{' or '.join(tool.layers)} with {tool.name}; {value} needs the tool {able}"
    return None if value in tool.layers else allowed


def _origins(count: int, tool: Tool) -> str | None:
    place = f"{tool.name} runs at the {tool.place}, in the network and under the CPU quota of its one origin"
    return None if count == 1 or tool.place == "client" else f"1: {place}"


def _encryption(value: str, tool: Tool, authorization: str) -> str | None:
    if value not in ("usual", *tool.encryptions):
        kept = "not encrypted" if value == "tls" else "encrypted"
        return f"usual or {' or '.join(tool.encryptions)}: {tool.name}'s data are {kept}"
    if value == "none" and authorization != "none":
        return tool.needs_tls and f"usual or tls, or authorization none: {tool.needs_tls}"
    return None


def _authorization(value: str, tool: Tool) -> str | None:
    able = ("usual", *tool.authorizations)
    why = "shows no macaroon" if value == "macaroons" else "does not copy without credentials"
    return None if value in able else f"{' or '.join(able)}: {tool.name} {why}"


def _checksum(value: str, tool: Tool) -> str | None:
    able = " or ".join(("none", *tool.checksums))
    return None if value in ("none", *tool.checksums) else f"{able}: {tool.name} compares no others"


def _scitag(value: int | None, tool: Tool) -> str | None:
    able = " or ".join(name for name, other in TOOLS.items() if other.tags)
    return None if value is None or tool.tags else f"null with {tool.name}; a tag needs the tool {able}"


def _by_redirector(value: str, tool: Tool, endpoint: str, origins: int) -> str | None:
    direct = value != "none" or tool.protocol != "https" or endpoint == "direct" or origins == 1
    return None if direct else "usual or tls, or endpoint direct: redirectors send everybody on by https"


def _endpoint(value: str, tool: Tool, origins: int) -> str | None:
    redirected = value == "direct" or origins == 1 or tool.protocol in ("https", "root")
    why = f"only XRootD has redirectors, and {tool.name} speaks {tool.protocol}"
    return None if redirected else f"direct: {why}"


def broken(rules: Sequence[Rule], study: SweepStudy) -> list[Problem]:
    """List the problems of cells that break rules, one for each combination of values."""
    problems = []
    for rule in rules:
        name, *names = rule.names
        for value, *values in _combinations(study.grid, rule.names):
            allowed = rule.allowed(value, *values)
            if allowed is not None:
                others = ", ".join(f"{n} {show_value(n, v)}" for n, v in zip(names, values, strict=True))
                given = show_value(name, value) + (f" with {others}" if others else "")
                place = _place(study.sweep, name, value)
                problems.append(Problem(place, given, allowed, study.sweep_file))
    return problems


def rounded(size: int) -> str:
    """Return a computed size for messages, rounded down to MiB if it is larger than 1 MiB."""
    return show(size - size % 2**20 if size > 2**20 else size, SIZE)


def _combinations(grid: Grid, names: tuple[str, ...]) -> list[tuple[Value, ...]]:
    """Return the distinct combinations of values of these parameters, in the order of the grid."""
    cells: Iterable[Cell] = grid.cells
    # If all names belong to deployments or all to settings, one cell of each is enough: a grid may have 10⁵ cells.
    if all(name in DEPLOYMENT for name in names):
        cells = {cell.deployment.path: cell for cell in grid.cells}.values()
    elif not any(name in DEPLOYMENT for name in names):
        cells = {cell.setting.path: cell for cell in grid.cells}.values()
    return list(dict.fromkeys(tuple(cell.value(name) for name in names) for cell in cells))


def _place(sweep: Sweep, name: str, value: Value) -> str:
    given = selected_parameters(sweep.parameters)
    if name not in given:
        return f"parameters.{name} (left out)"
    includes = {f"include[{index}]": selected_parameters(entry) for index, entry in enumerate(sweep.include)}
    for key, entry in {"parameters": given, **includes}.items():
        values = entry.get(name, ())
        if isinstance(values, tuple) and value in values:
            return f"{key}.{name}[{values.index(value)}]"
        if values == value:
            return f"{key}.{name}"
    return f"parameters.{name}"


PORTS = 28_232  # ephemeral ports of an address: net.ipv4.ip_local_port_range is 32768 to 60999


def at_most(name: str, limit: float, unit: Dimension, source: str = "") -> Rule:
    """Limit a parameter in its base unit; None is allowed. Messages end with `source`."""

    def allowed(value: float | None) -> str | None:
        return None if value is None or value <= limit else f"at most {show(limit, unit)}{source}"

    return Rule((name,), allowed)


def enough_cores(least: float, why: str) -> Rule:
    """Require a minimum of cores for each origin with a quota. Messages end with the reason `why`."""

    def allowed(cores: float | None, origins: int) -> str | None:
        fewest = round(least * origins, 6)
        if cores is None or cores >= fewest:
            return None
        return f"at least {show(fewest, CORES)}, as each origin gets an equal share, and {why}"

    return Rule(("cores", "origins"), allowed)


def allowed_values(name: str, values: Collection[object], allowed: str) -> Rule:
    """Restrict a parameter to a few values; `allowed` describes them and the reason."""
    return Rule((name,), lambda value: None if value in values else allowed)


def known_word(name: str, words: Collection[str], source: str = "") -> Rule:
    """Restrict a parameter to some words, and name the most similar one. Messages end with `source`."""
    return Rule((name,), lambda word: None if word in words else f"{suggest(word, words)}{source}")


def emulated_path_rules(smallest_rtt: float, largest_bandwidth: float) -> list[Rule]:
    """Return the rules of testbeds that emulate paths, for an RTT above 0, ms, and with an RTT or a loss, Gbit/s."""

    def rtt(value: float) -> str | None:
        if 0 < value < smallest_rtt:
            return f"0, or at least {show(smallest_rtt, RTT)}, the smallest that a path here can make"
        return None

    def bandwidth(value: float, rtt: float, loss: float) -> str | None:
        if value > largest_bandwidth and (rtt or loss):
            return (
                f"at most {show(largest_bandwidth, RATE)}, the largest with an rtt or a loss on this machine"
            )
        return None

    def queue_limit(packets: int | None, rtt: float) -> str | None:
        none_under_way = packets is not None and rtt == 0
        return "null with rtt 0 ms, where no packets are under way" if none_under_way else None

    return [
        Rule(("rtt",), rtt),
        Rule(("bandwidth", "rtt", "loss"), bandwidth),
        Rule(("queue_limit", "rtt"), queue_limit),
    ]


def server_rules() -> list[Rule]:
    """Return the rules of testbeds that run servers."""

    def tcp_streams(count: int, streams: int, origins: int) -> str | None:
        most = PORTS * origins // streams
        if count <= most:
            return None
        return f"at most {most}: each origin has {PORTS} ports for the connections of all streams"

    return [
        at_most("origins", MOST_ORIGINS, COUNT, ", as many as one redirector can have"),
        Rule(("tcp_streams", "streams", "origins"), tcp_streams),
    ]
