# SPDX-License-Identifier: Apache-2.0
"""Simulated and measured runs of the cases, read from their files, and means with intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from cases import SHIPPED, Case, measured_in
from scipy import stats
from tpcsweep.common.numbers import CONFIDENCE
from tpcsweep.data.effects import Interval

Made = Literal["simulated", "measured"]


@dataclass(frozen=True)
class Run:
    """Run of a case."""

    case: Case
    made: Made
    repetitions: Sequence[Mapping[str, Any]]
    series: Mapping[str, Sequence[float]]
    refused: str | None  # reason why it could not be run, or None
    cpu_seconds: float | None  # total of all repetitions, if simulated
    where: str | None = None  # date and machine, if measured
    shipped: bool = False
    """Whether it ships with the repository, that is was measured on a machine of the project."""

    @property
    def broken(self) -> list[str]:
        """Reasons for repetitions in which ns-3 stalled or crashed, which do not count."""
        return [run["broken"] for run in self.repetitions if "broken" in run]

    @property
    def seconds(self) -> list[float]:
        """Observed recovery times of repetitions, in s."""
        return [run["seconds"] for run in self.repetitions if run.get("seconds") is not None]

    @property
    def unrecovered(self) -> int:
        """Number of repetitions that ended before the window recovered."""
        return sum("seconds" in run and run["seconds"] is None for run in self.repetitions)

    @property
    def utilisations(self) -> list[float]:
        """Payload as a share of the bandwidth, as in the formulas, of each repetition."""
        return [rates[0] / self.case.bandwidth for rates in self._goodputs]

    def goodputs(self, mtu: int) -> list[float]:
        """Return the payload in Gbit/s of the flow with this MTU in each repetition."""
        return [rates[self.case.mtus.index(mtu)] for rates in self._goodputs]

    @property
    def _goodputs(self) -> list[Sequence[float]]:
        return [run["goodputs"] for run in self.repetitions if "goodputs" in run]


def read_folder(folder: Path) -> list[Run]:
    """Read the runs in the study's folder; without measurements, read the shipped ones."""
    files = [*sorted(folder.glob("simulated/*.json")), *measured_in(folder / "measured")]
    return [_run(json.loads(file.read_text()), file.parent == SHIPPED) for file in files]


def _run(content: Mapping[str, Any], shipped: bool) -> Run:
    where = None
    if content["made"] == "measured":
        begun, host = content["provenance"]["begun"][:10], content["provenance"]["machine"]
        where = f"{begun}, {host['cpus']} CPUs ({host['cpu']}), Linux {host['kernel']}"
        where += f", shipped: examples/{SHIPPED.name}" if shipped else ""
    return Run(
        Case(**{**content["case"], "mtus": tuple(content["case"]["mtus"])}),
        content["made"],
        content["repetitions"],
        content["series"],
        content.get("refused"),
        content.get("cpu_seconds"),
        where,
        shipped,
    )


def interval(values: Sequence[float]) -> Interval | None:
    """Return the mean with Student's interval, with NaN ends for one value, or None without values."""
    if not values:
        return None
    mean = float(np.mean(values))
    if len(values) == 1:
        return Interval(mean, math.nan, math.nan)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = float(stats.t.isf((1 - CONFIDENCE) / 2, len(values) - 1)) * error
    return Interval(mean, mean - half, mean + half)
