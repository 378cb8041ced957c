# SPDX-License-Identifier: Apache-2.0
"""The cells of a dataset as rows, with what each can be trusted to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from scipy.special import ndtri, stdtrit

from tpcsweep.claims.effects import FEWEST_PAIRS
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset import IMPORTED, SIMULATED
from tpcsweep.dataset.tables import FAILED, NOT_MEASURED, WITHOUT, observations
from tpcsweep.flags import FLAGS, graded

FULL = 0.95
"""A goodput of this share of the path's bandwidth is a full path: headers take the rest."""

CPU_BOUND = 0.9
"""A side that uses this share of its cores is bound by them."""

WIDEN = 1.3
"""By which intervals of earlier cells, which say no degrees of freedom, are widened: those of 95 % hold the truth in
85 to 90 %, 1.96/1.5."""

TAIL = 0.9995
"""Claims look at some dozens of levels at once, by the normal distribution: so far out, where 99.9 % are inside, an
error of few degrees of freedom counts as much as by Student's t."""

WIDEN_AUTOCORRELATED = 1.5
"""By which those of earlier cells flagged so are widened besides: theirs hold it in two thirds of cells."""

TOO_WIDE = 0.25
"""The largest relative standard error with which a cell enters a ratio: beyond it a logarithm is not normal."""

UNTRUSTED = ("not_steady", "machine_saturated", "path_slow", "disturbed", *graded(FLAGS, "invalid"))
"""Flags of cells that say nothing of their setting."""

_DATA = {SIMULATED: "simulated", IMPORTED: "imported"}

PAIR = ("from", "to", "before", "after", "ratio", "error", "before_full", "after_full", "cpu")
"""Columns of pairs besides their place."""


class Pairs(NamedTuple):
    """Pairs of cells that differ only along one axis."""

    kept: pd.DataFrame
    """The place, `from` and `to` (values of the axis), `before` and `after` (throughputs), `ratio` (after over before),
    `error` (standard error of its logarithm, NaN where unknown), `before_full`, `after_full`, and `cpu`."""
    left: int
    """How many were left out, as a claim does not speak of them."""


