# SPDX-License-Identifier: Apache-2.0
"""Settings of simulated testbeds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import AnyText, Text, Word
from tpcsweep.sweeps.problems import Fault
from tpcsweep.sweeps.testbed_settings import Settings
from tpcsweep.testbeds.simulation.physics import Physics


class Simulation(Settings):
    """A model of servers and path: nothing is deployed or measured."""

    simulated: ClassVar[bool] = True
    deploy_seconds: ClassVar[float] = 3.0
    cell_seconds: ClassVar[float] = 0.1

    kind: Literal["simulation"]
    """computed model of servers and path"""
    base: AnyText | None = None
    """testbed of kind simulation with defaults for keys not given here: the name of a file in
    config/testbeds, or a path that ends in .yaml
    """
    inputs: tuple[Text, ...] = ()
    """claims that were used to choose values and are not predictions; those of the base count too"""
    assumptions: dict[Text, Text] = Field(default={})
    """claims that nearly follow from an assumption, here or in the sweeps for this testbed, each with the
    assumption; they are not predictions either, and those of the base count too
    """
    tools: tuple[Word, ...] = Field(default=("gfal-copy", "curl", "gfal2", "native"), min_length=1)
    """tools whose set-up and cost the parameters describe"""
    encryption: Literal["usual", "none"] = "usual"
    """encryption of the data that the parameters describe; none: without encryption and credentials"""
    memory: Annotated[int, units.MEMORY] = 4 * 10**12
    """memory for files of both sides together"""
    queues: Literal["origin", "path"] = "origin"
    """owner of a queue with queue_limit: each origin, or the path"""
    draws: Annotated[int, units.DRAWS] = 200
    """number of random parameter sets for intervals"""
    parameters: Physics
    """parameters of servers, set-up and path"""

    def _faults(self) -> Iterator[Fault]:
        if self.settings:
            yield ("settings",), "commands", "nothing: no host is measured"

    @property
    def identity(self) -> dict[str, str]:
        """A digest of all settings that cells are computed from; another digest makes cells stale."""
        text = self.model_dump_json(exclude={"base", "memory", "tools", "encryption", "settings"})
        return {"digest": hashlib.sha256(text.encode()).hexdigest()[:16]}
