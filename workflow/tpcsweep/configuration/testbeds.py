# SPDX-License-Identifier: Apache-2.0
"""The settings of each kind of testbed: what config/testbeds/*.yaml may say."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from tpcsweep.configuration import bounds
from tpcsweep.configuration.claim_names import ClaimName
from tpcsweep.configuration.kubernetes import Kubernetes
from tpcsweep.configuration.parameters import AnyText, DeploymentParameters, Strict, Text, Value, Word
from tpcsweep.configuration.physics import Physics
from tpcsweep.configuration.problems import Fault, fault, refuse
from tpcsweep.configuration.settings import Given, PathRule, Settings
from tpcsweep.linux.cgroups import FEWEST_CORES, PERIOD, quota
from tpcsweep.xrootd.releases import RECOMMENDED, SYSTEM

DISK = "/var/lib/tpcsweep"
"""Where the netns testbed has files on a disk, unless its file says otherwise."""


def _folder(text: str) -> str:
    if len(text.encode()) > 1000 or any(len(name.encode()) > 255 for name in text.split("/")):
        raise fault("a path of at most 1000 bytes, with names of at most 255, as Linux has them")
    return text


Folder = Annotated[AnyText, Field(pattern="^/"), AfterValidator(_folder)]
"""An absolute path."""


def _release_faults(names: list[str]) -> Iterator[Fault]:
    """Give names of releases that are taken, by another or by what the names of XRootD's own releases look like."""
    taken: set[str] = set()
    for index, name in enumerate(names):
        if name == SYSTEM or name[0].isdigit():
            yield ("releases", index), name, f"a name that begins with a letter and is not {SYSTEM}"
        elif name in taken:
            yield ("releases", index), f"{name} again", "each name once"
        taken.add(name)


class OwnRelease(Strict):
    """A release of XRootD that a site has built itself."""

    name: Word = Field(description="what the parameter `xrootd` calls it")
    path: Folder = Field(description="folder with its bin/ and lib/ or lib64/, as `make install` leaves it")


class Netns(Settings):
    """Network namespaces on this machine."""

    deploy_seconds: ClassVar[float] = 6.0

    kind: Literal["netns"] = Field(description="network namespaces on this machine")
    cpus: Annotated[int | None, replace(bounds.CPUS, null="all")] = Field(
        default=None,
        description="CPUs that both sides together may be given; null: all that this process may use",
    )
    max_bandwidth: Annotated[float, bounds.EMULATED] = Field(
        default=5.0, description="bandwidth that a path can carry on this machine"
    )
    max_rtt: Annotated[float, bounds.ROUND_TRIP] = Field(
        default=500.0, description="largest RTT that a path can make"
    )
    memory: Annotated[int | None, replace(bounds.MEMORY, null="half of what is available")] = Field(
        default=None, description="memory for files; null: half of what is available"
    )
    disk: Folder = Field(
        default=DISK,
        description="folder on a disk for the files of layers that have one; made where it is missing",
    )
    releases: tuple[OwnRelease, ...] = Field(
        default=(), description="releases of XRootD that were built here, for the parameter `xrootd`"
    )
    path: PathRule = "measure"

    @model_validator(mode="after")
    def _names(self) -> Netns:
        refuse(Netns, _release_faults([release.name for release in self.releases]))
        return self

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
    deploy_seconds: ClassVar[float] = 3.0
    cell_seconds: ClassVar[float] = 0.1

    kind: Literal["simulation"] = Field(description="a model of servers and path, computed")
    base: AnyText | None = Field(
        default=None,
        description="testbed of this kind that has what is not given here: a file in config/testbeds, or a path that "
        "ends in .yaml",
    )
    inputs: tuple[ClaimName, ...] = Field(
        default=(),
        description="claims that values were chosen by: no predictions; those of the base count too",
    )
    assumptions: dict[ClaimName, Text] = Field(
        default={},
        description="claims that follow nearly by hand from something that was assumed, here or in the sweeps made for "
        "this testbed, each with what it is: no predictions either; those of the base count too",
    )
    tools: tuple[Word, ...] = Field(
        default=("gfal-copy", "curl", "gfal2", "native"),
        min_length=1,
        description="tools whose set-up and cost the parameters are those of",
    )
    encryption: Literal["usual", "none"] = Field(
        default="usual",
        description="how the data go that the parameters are of; none: in the clear, and nobody shows credentials",
    )
    memory: Annotated[int, bounds.MEMORY] = Field(
        default=4 * 10**12, description="memory for files, of both sides together"
    )
    queues: Literal["origin", "path"] = Field(
        default="origin", description="what has a queue with queue_limit of its own: each origin, or the path"
    )
    draws: Annotated[int, bounds.DRAWS] = Field(
        default=200, description="random parameter sets behind each interval"
    )
    parameters: Physics = Field(description="what servers, set-up and path are like")

    @property
    def identity(self) -> dict[str, str]:
        """What stands for everything that cells are computed from: another one makes them stale."""
        text = self.model_dump_json(exclude={"base", "memory", "tools", "encryption"})
        return {"digest": hashlib.sha256(text.encode()).hexdigest()[:16]}


Testbed = Netns | Kubernetes | Simulation

KINDS: dict[str, type[Netns] | type[Kubernetes] | type[Simulation]] = {
    "netns": Netns,
    "kubernetes": Kubernetes,
    "simulation": Simulation,
}
"""The kinds of testbeds, by the name that `kind` gives them."""
