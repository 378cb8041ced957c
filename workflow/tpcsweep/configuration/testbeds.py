# SPDX-License-Identifier: Apache-2.0
"""The settings of testbeds: what config/testbeds/*.yaml may say. Those of kind kubernetes are in `kubernetes`."""

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

DISK = "/var/lib/tpcsweep"
"""Where the netns testbed has files on a disk, unless its file says otherwise."""

Given = Mapping[str, Value | tuple[Value, ...]]
"""The parameters that a sweep sets: values, and tuples for axes."""
PathRule = Annotated[
    Literal["measure", "strict"],
    Field(
        description="a path whose rate alone is below what was asked is measured on and its cells are flagged "
        "(measure), or it is refused (strict)"
    ),
]

# fmt: off
ClaimName = Literal[
    "chep2023.saturate", "chep2023.little_fluctuation", "chep2023.streams_required", "chep2023.streams_peak",
    "chep2023.origins_help", "chep2023.rtt_fivefold", "chep2023.rtt_not_linear", "chep2023.rtt120_cap",
    "chep2023.streams_stop_helping", "chep2023.terabit", "chep2023.redirector_free", "chep2023.gfal_vs_curl",
    "chep2023.tc_residue",
    "chep2024.small_rtt_peak", "chep2024.one_origin", "chep2024.two_origins", "chep2024.four_origins",
    "chep2024.near_limit", "chep2024.server_cap", "chep2024.instance_cores", "chep2024.origins_help",
    "chep2024.saturated_flat", "chep2024.short_rtt_cores", "chep2024.rtts_distinct", "chep2024.tc_trend",
    "chep2024.short_rtt_contradiction",
    "nrp2021.xrootd_vs_gridftp",
    "usatlas2007.more_streams", "usatlas2007.tuned_buffers", "usatlas2007.disk_bound",
    "usatlas2007.disk_buffers", "usatlas2007.twelve_streams", "usatlas2007.tuned_stream",
    "usatlas2007.bottleneck_buffers", "usatlas2007.one_rate",
    "cambridge.scales", "cambridge.two_sources", "cambridge.slow_starts", "cambridge.straggler",
    "cambridge.retransmits",
    "terena2005.loss", "terena2005.recovery", "terena2005.mtu_fairness", "terena2005.variants",
    "terena2005.disk", "terena2005.climb", "terena2005.records",
]
# fmt: on
"""The identifiers of all published claims, `publication.claim`; `claims` has the claims themselves."""


class Settings(Strict):
    """The settings of a testbed, of any kind."""

    simulated: ClassVar[bool] = False
    """Whether cells are computed: at once, side by side, and never to be mixed with measured ones."""
    supports: ClassVar[str]
    """Names of the parameters that have an effect, with spaces. The others must have their default."""
    deploy_seconds: ClassVar[float]
    """Time to start a deployment, verify its path and tear it down, for the expected duration."""
    cell_seconds: ClassVar[float] = 1.0
    """Time that a cell needs beside its measuring."""

    @property
    def has_alternatives(self) -> bool:
        """Whether some deployments may be measured on one hardware or another."""
        return False

    @property
    def places(self) -> int:
        """The number of deployments that may run side by side without disturbing each other."""
        return 1

    @property
    def identity(self) -> dict[str, str]:
        """The part of the testbed, beside its name, that a cell's specification contains."""
        return {}

    def conditions(self, _wanted: DeploymentParameters) -> dict[str, Value]:
        """Return unusual conditions under which cells with these parameters are measured; a change makes them stale.

        Usual conditions are not named, so that cells keep their specification when a condition is introduced.
        """
        return {}

    def defaults(self, _given: Given = MappingProxyType({})) -> dict[str, Value]:
        return {}

    def most_bytes(self, _grid: Grid) -> float | None:
        """Return the most bytes that a sweep moves over other people's networks; None: it moves none."""
        return None


DEPLOYED = (
    "xrootd origins cores rtt bandwidth loss queue_limit mtu tcp_buffer congestion_control layer "
    "authorization tool copy_mode encryption endpoint tcp_streams file_size source_content streams"
)
"""The parameters that have an effect where servers are deployed."""

Folder = Annotated[AnyText, Field(pattern="^/")]
"""An absolute path."""


class OwnRelease(Strict):
    """A release of XRootD that a site has built itself."""

    name: Word = Field(description="what the parameter `xrootd` calls it")
    path: Folder = Field(description="folder with its bin/ and lib/ or lib64/, as `make install` leaves it")


