# SPDX-License-Identifier: Apache-2.0
"""The parameters of the simulated testbed: each with its unit, a value, the range that it may have, and its source."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from tpcsweep.configuration.parameters import AnyText, Strict, Text
from tpcsweep.configuration.problems import fault
from tpcsweep.configuration.units import NUMBER, Quantity
from tpcsweep.numbers import plain

_LEAST = 1e-6
"""Below this nothing that must be above 0 means anything, in any of the units."""
_MOST = {"Gbit/s": 1e5, "s": 3600.0, "ms": 2000.0, "1": 1e4, "cores": 1e5, "B": 65536.0, "MB": 1e6}
"""The most that is of any sense, by unit: a hundred of the fastest interfaces, an hour, the longest path, …"""
_VALUE = Quantity(NUMBER, at_least=0, at_most=max(_MOST.values()), why="what any unit allows")


class Estimate(Strict):
    """What is known of a parameter."""

    value: Annotated[float | None, replace(_VALUE, null="no such bound")]
    """what is simulated; null: no such bound, or what the parameter says"""
    low: Annotated[float | None, replace(_VALUE, null="the value")] = None
    """the least that it may be; left out: the value"""
    high: Annotated[float | None, replace(_VALUE, null="the value")] = None
    """the most that it may be; left out: the value"""
    unit: AnyText
    """unit of value, low and high"""
    source: Text
    """where it comes from: published hardware, a measurement, or an assumption"""

    @property
    def range(self) -> tuple[float | None, float | None]:
        """From where to where it may be; both ends are the value where nothing else is said."""
        low = self.value if self.low is None else self.low
        return low, self.value if self.high is None else self.high


def _check(
    unit: str, estimate: Estimate, /, *, null: bool = False, positive: bool = False, share: bool = False
) -> Estimate:
    """Refuse another unit, a range that does not hold the value, and values that mean nothing."""
    value, (low, high) = estimate.value, estimate.range
    if estimate.unit != unit:
        raise fault(repr(unit), f"unit {estimate.unit!r}")
    if value is None or low is None or high is None:
        if not null:
            raise fault(f"a number of {unit}", "null")
        if (value, estimate.low, estimate.high) != (None, None, None):
            raise fault("null alone, or a number in a range", "null with a range")
        return estimate
    given = f"{plain(low)} to {plain(high)}"
    if not low <= value <= high:
        raise fault("low ≤ value ≤ high", f"{plain(value)} in a range from {given}")
    least, most = _LEAST if positive else 0.0, 1.0 if share else _MOST[unit]
    if low < least or high > most:
        raise fault(f"at least {plain(least)} and at most {plain(most)}", given)
    return estimate


def _in(unit: str, **bounds: bool) -> AfterValidator:
    return AfterValidator(partial(_check, unit, **bounds))


_Rate = Annotated[Estimate, _in("Gbit/s", positive=True)]
_Ceiling = Annotated[Estimate, _in("Gbit/s", positive=True, null=True)]
_Time = Annotated[Estimate, _in("s")]
_Number = Annotated[Estimate, _in("1")]
_Positive = Annotated[Estimate, _in("1", positive=True)]
_Share = Annotated[Estimate, _in("1", positive=True, share=True)]
_Cores = Annotated[Estimate, _in("cores", positive=True)]
_Bytes = Annotated[Estimate, _in("B")]


class Physics(Strict):
    """What the simulated servers, files' set-up and path are like. docs/simulation.md has the formulas."""

    # A new one comes last: random sets are drawn in this order, and those of the others stay as they were.
    # A file with a base gives some of them: which are missing is told once both are read together.
    model_config = ConfigDict(json_schema_extra=lambda schema: schema.pop("required"))

    setup_time: _Time = Field(
        description="wall time of a transfer in which no byte moves, without round trips"
    )
    setup_rtts: _Number = Field(description="round trips of a transfer before its first byte")
    setup_cpu: _Time = Field(description="CPU time of each side for a transfer, whatever its size")
    redirector_time: _Time = Field(description="what a redirector adds to setup_time")
    redirector_rtts: _Number = Field(description="what a redirector adds to setup_rtts")
    initial_window: _Positive = Field(description="segments that a connection begins with")
    window_share: _Share = Field(description="share of tcp_buffer that is a window in the end")
    core_rate_source: _Rate = Field(description="what a core sends while data under way fit into the cache")
    core_rate_destination: _Rate = Field(description="the same for receiving")
    instance_cores: _Cores = Field(description="cores that one XRootD instance can use")
    host_cores: _Cores = Field(description="cores of a server, all its origins together")
    contention: _Number = Field(description="CPU lost for each runnable stream above one a core")
    spill: _Number = Field(description="by how much a byte costs more when all of it leaves the cache")
    cache: Annotated[Estimate, _in("MB", positive=True)] = Field(description="last-level cache of a server")
    server_rate: _Ceiling = Field(description="ceiling of a server whatever its cores; null: none")
    nic_rate: _Ceiling = Field(description="interface of each origin; null: the path's alone")
    framing: _Bytes = Field(description="bytes on the path for each packet beyond the MTU")
    saturation: _Share = Field(description="share of a full path that congestion control fills")
    queue_use: _Share = Field(description="share of what a queue limit lets through that is used")
    queue_delay: _Share = Field(description="share of the RTT that packets spend in one queue")
    queue_segments: _Positive = Field(
        description="fewest segments in what a queue limit counts as one packet"
    )
    base_rtt: Annotated[Estimate, _in("ms", positive=True)] = Field(description="least RTT of a path")
    disk_read_rate: _Ceiling = Field(
        description="what a server's disk reads, all its streams together; null: there is none"
    )
    disk_write_rate: _Ceiling = Field(description="the same for writing")
    queue_pacing: _Number = Field(
        description="rate at which TCP paces a stream over its own, by which packets grow; 0: they do not"
    )


UNITS = {name: field.metadata[0].func.args[0] for name, field in Physics.model_fields.items()}
"""The unit of each parameter."""
