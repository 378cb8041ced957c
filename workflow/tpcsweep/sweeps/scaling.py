# SPDX-License-Identifier: Apache-2.0
"""Scale a published sweep to a smaller machine by one factor. Pure.

Bandwidths, cores, file sizes and TCP buffers are multiplied by the factor. Transfer times and the shares of path and
window then match the published set-up. RTTs, streams and origins do not change.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tpcsweep.common.numbers import plain
from tpcsweep.sweeps.parameters import Value, selected_parameters, show_value
from tpcsweep.sweeps.problems import Problem, raise_any, refused
from tpcsweep.sweeps.sweep import Sweep

RATES = ("bandwidth", "cores")
SIZES = ("file_size", "tcp_buffer")

SMALLEST = {"file_size": 2**20, "tcp_buffer": 2**16}
"""Bytes below which a measurement would show only set-up or a few packets."""
FEWEST_PACKETS = 100  # packets below which a queue drops packets of every burst, at any RTT
FEWEST_CORES = 0.1
"""Cores below which an origin's quota has a longer period (`deploying.linux.cgroups`), with longer stops."""
MOST_STREAMS = 64  # limit on testbeds of kind netns, where each stream is a process on the measuring machine
FEWEST_STREAMS = 3  # the fewest values of streams that show the shape of a curve
ON_SITE = 1.0  # limit in ms of RTTs that the published hosts had by themselves; the scaled sweep adds none


def scaled(sweep: Sweep, scale: str, kind: str) -> Sweep:
    """Scale a sweep for a kind of testbed; `scale` of the new sweep records the factor and its notes.

    Raises ConfigurationError for values that cannot be scaled by this factor, with the reason.
    """
    by = Fraction(scale)
    parameters = selected_parameters(sweep.parameters)
    values = {name: [*value] if isinstance(value, tuple) else [value] for name, value in parameters.items()}
    raise_any([*_unscalable(sweep, values), *_too_small(values, by)])
    notes: list[str] = []
    for name in values.keys() & {*RATES, *SIZES}:
        values[name] = [_times(value, by, whole=name in SIZES) for value in values[name]]
    if by < 1:
        _queue(values, by, notes)
        if kind == "netns":
            _streams(values, notes)
        _on_site(values, notes)
    # Validation turned lists into tuples, which makes pydantic warn.
    content = sweep.model_dump(mode="json", exclude_unset=True, warnings=False)
    content["parameters"] = {
        name: several if isinstance(parameters[name], tuple) else several[0]
        for name, several in values.items()
        if several
    }
    if by < 1 and (starved := _starved(values)):
        content["exclude"] = [*content.get("exclude", []), *starved]
        notes.append(f"no origin with less than {plain(FEWEST_CORES)} cores")
    content["scale"] = {"by": scale, "notes": notes}
    return Sweep.model_validate(content, context={"settings": None})


def _unscalable(sweep: Sweep, values: dict[str, list[Value]]) -> Iterator[Problem]:
    if not values.get("bandwidth"):
        yield Problem("parameters.bandwidth", "nothing", "a bandwidth: scaling changes it")
    for name in RATES:
        if None in values.get(name, []):
            yield Problem(f"parameters.{name}", "null", "numbers: null (no limit) cannot be scaled")
    for key, entries in (("exclude", sweep.exclude), ("include", sweep.include)):
        for place, entry in enumerate(entries):
            for name in sorted(set(selected_parameters(entry)) & {*RATES, *SIZES, "streams", "queue_limit"}):
                allowed = f"nothing: scaling changes the values of {name}"
                yield Problem(f"{key}[{place}].{name}", "values", allowed)


def _too_small(values: dict[str, list[Value]], by: Fraction) -> Iterator[Problem]:
    for name, least in SMALLEST.items():
        for value in values.get(name, []):
            assert isinstance(value, int)
            if by < 1 and value * by < least:
                most = max(1, value // least)
                allowed = f"{show_value(name, least)} or more, so a scale of at least 1/{most}"
                text = f"{show_value(name, value)} × {by} = {show_value(name, int(value * by))}"
                yield Problem(f"parameters.{name}", text, allowed)


def _queue(values: dict[str, list[Value]], by: Fraction, notes: list[str]) -> None:
    limits = values.get("queue_limit", [])
    if small := [limit for limit in limits if isinstance(limit, int) and limit * by < FEWEST_PACKETS]:
        listed = ", ".join(map(str, small))
        notes.append(f"without queue_limit {listed}, of which × {by} leaves too few packets for any burst")
        values["queue_limit"] = []
        return
    values["queue_limit"] = [None if limit is None else _times(limit, by, whole=True) for limit in limits]


def _streams(values: dict[str, list[Value]], notes: list[str]) -> None:
    streams = values.get("streams", [1])
    kept = [count for count in streams if isinstance(count, int) and count <= MOST_STREAMS]
    if len(kept) < len(streams):
        if len(kept) < FEWEST_STREAMS:
            listed = ", ".join(map(str, streams))
            allowed = (
                f"{FEWEST_STREAMS} values or more of at most {MOST_STREAMS}: each stream is a process on this "
                "machine, and scaling leaves streams as they are"
            )
            raise refused("parameters.streams", listed, allowed)
        notes.append(f"streams up to {kept[-1]} of {streams[-1]}")
        values["streams"] = [*kept]


def _on_site(values: dict[str, list[Value]], notes: list[str]) -> None:
    rtts = values.get("rtt", [])
    on_site = [rtt for rtt in rtts if isinstance(rtt, float) and 0 < rtt < ON_SITE]
    if len(on_site) == 1 and 0.0 not in rtts:
        values["rtt"] = [0.0 if rtt in on_site else rtt for rtt in rtts]
        notes.append(f"RTT 0 added for {plain(on_site[0])} ms")


def _starved(values: dict[str, list[Value]]) -> list[dict[str, Any]]:
    cores, origins = values.get("cores", []), values.get("origins", [1])
    starved: list[dict[str, Any]] = []
    for count in origins:
        assert isinstance(count, int)
        if few := [value for value in cores if isinstance(value, float) and value / count < FEWEST_CORES]:
            starved.append({"origins": count, "cores": few})
    if starved and sum(len(entry["cores"]) for entry in starved) == len(cores) * len(origins):
        least = f"{plain(FEWEST_CORES)} cores for each origin"
        allowed = f"{least}: with less, quotas are spent in a few milliseconds and throughput means little"
        text = ", ".join(show_value("cores", value) for value in cores)
        raise refused("parameters.cores", text, allowed)
    return starved


def _times(value: Value, by: Fraction, *, whole: bool) -> Value:
    assert isinstance(value, int | float)
    product = Fraction(repr(value)) * by
    return max(1, round(product)) if whole else float(product)
