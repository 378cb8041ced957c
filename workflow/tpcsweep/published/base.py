# SPDX-License-Identifier: Apache-2.0
"""What a published figure is: the data that it is made of, the claims that it carries, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

from tpcsweep.dataset import SIMULATED, TRANSFERS_GROUP
from tpcsweep.published.carried import Carried


@dataclass(frozen=True)
class Data:
    """A dataset, each group read when it is needed."""

    file: Path

    @cached_property
    def summary(self) -> xr.Dataset:
        """The cells."""
        return xr.load_dataset(self.file)

    @property
    def simulated(self) -> bool:
        """Whether the cells are simulated."""
        return bool(self.summary.attrs["testbed_kind"] == SIMULATED)

    @cached_property
    def samples(self) -> xr.Dataset:
        """Their time series."""
        return xr.load_dataset(self.file, group="samples")

    @cached_property
    def transfers(self) -> xr.Dataset:
        """Their single transfers."""
        return xr.load_dataset(self.file, group=TRANSFERS_GROUP)


@dataclass(frozen=True)
class Shown:
    """What a figure says beside its data."""

    title: str
    notes: tuple[str, ...]
    claims: tuple[Carried, ...]


@dataclass(frozen=True)
class PublishedFigure:
    """A figure or table of a publication, and how it is made here.

    config/published.yaml lists the figures whose data come from sweeps, each with the testbed that simulates its
    hardware.
    """

    name: str
    """The name of its sweep, config/published/NAME.yaml, unless the figure has a source."""
    title: str
    claims: tuple[str, ...]
    draw: Callable[[Data, Shown], Figure]
    source: str | None = None
    """The file in config/imports that reads its data, if they come from elsewhere."""
    when_simulated: str = ""
    """A note on its picture if the data are simulated."""
