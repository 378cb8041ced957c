# SPDX-License-Identifier: Apache-2.0
"""Claims, their needs of a dataset, verdicts on them, and tables of verdicts for files and terminals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpcsweep.analysis.claims.claim_cells import CellTable
from tpcsweep.common.files import write_json
from tpcsweep.common.numbers import between, json_number, short
from tpcsweep.data.conditions import rows_meeting
from tpcsweep.data.effects import Decision, Interval, Region
from tpcsweep.data.pair_rtts import pair_rtt_text
from tpcsweep.data.tables import write_csv
from tpcsweep.sweeps.parameters import value_text

Row = Mapping[str, Any]  # line of evidence: plain values by column
FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Functions that the YAML files of claims name in `test` and `rows`; `for_claims` adds one."""
_Function = TypeVar("_Function", bound=Callable[..., Any])
ROWS = 24  # lines of evidence in a verdict, evenly from the smallest effect to the largest

MEASURE_MORE = "measure repetitions (repetitions: 3) or longer cells (max_time), which narrows the interval"

_LISTED = 8  # values of an axis that a sentence lists


def for_claims(function: _Function) -> _Function:
    """Register a function under its name, which must be unique, for the YAML files of claims."""
    assert function.__name__ not in FUNCTIONS, function.__name__
    FUNCTIONS[function.__name__] = function
    return function


class Outcome(StrEnum):
    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "not decided"  # the interval of the effect crosses an end of the claim's region
    OPEN = "not testable here"  # the dataset lacks the necessary cells


@dataclass(frozen=True)
class Need:
    """Axis or fixed parameter that a claim requires in a dataset."""

    axis: str
    count: int = 1  # least number of values (within the range, if any)
    low: float = -math.inf
    high: float = math.inf  # end of the range for the values; "no limit" lies in no range
    words: tuple[frozenset[str], ...] = ()  # sets of words; the dataset must have one word of each set
    sweep: str = ""  # text to write into a sweep to meet the need

    def met(self, ds: xr.Dataset) -> bool:
        values = _values(ds, self.axis)
        if self.words:
            return all(any(str(value) in alike for value in values) for alike in self.words)
        if math.isfinite(self.low) or math.isfinite(self.high):
            values = [value for value in values if not isinstance(value, str) and math.isfinite(value)]
            values = [value for value in values if self.low <= value <= self.high]
        return len(values) >= self.count

    def __str__(self) -> str:
        """Return a text for people that follows the word "needed"."""
        if self.words:
            return " and ".join(" or ".join(sorted(alike)) for alike in self.words)
        low, high = value_text(self.axis, self.low), value_text(self.axis, self.high)
        if self.low == self.high:
            span = low
        elif math.isinf(self.low):
            span = "" if math.isinf(self.high) else f"at most {high}"
        else:
            span = f"at least {low}" if math.isinf(self.high) else f"{low} to {high}"
        if self.count == 1:
            return span or "a value"
        return f"{self.count} values" + (f" of {span}" if span else "")


def unmet_needs(needs: Sequence[Need], ds: xr.Dataset) -> tuple[str, str]:
    """Return texts on unmet needs and on the sweep that meets them; both "" if all are met."""
    unmet = [need for need in needs if not need.met(ds)]
    texts = []
    for axis in dict.fromkeys(need.axis for need in unmet):
        values = _values(ds, axis)
        wanted = ", and ".join(dict.fromkeys(str(need) for need in unmet if need.axis == axis))
        texts.append(f"{axis}: needed {wanted}; the dataset has {_values_text(axis, values, ds)}")
    sweep = "; ".join(dict.fromkeys(need.sweep for need in unmet if need.sweep))
    return ". ".join(texts), f"sweep {sweep}" if sweep else ""


def _values_text(axis: str, values: Sequence[Any], ds: xr.Dataset) -> str:
    """Return the values of an axis; RTTs of pairs of sites are no axis, so that a claim cannot use them."""
    if axis == "rtt" and (of_pairs := pair_rtt_text(ds)):
        return f"none set: its pairs have {of_pairs}"
    listed = [value_text(axis, value) for value in values[:_LISTED] if value == value]  # NaN is unknown
    # Cells record the share of lost packets, too.
    set_on_path = " set on the path" if axis == "loss" and listed else ""
    return ", ".join([*listed, *["…"] * (len(values) > _LISTED)]) + set_on_path or "none"


@dataclass(frozen=True)
class Effect:
    """Size of the effect that decides a verdict."""

    quantity: str
    interval: Interval
    units: str = "1"

    def __str__(self) -> str:
        units = "" if self.units == "1" else f" {self.units}"
        value, low, high = self.interval.value, self.interval.low, self.interval.high
        return f"{self.quantity}: {short(value)} ({between(low, high)}){units}"


@dataclass(frozen=True)
class Finding:
    decision: Decision
    reason: str  # reason in a sentence that names the deciding cells
    effect: Effect | None = None
    """Effect, or None if cells are missing.
    Without a decision, a claim with an effect is not decided, and one without is not testable."""
    rows: Sequence[Row] = ()
    advice: str = MEASURE_MORE  # sweep whose data would decide


