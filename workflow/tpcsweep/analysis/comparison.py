# SPDX-License-Identifier: Apache-2.0
"""Comparison of two sweeps: by cell, by value of each axis, and overall.

Multiple tests are corrected. Effects are differences of log throughput, that is ratios of new over base.
`docs/comparing.md` describes it for users.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from rich.console import Group, RenderableType
from rich.table import Table
from scipy import stats

from tpcsweep.analysis.sides import ComparedSide, axis_text
from tpcsweep.common.files import write_json
from tpcsweep.common.numbers import CONFIDENCE, between, counted, plain, short
from tpcsweep.data import made_with, run_effects
from tpcsweep.data.differences import Differences, deployment_numbers, differences
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.labels import SIMULATED, declared_coordinates
from tpcsweep.data.made_with import Difference
from tpcsweep.data.opening import load, require_dataset
from tpcsweep.data.run_effects import NOT_COMPARABLE, SAME, VERDICTS, Overall
from tpcsweep.data.scatter import OF_THE_MACHINE, SHARED, Floats, Side, read_side
from tpcsweep.data.tables import FAILED, NOT_MEASURED, observations, write_csv
from tpcsweep.data.variables import CPU_LIMITS, TABLES
from tpcsweep.sweeps.parameters import Parameters, Value
from tpcsweep.sweeps.problems import ConfigurationError, Problem, suggest
from tpcsweep.sweeps.sweep import REPETITION

NOTICED = 0.05  # smallest slowdown of a machine that the summary reports, as a share
_MOST_ROWS = 50  # on a terminal
_MOST_NAMES = 10  # of what differs, on a terminal


class ComparisonError(ValueError):
    """Two datasets without common cells; the text contains the reason and the fix."""


@dataclass(frozen=True)
class Alignment:
    """Common and different parameters of two datasets."""

    axes: Mapping[str, tuple[Value, ...]]
    """Common values of each parameter that is an axis of either dataset."""
    unmatched_values: Mapping[str, Mapping[str, tuple[Value, ...]]]
    """Values of axes that only `base` or only `new` contains."""
    different: Mapping[str, tuple[Value, Value]]
    """Parameters whose single values differ, as (base, new); None means unknown."""


@dataclass(frozen=True)
class Comparison:
    """Compared cells of two datasets."""

    base: str
    new: str
    alignment: Alignment
    cells: pd.DataFrame
    """One row for each cell: axes, then the columns of `TABLE`."""
    parts: pd.DataFrame
    """One row for each value of each axis, over the cells with that value: see `run_effects.PARTS`."""
    overall: Overall
    scatter: Differences
    made_with: Sequence[Difference] = ()
    """Software, machines and settings of hosts that differ between the two datasets."""

    @property
    def verdicts(self) -> dict[str, int]:
        return {verdict: int((self.cells["verdict"] == verdict).sum()) for verdict in VERDICTS}

    @property
    def slowdown(self) -> float:
        """Time for a piece of work in new over base, median of undisturbed CPU-bound cells; NaN if unknown."""
        flags = (self.cells["base_flags"] + " " + self.cells["new_flags"]).str.split()
        calm = [set(OF_THE_MACHINE).isdisjoint(row) for row in flags]
        return float((self.cells["new_work"] / self.cells["base_work"])[calm].median())

    def summary(self) -> str:
        mean = self.overall
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items() if count)
        verdict = f"{self.new} against {self.base}: {mean.verdict}"
        if mean.cells:
            interval = f"{CONFIDENCE:.0%} interval {mean.low:.3f} to {mean.high:.3f}"
            if mean.verdict == SAME and not mean.low <= 1 <= mean.high:
                interval += f", but p is {short(mean.p_corrected, 2)} after correction for all verdicts"
            verdict += f", by a ratio of {mean.ratio:.3f} over {mean.cells} cells ({interval})"
        clauses = [verdict, single_runs(self), deviations(self), f"cells: {counts}"]
        clauses += [flag_counts(self), slower_machine(self)]
        return "; ".join(filter(None, clauses))

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON; unknown numbers are None."""
        content = {
            "summary": self.summary(),
            "base": self.base,
            "new": self.new,
            "confidence": CONFIDENCE,
            "overall": self.overall,
            "run_to_run": {
                "share": self.scatter.share,
                "shared": self.scatter.shared.variance**0.5,
                "estimated": self.scatter.estimated,
            },
            "verdicts": self.verdicts,
            "parts": self.parts.to_dict("records"),
            "alignment": self.alignment,
            "made_with": [each._asdict() for each in self.made_with],
            "cells": self.cells.to_dict("records"),
        }
        # The round trip removes numpy's numbers, NaN and infinity, which JSON lacks.
        plain: dict[str, Any] = orjson.loads(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY))
        return plain


