# SPDX-License-Identifier: Apache-2.0
"""Parameters of the simulated testbed, each with a unit, a value, a range and a source."""

from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from tpcsweep.common.numbers import plain
from tpcsweep.sweeps.parameters import AnyText, Strict, Text
from tpcsweep.sweeps.problems import fault
from tpcsweep.sweeps.units import NUMBER, Quantity

_LEAST = 1e-6  # lower bound of positive values in every unit; smaller values are meaningless
_MOST = {"Gbit/s": 1e5, "s": 3600.0, "ms": 2000.0, "1": 1e4, "cores": 1e5, "B": 65536.0, "MB": 1e6}
"""Upper bounds by unit: a hundred times the fastest interfaces, an hour, the longest path, and so on."""
_VALUE = Quantity(NUMBER, at_least=0, at_most=max(_MOST.values()), why="what any unit allows")


class Estimate(Strict):
    """The value of a parameter with its range and source."""

    value: Annotated[float | None, replace(_VALUE, null="no such bound")]
    """simulated value; null: no limit, or the parameter's meaning of null"""
    low: Annotated[float | None, replace(_VALUE, null="the value")] = None
    """smallest plausible value; default: the value"""
    high: Annotated[float | None, replace(_VALUE, null="the value")] = None
    """largest plausible value; default: the value"""
    unit: AnyText
    """unit of value, low and high"""
    source: Text
    """source of the numbers: published hardware data, a measurement, or an assumption"""

    @property
    def range(self) -> tuple[float | None, float | None]:
        """The smallest and largest plausible value; each defaults to the value."""
        low = self.value if self.low is None else self.low
        return low, self.value if self.high is None else self.high


def _check(
    unit: str, estimate: Estimate, /, *, null: bool = False, positive: bool = False, share: bool = False
) -> Estimate:
    """Refuse a wrong unit, a range that excludes the value, and meaningless values."""
    value, (low, high) = estimate.value, estimate.range
    if estimate.unit != unit:
        raise fault(repr(unit), f"unit {estimate.unit!r}")
    if value is None or low is None or high is None:
        if not null:
            raise fault(f"a number of {unit}", "null")
        if (value, estimate.low, estimate.high) != (None, None, None):
            raise fault("null, or a number in a range", "null with a range")
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
    """Parameters of simulated servers, file set-up and path. docs/simulation.md has the formulas."""

    # Append new fields: random sets are drawn in this order, and must not change for existing fields. Files with a base
    # omit fields; missing ones are detected after the merge.
    model_config = ConfigDict(json_schema_extra=lambda schema: schema.pop("required"))

    setup_time: _Time = Field(description="wall time of a transfer before data flow, without round trips")
    setup_rtts: _Number = Field(description="round trips of a transfer before its first byte")
    setup_cpu: _Time = Field(description="CPU time of each side for a transfer of any size")
    redirector_time: _Time = Field(description="time that a redirector adds to setup_time")
    redirector_rtts: _Number = Field(description="round trips that a redirector adds to setup_rtts")
    initial_window: _Positive = Field(description="segments in the initial window of a connection")
    window_share: _Share = Field(description="share of tcp_buffer that the window finally reaches")
    core_rate_source: _Rate
    """rate at which a core sends while data in flight fit into the cache"""
    core_rate_destination: _Rate
    """rate at which a core receives while data in flight fit into the cache"""
    instance_cores: _Cores = Field(description="cores that one XRootD instance can use")
    host_cores: _Cores = Field(description="cores of a server for all its origins")
    contention: _Number = Field(description="share of CPU lost for each runnable stream above one per core")
    spill: _Number = Field(description="relative extra cost of a byte when all data leave the cache")
    cache: Annotated[Estimate, _in("MB", positive=True)] = Field(description="last-level cache of a server")
    server_rate: _Ceiling
    """throughput limit of a server with any number of cores; null: none"""
    nic_rate: _Ceiling = Field(description="interface rate of each origin; null: limited by the path only")
    framing: _Bytes = Field(description="bytes on the path per packet in addition to the MTU")
    saturation: _Share = Field(description="share of the path's bandwidth that congestion control can use")
    queue_use: _Share = Field(description="share of a queue limit that streams use")
    queue_delay: _Share = Field(description="share of the RTT that packets spend in one queue")
    queue_segments: _Positive
    """minimum number of segments that a queue limit counts as one packet"""
    base_rtt: Annotated[Estimate, _in("ms", positive=True)] = Field(description="smallest RTT of a path")
    disk_read_rate: _Ceiling
    """read rate of a server's disk for all streams; null: no disk"""
    disk_write_rate: _Ceiling
    """write rate of a server's disk for all streams; null: no disk"""
    queue_pacing: _Number
    """ratio of TCP's pacing rate to a stream's rate, which makes packets grow; 0: constant size"""


UNITS = {name: field.metadata[0].func.args[0] for name, field in Physics.model_fields.items()}
"""The unit of each parameter."""
