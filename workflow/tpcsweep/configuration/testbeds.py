# SPDX-License-Identifier: Apache-2.0
"""Settings of testbeds: the files config/testbeds/*.yaml. Two kinds have modules of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from tpcsweep.configuration import units
from tpcsweep.configuration.parameters import AnyText, DeploymentParameters, Strict, Text, Value, Word
from tpcsweep.configuration.physics import Physics
from tpcsweep.configuration.problems import Fault
from tpcsweep.linux.cgroups import FEWEST_CORES, PERIOD, quota
from tpcsweep.xrootd.releases import RECOMMENDED, SYSTEM

if TYPE_CHECKING:
    from tpcsweep.configuration.sweep import Grid

DISK = "/var/lib/tpcsweep"  # default folder on a disk for files of netns testbeds

Given = Mapping[str, Value | tuple[Value, ...]]
"""The parameters that a sweep sets: single values, and tuples for axes."""
PathRule = Annotated[
    Literal["measure", "strict"],
    Field(description="if only the rate of a path is too low: measure flags its cells, strict refuses it"),
]


class Settings(Strict):
    """Common settings of all kinds of testbeds."""

    simulated: ClassVar[bool] = False
    """Whether cells are computed, many at a time, and never mixed with measured ones."""
    supports: ClassVar[str]
    """Parameters that have an effect, separated by spaces. All others must keep their default."""
    deploy_seconds: ClassVar[float]
    """Seconds to start a deployment, verify its path and tear it down, for the expected duration."""
    cell_seconds: ClassVar[float] = 1.0
    """Overhead of a cell, s."""

    @property
    def has_alternatives(self) -> bool:
        """Whether a deployment may run on different hardware."""
        return False

    @property
    def places(self) -> int:
        """Number of deployments that may run in parallel without disturbing each other."""
        return 1

    @property
    def identity(self) -> dict[str, str]:
        """The part of the testbed that a cell's specification contains in addition to its name."""
        return {}

    def conditions(self, _wanted: DeploymentParameters) -> dict[str, Value]:
        """Return unusual measuring conditions of these parameters; a change makes the cells stale.

        Usual conditions are omitted, so that cells keep their specification when a new condition is introduced.
        """
        return {}

    def defaults(self, _given: Given = MappingProxyType({})) -> dict[str, Value]:
        return {}

    def most_bytes(self, _grid: Grid) -> float | None:
        """Return the most bytes that a sweep sends over external networks, or None if it uses none."""
        return None


DEPLOYED = (
    "xrootd origins cores rtt bandwidth loss queue_limit mtu tcp_buffer congestion_control layer "
    "authorization tool copy_mode encryption endpoint tcp_streams file_size source_content streams"
)
"""Parameters that have an effect on testbeds that deploy servers."""

Folder = Annotated[AnyText, Field(pattern="^/")]  # an absolute path


class OwnRelease(Strict):
    """A release of XRootD built by the site."""

    name: Word = Field(description="its value of the parameter `xrootd`")
    path: Folder = Field(description="folder with bin/ and lib/ or lib64/, as installed by `make install`")


class Netns(Settings):
    """Network namespaces on this machine."""

    supports: ClassVar[str] = " ".join(
        [
            DEPLOYED,  # followed by parameters that pods do not support, one per line
        ]
    )
    deploy_seconds: ClassVar[float] = 6.0

    kind: Literal["netns"]
    """network namespaces on this machine"""
    cpus: Annotated[int | None, replace(units.CPUS, null="all")] = None
    """CPUs of both sides together; null: all that this process may use"""
    max_bandwidth: Annotated[float, units.EMULATED] = 5.0
    """largest bandwidth of a path on this machine"""
    max_rtt: Annotated[float, units.ROUND_TRIP] = 500.0
    """largest RTT of a path"""
    memory: Annotated[int | None, replace(units.MEMORY, null="half of what is available")] = None
    """memory for files; null: half of the available memory"""
    disk: Folder = DISK
    """folder on a disk for layers with a disk; created if it is missing"""
    releases: tuple[OwnRelease, ...] = ()
    """locally built releases of XRootD, for the parameter `xrootd`"""
    path: PathRule = "measure"

    def _faults(self) -> Iterator[Fault]:
        names = [release.name for release in self.releases]
        for index, name in enumerate(names):
            if name == SYSTEM or name[0].isdigit():  # names of XRootD's own releases
                yield ("releases", index), name, f"a name that begins with a letter and is not {SYSTEM}"
            elif name in names[:index]:
                yield ("releases", index), f"{name} again", "each name once"

    @property
    def own_releases(self) -> dict[str, FilePath]:
        return {release.name: FilePath(release.path) for release in self.releases}

    @property
    def identity(self) -> dict[str, str]:
        """The client's side."""
        return {"client": "source"}

    def conditions(self, wanted: DeploymentParameters) -> dict[str, Value]:
        """Return the scheduling period of small CPU quotas, in µs; larger quotas have the default period."""
        if wanted.cores is None:
            return {}
        # A quota below FEWEST_CORES is refused before measuring, but its cells may still be listed.
        period = quota(max(wanted.cores / wanted.origins, FEWEST_CORES)).period
        return {} if period == PERIOD else {"cpu_period": period}

    def defaults(self, _given: Given = MappingProxyType({})) -> dict[str, Value]:
        """Return the recommended XRootD release, because the system's may crash."""
        return {"xrootd": RECOMMENDED}


class Simulation(Settings):
    """A model of servers and path: nothing is deployed or measured."""

    simulated: ClassVar[bool] = True
    supports: ClassVar[str] = (
        "origins cores rtt bandwidth queue_limit mtu tcp_buffer layer authorization tool copy_mode "
        "encryption endpoint file_size source_content streams"
    )
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

    @property
    def identity(self) -> dict[str, str]:
        """A digest of all settings that cells are computed from; another digest makes cells stale."""
        text = self.model_dump_json(exclude={"base", "memory", "tools", "encryption"})
        return {"digest": hashlib.sha256(text.encode()).hexdigest()[:16]}
