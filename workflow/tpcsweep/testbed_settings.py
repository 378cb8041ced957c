"""The settings of each kind of testbed: what config/testbeds/*.yaml may say."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tpcsweep.parameters import Strict
from tpcsweep.units import COUNT, RATE, RTT, SIZE, Quantity


class Netns(Strict):
    """Network namespaces on this machine."""

    deploy_seconds: ClassVar[float] = 6.0
    """Time to bring a deployment up, verify its path and tear it down, for the expected duration."""
    cell_seconds: ClassVar[float] = 1.0
    """Time that a cell takes beside its measuring."""

    kind: Literal["netns"] = Field(description="network namespaces on this machine")
    cpus: Annotated[int | None, Quantity(COUNT, at_least=1, null="all")] = Field(
        default=None,
        description="CPUs that both sides together may be given; null: all that this process may use",
    )
    max_bandwidth: Annotated[float, Quantity(RATE, above=0)] = Field(
        default=5.0, description="bandwidth that a path can carry on this machine"
    )
    max_rtt: Annotated[float, Quantity(RTT, above=0)] = Field(
        default=500.0, description="largest RTT that a path can make"
    )
    memory: Annotated[int | None, Quantity(SIZE, at_least=1, null="half of what is available")] = Field(
        default=None, description="memory for files; null: half of what is available"
    )


Testbed = Netns
"""Any testbed's settings; a union once there is a second kind."""

KINDS: dict[str, type[Testbed]] = {"netns": Netns}
"""The kinds of testbeds, by the name that `kind` gives them."""
