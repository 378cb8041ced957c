"""A published sweep scaled to a smaller machine: one factor for every rate. Pure.

Bandwidth and cores are multiplied by the factor, and so are file sizes and TCP buffers: then a transfer, its share of
the path and its window take the same times, and fill the same shares, as in the published set-up. RTTs, streams and
origins are as published.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tpcsweep.configuration.parameters import Value, chosen, show_value
from tpcsweep.configuration.problems import ConfigurationError, Problem
from tpcsweep.configuration.sweep import Scale, Sweep

RATES = ("bandwidth", "cores")
SIZES = ("file_size", "tcp_buffer")

SMALLEST = {"file_size": 2**20, "tcp_buffer": 2**16}
"""Bytes below which set-up, or a handful of packets, is all that would be measured."""
FEWEST_PACKETS = 100
"""Packets below which a queue loses those of every burst, whatever the RTT."""
FEWEST_CORES = 0.1
"""Of an origin: with 0.025 to 0.05 its throughput was measured to vary by a factor of three with the streams, as its
quota is spent within a few milliseconds of each period of the scheduler."""
MOST_STREAMS = 64
"""On testbeds of kind netns, where each is a process of its own on the machine that measures."""
FEWEST_STREAMS = 3
"""Values of streams below which what is left of a curve shows nothing of its shape."""
ON_SITE = 1.0
"""RTT in ms below which it is that of the published hosts, without an emulator: none is added to the machine's own."""


def scaled(sweep: Sweep, scale: str, kind: str) -> Sweep:
    """Scale a sweep for a testbed of a kind; its `scale` says how, and what it has otherwise than by the factor.

    Raises:
        ConfigurationError: for what cannot be scaled by so much, with why.
    """
    by = Scale(by=scale).factor
    given = {name: _listed(value) for name, value in chosen(sweep.parameters).items()}
    problems = [*_unscalable(sweep, given), *_too_small(given, by)]
    if problems:
        raise ConfigurationError(problems)
    axes = {name for name, value in chosen(sweep.parameters).items() if isinstance(value, tuple)}
    notes: list[str] = []
    for name in (name for name in (*RATES, *SIZES) if name in given):
        given[name] = [_times(value, by, whole=name in SIZES) for value in given[name]]
    if by < 1:
        _queue(given, by, notes)
        if kind == "netns":
            _streams(given, notes)
        _on_site(given, notes)
    content = _content(sweep)
    content["parameters"] = {
        name: values if name in axes else values[0] for name, values in given.items() if values
    }
    starved = _starved(given) if by < 1 else []
    if starved:
        content["exclude"] = [*content.get("exclude", []), *starved]
        notes.append(f"no origin with less than {FEWEST_CORES:g} cores")
    content["scale"] = {"by": scale, "notes": notes}
    return Sweep.model_validate(content)


def written(sweep: Sweep) -> dict[str, Any]:
    """What a sweep's file says, in base units."""
    content = _content(sweep)
    parameters = chosen(sweep.parameters)
    content["parameters"] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in parameters.items()
    }
    return content


def _unscalable(sweep: Sweep, given: dict[str, list[Value]]) -> list[Problem]:
    problems = []
    for name in RATES:
        values = given.get(name, [])
        if name == "bandwidth" and not values:
            problems.append(Problem("parameters.bandwidth", "nothing", "a bandwidth: it is what is scaled"))
        if None in values:
            problems.append(Problem(f"parameters.{name}", "null", "numbers: what has no limit has no scale"))
    for key, entries in (("exclude", sweep.exclude), ("include", sweep.include)):
        for place, entry in enumerate(entries):
            for name in sorted(set(chosen(entry)) & {*RATES, *SIZES, "streams", "queue_limit"}):
                allowed = f"none in a sweep that is scaled: its values of {name} become others"
                problems.append(Problem(f"{key}[{place}].{name}", "values", allowed))
    return problems