@dataclass(frozen=True)
class CellTable:
    """The cells of a dataset, a row each.

    Columns are the axes, `repetition`, every fixed parameter, `throughput` and its standard error `error` (both in
    Gbit/s; NaN where nothing says how sure it is), `cpu` (the share of its cores that the busier side used), `full`
    (whether the path is), `duration` in s, `throughput_max` in Gbit/s and `failed`.
    """

    every: pd.DataFrame
    """All that were measured, those that failed too."""
    trusted: pd.DataFrame
    """Those that went well and carry none of the flags in `UNTRUSTED`."""
    axes: tuple[str, ...]
    """Parameters with more than one value, without `repetition`."""
    left_out: Mapping[str, int]
    data: str
    """Whether they are measured, simulated or imported."""

    def panels(self, rows: pd.DataFrame, without: Iterable[str]) -> list[pd.DataFrame]:
        """Divide rows into those that differ in nothing but the axes named; `repetition` may be one of them."""
        apart = [name for name in (*self.axes, REPETITION) if name not in set(without)]
        if apart:
            return [panel for _, panel in rows.groupby(apart)]
        return [rows] if len(rows) else []

    def points(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Average repetitions: a row for each point of the grid."""
        if rows.empty:
            return rows
        place = rows.groupby(list(self.axes)).ngroup() if self.axes else pd.Series(0, rows.index)
        points = rows.assign(place=place).drop_duplicates("place").set_index("place")
        points[["throughput", "cpu"]] = rows.groupby(place)[["throughput", "cpu"]].mean()
        squares = np.bincount(place, rows["error"] ** 2)  # NaN where any is
        points["error"] = pd.Series(np.sqrt(squares) / np.bincount(place))
        points["full"] = points["throughput"] >= FULL * points["bandwidth"]
        return points.sort_index().reset_index(drop=True)

    def best(self, rows: pd.DataFrame, over: str) -> pd.DataFrame:
        """Give, of rows that differ only along one axis, those with the largest throughput, that axis being 0."""
        places = [panel["throughput"].idxmax() for panel in self.panels(rows, [over])]
        return rows.loc[places].assign(**{over: 0})

    def where(self, row: Mapping[str, Any], without: Iterable[str] = ()) -> dict[str, Any]:
        """Give a row's place on the axes, repetition included where there are several."""
        return {name: row[name] for name in self._places(without)}

    def _places(self, without: Iterable[str]) -> list[str]:
        names = [*self.axes, *[REPETITION] * self._repeated]
        return [name for name in names if name not in set(without)]

    @cached_property
    def _repeated(self) -> bool:
        return bool(self.every[REPETITION].nunique() > 1)

    def pairs(
        self,
        rows: pd.DataFrame,
        axis: str,
        values: Sequence[Any] | None = None,
        speaks: Callable[[pd.DataFrame], pd.Series] | None = None,
    ) -> Pairs:
        """Give pairs of points that differ only along an axis, the first and the last along it.

        Of fewer than `FEWEST_PAIRS` points, pairs of cells of the same repetition are given instead. Cells whose
        error is more than `TOO_WIDE` of their throughput enter no pair.

        Of two values of the axis those pairs are given, of which the first value is the one compared with. `speaks`
        says which pairs of a frame as `Pairs.kept` a claim is about; None: all.
        """
        for cells, without in ((self.points(rows), [REPETITION]), (rows, [])):
            frame = self._pairs(cells, axis, values, without)
            kept = frame if speaks is None or frame.empty else frame[speaks(frame)]
            if len(kept) >= FEWEST_PAIRS or not self._repeated:
                break
        return Pairs(kept, len(frame) - len(kept))

    def _pairs(
        self, rows: pd.DataFrame, axis: str, values: Sequence[Any] | None, without: Sequence[str]
    ) -> pd.DataFrame:
        sure = ratio_worthy(rows)
        if values is not None:
            sure = sure[sure[axis].isin(list(values))]
        apart = [name for name in (*self.axes, REPETITION) if name not in {axis, *without}]
        panel = sure.groupby(apart).ngroup() if apart else pd.Series(0, sure.index)
        order = sure.assign(panel=panel).sort_values(["panel", axis])
        first, last = (
            order.drop_duplicates("panel", keep=end).set_index("panel") for end in ("first", "last")
        )
        differ = first[axis] != last[axis]
        before, after = first[differ], last[differ]
        if values is not None:
            turned = before[axis] != values[0]
            before, after = before.where(~turned, after), after.where(~turned, before)
        columns = {
            "from": before[axis],
            "to": after[axis],
            "before": before["throughput"],
            "after": after["throughput"],
            "ratio": after["throughput"] / before["throughput"],
            "error": np.hypot(before["error"] / before["throughput"], after["error"] / after["throughput"]),
            "before_full": before["full"].astype(bool),
            "after_full": after["full"].astype(bool),
            "cpu": np.maximum(before["cpu"], after["cpu"]),
        }
        return before[self._places([axis, *without])].assign(**columns).reset_index(drop=True)


def ratio_worthy(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the rows whose throughput is sure enough for a ratio; one of unknown error is taken as it is."""
    return rows[(rows["throughput"] > 0) & ~(rows["error"] > TOO_WIDE * rows["throughput"])]


def cells_of(ds: xr.Dataset) -> CellTable:
    """Give the cells of a dataset as rows.

    The standard error of a cell is that of its confidence interval, widened to what its degrees of freedom mean at
    `TAIL`, or by `WIDEN` where they are not known, or by the Birge ratio of the repetitions where these differ by more
    (R. T. Birge, Phys. Rev. 40, 1932). Without intervals it is the relative spread of repetitions, over all points
    together.

    Raises:
        KeyError: for a dataset without throughput.
    """
    figures = ("duration", "throughput_max", "source_cpu", "destination_cpu", "bandwidth", "cores")
    every = observations(ds, untrusted=UNTRUSTED, also=figures)
    every = every[every["reason"] != NOT_MEASURED].reset_index(drop=True)
    every["failed"] = every["reason"] == FAILED
    busier = every[["source_cpu", "destination_cpu"]].max(axis=1)
    every["cpu"] = busier / every["cores"].where(np.isfinite(every["cores"]))
    every["full"] = every["throughput"] >= FULL * every["bandwidth"]
    kind = str(ds.attrs.get("testbed_kind", IMPORTED))
    if kind == SIMULATED:
        every["error"] *= 0  # its interval is the model's, the same for all cells, and no noise of each
    every.loc[every["autocorrelated"], "error"] *= WIDEN_AUTOCORRELATED
    rows = every[every["reason"] == ""].reset_index(drop=True)
    axes = [str(name) for name in ds["throughput"].dims if name != REPETITION]
    rows["error"] = _errors(rows, axes)
    reasons = every["reason"].value_counts()
    return CellTable(
        every=every,
        trusted=rows,
        axes=tuple(name for name in axes if ds.sizes[name] > 1),
        left_out={why: int(reasons[why]) for why in (FAILED, WITHOUT, *UNTRUSTED) if why in reasons},
        data=_DATA.get(kind, "measured"),
    )


def _errors(rows: pd.DataFrame, axes: list[str]) -> pd.Series:
    grouped = rows.groupby(axes) if axes else rows.groupby(np.zeros(len(rows)))
    level = grouped["throughput"].transform("mean")
    away = rows["throughput"] - level
    share = 1 - 1 / grouped["throughput"].transform("size")  # degrees of freedom that each deviation has

    def spread(relative: pd.Series) -> float:
        """Root mean square of deviations from the mean of the point; 0 where none is repeated."""
        degrees = float(share[relative.index].sum())
        return float(np.sqrt((relative**2).sum() / degrees)) if degrees > 0 else 0.0

    errors = rows["error"]
    unknown, noisy = errors.isna(), errors > 0  # without noise, as in a simulation, it is 0 and stays so
    freedom = rows["freedom"]
    least = np.where(np.isinf(freedom), WIDEN, stdtrit(freedom, TAIL) / ndtri(TAIL))
    widened = errors * np.maximum(least, spread((away / errors)[noisy]))
    return widened.fillna(spread((away / level)[unknown]) * level) if share[unknown].any() else widened