TABLE: Mapping[str, str] = TABLES["comparison"]
"""Columns of `Comparison.cells` after the axes, with their meanings."""


def load_side(side: ComparedSide) -> xr.Dataset:
    """Load the part of a dataset that a side chooses; each chosen value becomes a scalar coordinate.

    Raises ConfigurationError if the file is not the dataset of a sweep, or an axis or value is unknown.
    """
    require_dataset(side.dataset)
    summary = load(side.dataset)
    for name, value in side.chosen.items():
        if name not in summary.coords or name == "record":
            allowed = suggest(name, [str(axis) for axis in summary["throughput"].dims])
            raise ConfigurationError([Problem(side.key, repr(side.text), f"for {name}: {allowed}")])
        values = summary[name].values.reshape(-1).tolist()
        wanted = str(value) if values and isinstance(values[0], str) else value
        if wanted not in values:
            allowed = "one of " + ", ".join(axis_text(name, known) for known in values)
            raise ConfigurationError([Problem(side.key, repr(side.text), f"for {name}: {allowed}")])
        if name in summary.dims:
            summary = summary.isel({name: values.index(wanted)})
    return summary


def compare(base: xr.Dataset, new: xr.Dataset, names: tuple[str, str] = ("base", "new")) -> Comparison:
    """Compare the common cells of two datasets.

    `data.scatter` describes the errors of single cells, of the values of axes and of the overall effect. Student's t
    tests them, and all are corrected as one family. Single measurements on a disturbed machine do not count.
    Raises ComparisonError if there is no common cell, or an axis of one dataset is unknown to the other.
    """
    alignment = align(base, new)
    axes = alignment.axes
    rows = [_rows_of(side, axes) for side in (base, new)]
    frame = pd.DataFrame(list(itertools.product(*axes.values())), columns=list(axes))
    sides = [read_side(_calm(side), len(frame)) for side in rows]
    found = differences(sides[0], sides[1], deployment_numbers(frame, axes))
    tables = [_cells_of(*side) for side in zip(rows, sides, strict=True)]
    cells = _compared(frame, dict(zip(("base", "new"), tables, strict=True)), found)
    results = run_effects.add_verdicts(cells, axes, found)
    called = [
        f"{name} (simulated)" if side.attrs.get("testbed_kind") == SIMULATED else name
        for name, side in zip(names, (base, new), strict=True)
    ]
    different = made_with.differences(made_with.made_with(base), made_with.made_with(new))
    return Comparison(called[0], called[1], alignment, *results, found, different)


def align(base: xr.Dataset, new: xr.Dataset) -> Alignment:
    """Find the common cells of two datasets. Raises ComparisonError, see `compare`."""
    ours, theirs = _parameters(base), _parameters(new)
    several = {name for known in (ours, theirs) for name, values in known.items() if len(values) > 1}
    order = dict.fromkeys((*Parameters.model_fields, *ours, *theirs))
    axes: dict[str, tuple[Value, ...]] = {}
    only: dict[str, dict[str, tuple[Value, ...]]] = {"base": {}, "new": {}}
    problems = []
    for name in (name for name in order if name in several):
        if name not in ours or name not in theirs:
            side, values = ("base", ours[name]) if name in ours else ("new", theirs[name])
            problems.append(
                f"{name} is an axis of {side} and unknown to the other: "
                f"choose one of its values, as in NAME:{name}={axis_text(name, values[0])}"
            )
            continue
        axes[name] = tuple(value for value in ours[name] if value in theirs[name])
        if not axes[name]:
            lists = [", ".join(axis_text(name, value) for value in known[name]) for known in (ours, theirs)]
            problems.append(f"{name} has no value in common: {lists[0]} in base, {lists[1]} in new")
        for side, known in (("base", ours), ("new", theirs)):
            if rest := tuple(value for value in known[name] if value not in axes[name]):
                only[side][name] = rest
    if problems:
        raise ComparisonError("; ".join(problems))
    single = [name for name in dict.fromkeys((*ours, *theirs)) if name not in several]
    pairs = {name: (ours.get(name, (None,))[0], theirs.get(name, (None,))[0]) for name in single}
    return Alignment(axes, only, {name: pair for name, pair in pairs.items() if pair[0] != pair[1]})