def _too_small(given: dict[str, list[Value]], by: Fraction) -> list[Problem]:
    problems = []
    for name, least in SMALLEST.items():
        for value in given.get(name, []):
            assert isinstance(value, int)
            if by < 1 and value * by < least:
                allowed = (
                    f"{show_value(name, least)} or more, so a scale of at least 1/{max(1, value // least)}"
                )
                text = f"{show_value(name, value)} × {by} = {show_value(name, int(value * by))}"
                problems.append(Problem(f"parameters.{name}", text, allowed))
    return problems


def _queue(given: dict[str, list[Value]], by: Fraction, notes: list[str]) -> None:
    """A queue's limit is scaled where enough packets are left, else left out."""
    limits = given.get("queue_limit", [])
    if all(limit is None for limit in limits):
        return
    small = [limit for limit in limits if isinstance(limit, int) and limit * by < FEWEST_PACKETS]
    if small:
        listed = ", ".join(map(str, small))
        notes.append(f"without queue_limit {listed}, of which × {by} leaves too few packets for any burst")
        given["queue_limit"] = []
        return
    given["queue_limit"] = [None if limit is None else _times(limit, by, whole=True) for limit in limits]


def _streams(given: dict[str, list[Value]], notes: list[str]) -> None:
    streams = given.get("streams", [1])
    kept = [count for count in streams if isinstance(count, int) and count <= MOST_STREAMS]
    if len(kept) < len(streams):
        if len(kept) < FEWEST_STREAMS:
            listed = ", ".join(map(str, streams))
            allowed = (
                f"{FEWEST_STREAMS} values or more of at most {MOST_STREAMS}: each stream is a process on this "
                "machine, and scaling leaves streams as they are"
            )
            raise ConfigurationError([Problem("parameters.streams", listed, allowed)])
        notes.append(f"streams up to {kept[-1]} of {streams[-1]}")
        given["streams"] = [*kept]


def _on_site(given: dict[str, list[Value]], notes: list[str]) -> None:
    rtts = given.get("rtt", [])
    near = [rtt for rtt in rtts if isinstance(rtt, float) and 0 < rtt < ON_SITE]
    if near and 0.0 not in rtts and len(near) == 1:
        given["rtt"] = [0.0 if rtt in near else rtt for rtt in rtts]
        notes.append(f"RTT 0 added for {near[0]:g} ms")


def _starved(given: dict[str, list[Value]]) -> list[dict[str, Any]]:
    """What leaves out the cells whose origins have too little CPU."""
    cores, origins = given.get("cores", []), given.get("origins", [1])
    found: list[dict[str, Any]] = []
    for count in origins:
        assert isinstance(count, int)
        few = [value for value in cores if isinstance(value, float) and value / count < FEWEST_CORES]
        if few:
            found.append({"origins": count, "cores": few})
    if found and sum(len(one["cores"]) for one in found) == len(cores) * len(origins):
        least = f"{FEWEST_CORES:g} cores for each origin"
        allowed = f"{least}: with less, quotas are spent in a few milliseconds and throughput means little"
        text = ", ".join(show_value("cores", value) for value in cores)
        raise ConfigurationError([Problem("parameters.cores", text, allowed)])
    return found


def _times(value: Value, by: Fraction, *, whole: bool) -> Value:
    assert isinstance(value, int | float)
    found = Fraction(repr(value)) * by
    return max(1, round(found)) if whole else float(found)


def _listed(value: Value | tuple[Value, ...]) -> list[Value]:
    return list(value) if isinstance(value, tuple) else [value]


def _content(sweep: Sweep) -> dict[str, Any]:
    """Everything of a sweep but its parameters, as it was given."""
    content = sweep.model_dump(mode="json", exclude_unset=True, exclude={"parameters", "exclude", "include"})
    for key, entries in (("exclude", sweep.exclude), ("include", sweep.include)):
        if entries:
            content[key] = [
                {name: list(v) if isinstance(v, tuple) else v for name, v in chosen(entry).items()}
                for entry in entries
            ]
    return content
