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
from tpcsweep.claims.effects import CONFIDENCE, Interval

Made = Literal["simulated", "measured"]


@dataclass(frozen=True)
class Run:
    """A case that was run."""

    case: Case
    made: Made
    repetitions: Sequence[Mapping[str, Any]]
    series: Mapping[str, Sequence[float]]
    refused: str | None  # why it could not be run; None if it was
    cpu_seconds: float | None  # what all repetitions took, if they were simulated
    where: str | None = None  # when and on which machine, if they were measured
    shipped: bool = False
    """Whether it came with the repository, and so was measured on a machine of the project."""

    @property
    def broken(self) -> list[str]:
        """What ended repetitions in which ns-3 stalled or crashed: they count for nothing."""
        return [run["broken"] for run in self.repetitions if "broken" in run]

    @property
    def seconds(self) -> list[float]:
        """Times to recover, in s, of the repetitions that were seen to."""
        return [run["seconds"] for run in self.repetitions if run.get("seconds") is not None]

    @property
    def unrecovered(self) -> int:
        """Repetitions that ended before the window had recovered."""
        return sum("seconds" in run and run["seconds"] is None for run in self.repetitions)

    @property
    def utilisations(self) -> list[float]:
        """Payload as a share of the bandwidth, as formulas give it, of each repetition."""
        return [rates[0] / self.case.bandwidth for rates in self._goodputs]

    def goodputs(self, mtu: int) -> list[float]:
        """What the flow with this MTU got in each repetition, payload in Gbit/s."""
        return [rates[self.case.mtus.index(mtu)] for rates in self._goodputs]

    @property
    def _goodputs(self) -> list[Sequence[float]]:
        return [run["goodputs"] for run in self.repetitions if "goodputs" in run]


def read_folder(folder: Path) -> list[Run]:
    """Read the runs in the study's folder; if it has no measurements, those that ship."""
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
    """Return the mean with Student's interval, without ends (NaN) for one value; None for none."""
    if not values:
        return None
    mean = float(np.mean(values))
    if len(values) == 1:
        return Interval(mean, math.nan, math.nan)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = float(stats.t.isf((1 - CONFIDENCE) / 2, len(values) - 1)) * error
    return Interval(mean, mean - half, mean + half)
