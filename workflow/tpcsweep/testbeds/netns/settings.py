# SPDX-License-Identifier: Apache-2.0
"""Settings of netns testbeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tpcsweep.deploying.linux.cgroups import FEWEST_CORES, PERIOD, quota
from tpcsweep.deploying.xrootd.releases import RECOMMENDED, SYSTEM
from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import AnyText, DeploymentParameters, Strict, Value, Word
from tpcsweep.sweeps.problems import Fault
from tpcsweep.sweeps.testbed_settings import Given, PathRule, Settings

DISK = "/var/lib/tpcsweep"  # default folder on a disk for files of netns testbeds


Folder = Annotated[AnyText, Field(pattern="^/")]  # an absolute path


class OwnRelease(Strict):
    """A release of XRootD built by the site."""

    name: Word = Field(description="its value of the parameter `xrootd`")
    path: Folder = Field(description="folder with bin/ and lib/ or lib64/, as installed by `make install`")


class Netns(Settings):
    """Network namespaces on this machine."""

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