def _parameters(summary: xr.Dataset) -> dict[str, list[Value]]:
    names = (name for name in declared_coordinates(summary) if name != REPETITION)
    return {name: summary[name].values.reshape(-1).tolist() for name in names}


def _rows_of(summary: xr.Dataset, axes: Mapping[str, tuple[Value, ...]]) -> pd.DataFrame:
    """Return one side's observations at the values of `axes`, with the number of each row's cell."""
    rows = observations(summary, also=("limit", "machine_work"))
    for name, values in axes.items():
        rows = rows[rows[name].isin(values)]
    places = [pd.Categorical(rows[name], values).codes for name, values in axes.items()]
    shape = tuple(len(values) for values in axes.values())
    return rows.assign(cell=np.ravel_multi_index(tuple(places), shape) if axes else 0)


def _calm(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the usable measurements, without those on a disturbed machine in cells that have others."""
    used = rows[rows["reason"] == ""]
    disturbed = used[list(OF_THE_MACHINE)].any(axis=1)
    return used[~disturbed | disturbed.groupby(used["cell"]).transform("all")]


def _cells_of(rows: pd.DataFrame, side: Side) -> pd.DataFrame:
    """Return one row for each cell of a side.

    Columns are `mean` (throughput in Gbit/s), `repeated`, `why` the cell cannot be compared, `flags`, `work` in ms (NaN
    if no CPU bound the cell, or unknown), and whether its single measurement is `too_short` or `disturbed`.
    """
    used, places = _calm(rows), range(side.means.shape[1])
    work = used["machine_work"].where(used["limit"].isin(CPU_LIMITS))
    by_cell = used.assign(work=work).groupby("cell")
    found = by_cell[["throughput", "work"]].mean().reindex(places)
    count = side.counts.sum(axis=0)
    scatter = (side.runs > 1) & (pd.DataFrame(side.means).var().to_numpy() > 0)
    scatter |= (side.within.variance > 0) | ((count == 1) & (side.interval.variance > 0))
    failed = rows["reason"].eq(FAILED).groupby(rows["cell"]).any()
    measured = found["throughput"].notna()
    lacks = {
        FAILED: ~measured & failed,
        NOT_MEASURED: ~measured,
        "no throughput": count == 0,
        "neither repetitions that differ nor an interval": ~scatter,
    }
    flags = rows.groupby("cell")[list(FLAGS)].any()
    once = used.drop_duplicates("cell").set_index("cell").reindex(places)
    once = once.loc[:, list(FLAGS)].eq(True).mul(count == 1, axis=0)
    return pd.DataFrame(
        {
            "mean": found["throughput"],
            "repeated": count > 1,
            "why": np.select(list(lacks.values()), list(lacks), ""),
            "flags": [" ".join(flags.columns[carried]) for carried in flags.to_numpy()],
            "work": found["work"],
            "too_short": once["too_short"],
            "disturbed": once[list(OF_THE_MACHINE)].any(axis=1),
        }
    )


def _compared(frame: pd.DataFrame, sides: Mapping[str, pd.DataFrame], found: Differences) -> pd.DataFrame:
    """Add the columns of `TABLE` to a frame of the cells' places, and `unjudged` and `counted` for verdicts."""
    base, new = sides.values()
    lacks = zip(base["why"], new["why"], strict=True)
    why = [
        "; ".join(f"{side}: {lack}" for side, lack in zip(sides, both, strict=True) if lack) for both in lacks
    ]
    good = np.array([not lack for lack in why])
    frame["base"], frame["new"] = base["mean"], new["mean"]
    effect = found.effect
    variance, freedom = found.cells
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(variance)
        half = stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * error
        difference = frame["new"] - frame["base"]
        # Of equal relative variances of both sides, whose sum is that of the ratio.
        about = half * np.hypot(frame["base"], frame["new"]) / np.sqrt(2)
        frame["difference"] = difference
        frame["difference_low"], frame["difference_high"] = difference - about, difference + about
        frame["ratio"] = np.exp(effect)
        frame["ratio_low"], frame["ratio_high"] = np.exp(effect - half), np.exp(effect + half)
        frame["log_ratio"], frame["error"], frame["freedom"] = effect, error, freedom
        frame["p"] = 2 * stats.t.sf(np.abs(effect) / error, freedom)
    frame.loc[~good, "difference":"p"] = np.nan
    frame["p_corrected"] = np.nan
    frame["verdict"] = np.where(good, SAME, NOT_COMPARABLE)
    frame["why"] = why
    evidence = np.array(["intervals", "both", "repetitions"])
    frame["evidence"] = np.where(good, evidence[base["repeated"].astype(int) + new["repeated"]], "")
    for name in ("flags", "work"):
        for side, cells in sides.items():
            frame[f"{side}_{name}"] = cells[name]
    disturbed, short = (base[name] | new[name] for name in ("disturbed", "too_short"))
    frame["unjudged"] = np.select([disturbed, short], [run_effects.DISTURBED, run_effects.TOO_SHORT], "")
    frame["counted"] = good & ~disturbed
    return frame


# --- reports


def gate_failures(comparison: Comparison, below: float) -> list[str]:
    """Return the reasons to reject ratios (new over base) below `below`; an empty list means pass.

    One-sided tests reject the overall ratio, and ratios of values and of cells, corrected together. Cells that failed
    only in new, and a comparison without comparable cells, are rejected too.
    """
    cells, overall = comparison.cells, comparison.overall
    axes = comparison.alignment.axes

    def place(row: pd.Series) -> str:
        return ", ".join(f"{name} {axis_text(name, row[name])}" for name in axes) or "the cell"

    def lower(effect: Any, error: Any, freedom: Any) -> Floats:
        return np.atleast_1d(stats.t.cdf((effect - np.log(below)) / error, freedom))

    tables = comparison.parts, cells[cells["verdict"] != NOT_COMPARABLE]
    p_overall = float(lower(np.log(overall.ratio), overall.error, overall.freedom)[0])
    p_parts, p_cells = (lower(table["log_ratio"], table["error"], table["freedom"]) for table in tables)
    p = run_effects.correct_family(p_overall, p_parts, p_cells, run_effects.measured_cells(cells))
    reasons = [] if overall.cells else ["no cell could be compared"]
    if p[0][0] < 1 - CONFIDENCE:
        interval = between(overall.low, overall.high)
        reasons.append(f"the overall ratio is {short(overall.ratio)} ({interval}), below {plain(below)}")
    for ratios, corrected, named in zip(tables, p[1:], (_part, place), strict=True):
        for _, row in ratios[corrected < 1 - CONFIDENCE].iterrows():
            reasons.append(f"{named(row)}: the ratio is {short(row['ratio'])}, below {plain(below)}")
    for _, row in cells[cells["why"] == f"new: {FAILED}"].iterrows():
        reasons.append(f"{place(row)}: failed in new")
    return reasons


def single_runs(comparison: Comparison) -> str:
    """Return a clause on the luck that is assumed if each side is one run, and what a second run decides, or ""."""
    found, mean = comparison.scatter, comparison.overall
    if found.estimated or not mean.cells:
        return ""
    level = run_effects.OVERALL_SHARE * (1 - CONFIDENCE)
    least = stats.t.isf(level / 2, mean.freedom + 2) * mean.error / np.sqrt(2)
    return (
        f"each side is one run, whose cells are assumed to share {plain(100 * SHARED)} %: a second run of each "
        f"measures that, and decides whether all cells differ by about {short(100 * least, 2)} % or more"
    )


def deviations(comparison: Comparison) -> str:
    """Return a clause on values whose verdict differs from the overall one, or ""."""
    parts = comparison.parts
    parts = parts[~parts["verdict"].isin([SAME, comparison.overall.verdict])]
    return ", ".join(
        f"{row['verdict']} at {_part(row)} ({row['ratio']:.3f}, {row['ratio_low']:.3f} to {row['ratio_high']:.3f})"
        for _, row in parts.iterrows()
    )


def _part(row: pd.Series) -> str:
    cells = f"{row['cells']} cells" if row["cells"] > 1 else "one cell"
    return f"{row['axis']} {axis_text(row['axis'], row['value'])} in {cells}"


def slower_machine(comparison: Comparison) -> str:
    """Return a clause that names the slower machine, or "" if both were equally fast or it is unknown."""
    side, ratio = "new", comparison.slowdown
    if ratio < 1:
        side, ratio = "base", 1 / ratio
    if not ratio >= 1 + NOTICED:  # also false for NaN
        return ""
    return f"{side} ran on a machine that was {ratio:.2f} times slower; this affects the CPU-bound cells"


def flag_counts(comparison: Comparison) -> str:
    """Return a clause with the number of cells of each side for each flag, or "" without flags."""
    clauses = []
    for side in ("base", "new"):
        counts = Counter(comparison.cells[f"{side}_flags"].str.split().explode().dropna())
        if counts:
            flags = ", ".join(f"{FLAGS[flag].label} {counts[flag]}" for flag in FLAGS if counts[flag])
            clauses.append(f"of {len(comparison.cells)} cells of {side}: {flags}")
    return "; ".join(clauses)


def repetition_note(comparison: Comparison) -> str:
    """Return a sentence on cells that were measured once, or "" if there are none."""
    once = int(comparison.cells["evidence"].isin(["intervals", "both"]).sum())
    if not once:
        return ""
    share = f"{plain(round(100 * comparison.scatter.share, 1))} % from run to run"
    source = (
        "estimated from several runs"
        if comparison.scatter.estimated
        else "an assumption: no side has several runs"
    )
    return f"{once} cells were measured once on one side or both. Their intervals include {share} ({source})."


def gated_content(comparison: Comparison, below: float | None) -> dict[str, Any]:
    """Return a comparison as JSON types, with the `gate_failures` if a limit is set."""
    gate = {"fail_below": below, "failures": [] if below is None else gate_failures(comparison, below)}
    return comparison.to_dict() | {"gate": gate}


def write_files(comparison: Comparison, json: Path, table: Path, below: float | None) -> None:
    """Write a comparison as JSON (see `gated_content`), and its cells as CSV."""
    write_json(json, gated_content(comparison, below))
    write_csv(comparison.cells, table)


def overview(comparison: Comparison) -> RenderableType:
    """Return the summary for a terminal, and the cells that differ, largest change first."""
    alignment = comparison.alignment
    lines = [comparison.summary()]
    if alignment.different:
        pairs = (
            f"{name} {' → '.join('unknown' if value is None else axis_text(name, value) for value in pair)}"
            for name, pair in alignment.different.items()
        )
        lines.append(f"different from base to new: {', '.join(pairs)}")
    if comparison.made_with:
        pairs = (
            f"{name} {a or 'unknown'} → {b or 'unknown'}" for name, a, b in comparison.made_with[:_MOST_NAMES]
        )
        more = len(comparison.made_with) - _MOST_NAMES
        rest = f"; and {more} more: --json lists all" if more > 0 else ""
        lines.append(f"measured with, from base to new: {'; '.join(pairs)}{rest}")
    for side, values in alignment.unmatched_values.items():
        if values:
            left = (
                f"{name} {', '.join(axis_text(name, one) for one in some)}" for name, some in values.items()
            )
            lines.append(f"only in {side}, not compared: {'; '.join(left)}")
    lines += filter(None, [repetition_note(comparison)])
    axes = [name for name, values in alignment.axes.items() if len(values) > 1]
    cells = comparison.cells
    cells = cells[~cells["verdict"].isin([SAME, NOT_COMPARABLE])]
    if cells.empty:
        return Group(*lines)
    rows = Table(*axes, "base Gbit/s", "new Gbit/s", "ratio (95 %)", "verdict")
    largest = cells.iloc[cells["log_ratio"].abs().argsort()[::-1]][:_MOST_ROWS]
    for _, row in largest.iterrows():
        rows.add_row(
            *(axis_text(name, row[name]) for name in axes),
            short(row["base"]),
            short(row["new"]),
            f"{short(row['ratio'])} ({between(row['ratio_low'], row['ratio_high'])})",
            row["verdict"],
        )
    more = len(cells) - len(largest)
    return Group(*lines, rows, *([f"and {counted(more, 'more cell')}: --output writes all"] if more else []))