@dataclass(frozen=True)
class Claim:
    """Published statement as a predicate on a dataset."""

    name: str  # identifier, `publication.claim`
    text: str
    reading: str  # tested statement about effects and regions, with its margins
    source: str  # place of the statement in the publication, as far as known
    needs: tuple[Need, ...] = ()
    cells: str = ""  # cells of the claim as a condition on the columns of `CellTable`; empty for all
    regions: Mapping[str, Region] = field(default_factory=dict)
    """Effects for which the claim is true, by name; a single one is called `region`."""
    test: Callable[[Claim, CellTable], Finding] | None = None
    """Test function, or None if no dataset of throughputs can show the claim (`beyond` explains why)."""
    beyond: str = ""
    advice: str = ""
    rows: tuple[Row, ...] = ()  # evidence that does not depend on a dataset
    elsewhere: str = ""  # place of its judgement, or the reason for none, if no published figure carries it

    @property
    def region(self) -> Region:
        return self.regions["region"]

    def select(self, cells: CellTable) -> pd.DataFrame:
        """Return the trusted cells of the claim."""
        return cells.trusted[rows_meeting(cells.trusted, self.cells)] if self.cells else cells.trusted


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    outcome: Outcome
    reason: str
    data: str  # whether the dataset is measured, simulated or imported
    effect: Effect | None = None
    rows: tuple[Row, ...] = ()
    advice: str = ""
    used: int = 0  # number of trusted cells
    excluded_cells: Mapping[str, int] = field(default_factory=dict)  # number of excluded cells by reason

    def to_dict(self) -> dict[str, Any]:
        interval = self.effect.interval if self.effect else None
        return {
            "claim": self.claim.name,
            "verdict": self.outcome.value,
            "data": self.data,
            "published": self.claim.text,
            "source": self.claim.source,
            "tested": self.claim.reading,
            "effect": self.effect.quantity if self.effect else None,
            **{
                end: json_number(getattr(interval, end)) if interval else None
                for end in ("value", "low", "high")
            },
            "units": self.effect.units if self.effect else None,
            "reason": self.reason,
            "to_test": self.advice or None,
            "cells_used": self.used,
            "cells_left_out": dict(self.excluded_cells),
            "evidence": [{name: _plain(value) for name, value in row.items()} for row in self.rows],
        }


def judge_claim(claim: Claim, ds: xr.Dataset, cells: CellTable) -> Verdict:
    undecided = Outcome.OPEN
    if claim.test is None:
        finding = Finding(None, claim.beyond, rows=claim.rows, advice=claim.advice)
    elif (lacks := unmet_needs(claim.needs, ds))[0]:
        finding = Finding(None, lacks[0], advice=lacks[1])
    else:
        finding = claim.test(claim, cells)
        # Without errors of cells the effect has no interval, so the claim is not testable.
        interval = finding.effect.interval if finding.effect else None
        if interval and math.isfinite(interval.low + interval.high):
            undecided = Outcome.UNDECIDED
    outcome = {True: Outcome.HOLDS, False: Outcome.FAILS, None: undecided}[finding.decision]
    kept = np.linspace(0, len(finding.rows) - 1, min(len(finding.rows), ROWS))
    rows = tuple(finding.rows[round(place)] for place in kept)
    advice = finding.advice if finding.decision is None else ""
    about = len(cells.trusted), cells.left_out
    return Verdict(claim, outcome, finding.reason, cells.data, finding.effect, rows, advice, *about)


def _values(ds: xr.Dataset, axis: str) -> list[Any]:
    return list(np.atleast_1d(ds.coords[axis].values).tolist()) if axis in ds.coords else []


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return json_number(value) if isinstance(value, float) else value


_STYLES = {Outcome.HOLDS: "green", Outcome.FAILS: "red", Outcome.UNDECIDED: "yellow", Outcome.OPEN: "dim"}


def verdict_table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row for each verdict, without its evidence."""
    frame = pd.DataFrame([verdict.to_dict() for verdict in verdicts]).drop(columns="evidence")
    frame["cells_left_out"] = [
        ", ".join(f"{count} {why}" for why, count in left.items()) for left in frame["cells_left_out"]
    ]
    return frame


def write_verdicts(verdicts: Sequence[Verdict], csv: str | Path, json: str | Path) -> None:
    """Write the table as CSV, and every verdict with its evidence as JSON."""
    write_csv(verdict_table(verdicts), csv)
    write_json(Path(json), [verdict.to_dict() for verdict in verdicts])


def for_terminal(verdicts: Sequence[Verdict], every: bool = False) -> RenderableType:
    """Return one row for each verdict; without `every`, claims that are not testable are only counted."""
    rows = Table(show_lines=True)
    rows.add_column("claim and verdict", min_width=16, ratio=2)
    rows.add_column("effect (interval), and why", ratio=3)
    listed = [verdict for verdict in verdicts if every or verdict.outcome is not Outcome.OPEN]
    for verdict in sorted(listed, key=lambda verdict: list(Outcome).index(verdict.outcome)):
        name = Text(f"{verdict.claim.name}\n").append(verdict.outcome.value, _STYLES[verdict.outcome])
        effect = f"{verdict.effect}\n" if verdict.effect else ""
        rows.add_row(name, Text(f"{effect}{verdict.reason}"))
    parts: list[RenderableType] = [rows] if listed else []
    if left := len(verdicts) - len(listed):
        parts.append(f"{left} claims are not testable on this dataset. List them with --all.")
    return Group(*parts)