class Netns(Settings):
    """Network namespaces on this machine."""

    supports: ClassVar[str] = " ".join(
        [
            DEPLOYED,  # and, a line each, the parameters that pods do not support
        ]
    )
    deploy_seconds: ClassVar[float] = 6.0

    kind: Literal["netns"]
    """network namespaces on this machine"""
    cpus: Annotated[int | None, replace(units.CPUS, null="all")] = None
    """CPUs that both sides together may be given; null: all that this process may use"""
    max_bandwidth: Annotated[float, units.EMULATED] = 5.0
    """bandwidth that a path can carry on this machine"""
    max_rtt: Annotated[float, units.ROUND_TRIP] = 500.0
    """largest RTT that a path can make"""
    memory: Annotated[int | None, replace(units.MEMORY, null="half of what is available")] = None
    """memory for files; null: half of what is available"""
    disk: Folder = DISK
    """folder on a disk for the files of layers that have one; made where it is missing"""
    releases: tuple[OwnRelease, ...] = ()
    """releases of XRootD that were built here, for the parameter `xrootd`"""
    path: PathRule = "measure"

    def _faults(self) -> Iterator[Fault]:
        names = [release.name for release in self.releases]
        for index, name in enumerate(names):
            if name == SYSTEM or name[0].isdigit():  # as XRootD's own releases are named
                yield ("releases", index), name, f"a name that begins with a letter and is not {SYSTEM}"
            elif name in names[:index]:
                yield ("releases", index), f"{name} again", "each name once"

    @property
    def own_releases(self) -> dict[str, FilePath]:
        return {release.name: FilePath(release.path) for release in self.releases}

    @property
    def identity(self) -> dict[str, str]:
        """Give the client's side. Cells without it are older: their client had a leg in both sides' networks."""
        return {"client": "source"}

    def conditions(self, wanted: DeploymentParameters) -> dict[str, Value]:
        """Give the scheduling period of small CPU quotas, in µs; all others have the usual one."""
        if wanted.cores is None:
            return {}
        # Fewer cores are refused before they are measured; what is there may be looked at.
        period = quota(max(wanted.cores / wanted.origins, FEWEST_CORES)).period
        return {} if period == PERIOD else {"cpu_period": period}

    def defaults(self, _given: Given = MappingProxyType({})) -> dict[str, Value]:
        """Give the release that sweeps have that name none: not the system's, which may crash."""
        return {"xrootd": RECOMMENDED}


class Simulation(Settings):
    """A model of servers and path, computed: nothing is deployed and nothing is measured."""

    simulated: ClassVar[bool] = True
    supports: ClassVar[str] = (
        "origins cores rtt bandwidth queue_limit mtu tcp_buffer layer authorization tool copy_mode "
        "encryption endpoint file_size source_content streams"
    )
    deploy_seconds: ClassVar[float] = 3.0
    cell_seconds: ClassVar[float] = 0.1

    kind: Literal["simulation"]
    """a model of servers and path, computed"""
    base: AnyText | None = None
    """testbed of this kind that has what is not given here: a file in config/testbeds, or a path that
    ends in .yaml"""
    inputs: tuple[ClaimName, ...] = ()
    """claims that values were chosen by: no predictions; those of the base count too"""
    assumptions: dict[ClaimName, Text] = Field(default={})
    """claims that follow nearly by hand from something that was assumed, here or in the sweeps made
    for this testbed, each with what it is: no predictions either; those of the base count too"""
    tools: tuple[Word, ...] = Field(default=("gfal-copy", "curl", "gfal2", "native"), min_length=1)
    """tools whose set-up and cost the parameters are those of"""
    encryption: Literal["usual", "none"] = "usual"
    """how the data go that the parameters are of; none: in the clear, and nobody shows credentials"""
    memory: Annotated[int, units.MEMORY] = 4 * 10**12
    """memory for files, of both sides together"""
    queues: Literal["origin", "path"] = "origin"
    """what has a queue with queue_limit of its own: each origin, or the path"""
    draws: Annotated[int, units.DRAWS] = 200
    """random parameter sets behind each interval"""
    parameters: Physics
    """what servers, set-up and path are like"""

    @property
    def identity(self) -> dict[str, str]:
        """What stands for everything that cells are computed from: another one makes them stale."""
        text = self.model_dump_json(exclude={"base", "memory", "tools", "encryption"})
        return {"digest": hashlib.sha256(text.encode()).hexdigest()[:16]}
