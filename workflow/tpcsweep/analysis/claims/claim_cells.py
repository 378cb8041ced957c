# SPDX-License-Identifier: Apache-2.0
"""Cells of a dataset as rows for claims, with the trust in each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from tpcsweep.data.effects import FEWEST_PAIRS
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.host_rates import fills_a_rate
from tpcsweep.data.labels import IMPORTED, SIMULATED
from tpcsweep.data.scatter import run_to_run
from tpcsweep.data.tables import FAILED, NOT_MEASURED, WITHOUT, observations
from tpcsweep.sweeps.parameters import CELL
from tpcsweep.sweeps.sweep import REPETITION

FULL = 0.95  # goodput over the path's bandwidth from which the path counts as full; headers take the rest
CPU_BOUND = 0.9  # share of its cores from which a side counts as CPU-bound

TAIL_QUANTILE = 0.9995
"""Quantile at which the normal distribution is matched to Student's t.
Claims test some dozens of levels together by the normal distribution. At this quantile, where 99.9 % are inside, errors
with few degrees of freedom count as by Student's t."""

PEAK_LUCK = stdtrit(8, TAIL_QUANTILE) / ndtri(TAIL_QUANTILE)
"""Factor of the luck of a run in tests of many differences, which counts as known with eight degrees of freedom."""

TOO_WIDE = 0.25  # largest relative standard error of a cell in a ratio; beyond it the logarithm is not normal

UNTRUSTED = ("not_steady", "machine_saturated", "path_slow", "disturbed", *graded(FLAGS, "invalid"))
"""Flags of cells that are no evidence on their setting."""

_DATA = {SIMULATED: "simulated", IMPORTED: "imported"}

PAIR = (
    *("from", "to", "before", "after", "ratio", "error", "before_full", "after_full", "cpu"),
    *("luck", "deployment"),
)
"""Columns of pairs in addition to their place."""


class Pairs(NamedTuple):
    """Pairs of cells that differ only along one axis."""

    table: pd.DataFrame
    """The place, `from` and `to` (values of the axis), `before` and `after` (throughputs), `ratio` (after over before),
    `error` (standard error of its logarithm, NaN if unknown), `before_full`, `after_full`, `cpu`, `luck` (its part in
    `error`), and `deployment` (number of those pairs that have their deployments in common)."""
    excluded_count: int  # number of pairs outside the claim


@dataclass(frozen=True)
class CellTable:
    """Cells of a dataset, one row each.

    Columns are the axes, `repetition`, `run`, every fixed parameter, `throughput`, its standard error `error` (NaN if
    unknown) and the `luck` of its run, all in Gbit/s, `cpu` (share of its cores that the busier side used), `full`
    (whether the path, or a rate limit of a host, is full), `duration` in s, `throughput_max` in Gbit/s and `failed`.
    """

    every: pd.DataFrame  # all measured cells, including failed ones
    trusted: pd.DataFrame  # successful cells without any flag in `UNTRUSTED`
    axes: tuple[str, ...]  # parameters with more than one value, without `repetition`
    left_out: Mapping[str, int]
    data: str  # whether the cells are measured, simulated or imported
    redeployed: bool = True  # whether each repetition may have a deployment of its own

    def panels(self, rows: pd.DataFrame, without: Iterable[str]) -> list[pd.DataFrame]:
        """Divide rows into groups that differ only in the axes `without`, which may include `repetition`."""
        apart = [name for name in (*self.axes, REPETITION) if name not in set(without)]
        if apart:
            return [panel for _, panel in rows.groupby(apart)]
        return [rows] if len(rows) else []

    def points(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Average repetitions: one row for each point of the grid."""
        if rows.empty:
            return rows
        place = rows.groupby(list(self.axes)).ngroup() if self.axes else pd.Series(0, rows.index)
        points = rows.assign(place=place).drop_duplicates("place").set_index("place")
        points[["throughput", "cpu"]] = rows.groupby(place)[["throughput", "cpu"]].mean()
        squares = np.bincount(place, rows["error"] ** 2)  # NaN if any is
        points["error"] = pd.Series(np.sqrt(squares) / np.bincount(place))
        points["luck"] = points["luck"] / np.sqrt(rows.groupby(place)["run"].nunique())
        points["full"] = (points["throughput"] >= FULL * points["bandwidth"]) | rows.groupby(place)[
            "shaped"
        ].all()
        return points.sort_index().reset_index(drop=True)

    def best(self, rows: pd.DataFrame, axis: str) -> pd.DataFrame:
        """Return the fastest row of each group that differs only along an axis, which is set to 0."""
        places = [panel["throughput"].idxmax() for panel in self.panels(rows, [axis])]
        return rows.loc[places].assign(**{axis: 0})

    def where(self, row: Mapping[str, Any], without: Iterable[str] = ()) -> dict[str, Any]:
        """Return a row's place on the axes, including repetition if there are several."""
        return {name: row[name] for name in self._places(without)}

    def _deployments(self, rows: pd.DataFrame, along: str) -> NDArray[np.int64]:
        names = [name for name in self.axes if name not in (*CELL, along)]
        return np.asarray(rows.groupby([*names, "run", *[REPETITION] * self.redeployed]).ngroup())

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
        """Return pairs of points that differ only along an axis: the first and the last value.

        Fewer than `FEWEST_PAIRS` pairs of points are replaced by pairs of cells of the same repetition. Cells with an
        error above `TOO_WIDE` of their throughput are in no pair.

        Two `values` of the axis may be paired instead, the first of which is the denominator. `speaks` selects the
        pairs of a claim in a frame like `Pairs.table`.
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
            "error": np.hypot(*(log_error(cells) for cells in (before, after))),
            "before_full": before["full"].astype(bool),
            "after_full": after["full"].astype(bool),
            "cpu": np.maximum(before["cpu"], after["cpu"]),
            "luck": np.hypot(before["luck"] / before["throughput"], after["luck"] / after["throughput"]),
            # Both cells of a pair along an axis of cells have their deployment in common, whose luck cancels.
            "deployment": range(len(before)) if axis in CELL else self._deployments(before, axis),
        }
        return before[self._places([axis, *without])].assign(**columns).reset_index(drop=True)


def log_error(cells: Any, luck: float = 1.0) -> Any:
    """Return the standard error of the logarithm of throughput, with a multiple of the luck of the run."""
    return np.hypot(cells["error"], luck * cells["luck"]) / cells["throughput"]


def ratio_worthy(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a small enough error for a ratio; unknown errors are accepted."""
    return rows[(rows["throughput"] > 0) & ~(rows["error"] > TOO_WIDE * rows["throughput"])]


def claim_cells(ds: xr.Dataset) -> CellTable:
    """Return the cells of a dataset as rows.

    A cell's standard error follows from its confidence interval. It is widened according to its degrees of freedom at
    `TAIL_QUANTILE`, or by the Birge ratio of the repetitions if these differ by more (R. T. Birge, Phys. Rev. 40,
    1932). Without intervals it is the relative spread of repetitions, pooled over all points. Simulations have no
    luck, other cells that of `data.scatter`. Raises KeyError if the dataset has no throughput.
    """
    figures = ("duration", "throughput_max", "source_cpu", "destination_cpu", "bandwidth", "cores")
    every = observations(ds, untrusted=UNTRUSTED, also=figures)
    every["shaped"] = fills_a_rate(ds).ravel()
    every = every[every["reason"] != NOT_MEASURED].reset_index(drop=True)
    every["failed"] = every["reason"] == FAILED
    busier = every[["source_cpu", "destination_cpu"]].max(axis=1)
    every["cpu"] = busier / every["cores"].where(np.isfinite(every["cores"]))
    every["full"] = (every["throughput"] >= FULL * every["bandwidth"]) | every["shaped"]
    kind = str(ds.attrs.get("testbed_kind", IMPORTED))
    if kind == SIMULATED:
        every["error"] *= 0  # a simulated interval is the model's, common to all cells, and no noise of each
    rows = every[every["reason"] == ""].reset_index(drop=True)
    axes = [str(name) for name in ds["throughput"].dims if name != REPETITION]
    rows["error"] = _errors(rows, axes)
    numbers = rows.groupby(axes).ngroup() if axes else 0
    share = 0.0 if kind == SIMULATED else run_to_run(rows.assign(cell=numbers))
    rows["luck"] = share * rows["throughput"]
    reasons = every["reason"].value_counts()
    left_out = {why: int(reasons[why]) for why in (FAILED, WITHOUT, *UNTRUSTED) if why in reasons}
    several = tuple(name for name in axes if ds.sizes[name] > 1)
    redeployed = ds.attrs.get("repeat", "deployments") == "deployments"
    return CellTable(every, rows, several, left_out, _DATA.get(kind, "measured"), redeployed)


def _errors(rows: pd.DataFrame, axes: list[str]) -> pd.Series:
    grouped = rows.groupby(axes) if axes else rows.groupby(np.zeros(len(rows)))
    level = grouped["throughput"].transform("mean")
    away = rows["throughput"] - level
    share = 1 - 1 / grouped["throughput"].transform("size")  # degrees of freedom of each deviation

    def spread(relative: pd.Series) -> float:
        """Return the root mean square deviation from the point's mean; 0 without repetitions."""
        degrees = float(share[relative.index].sum())
        return float(np.sqrt((relative**2).sum() / degrees)) if degrees > 0 else 0.0

    errors = rows["error"]
    unknown, noisy = errors.isna(), errors > 0  # 0 without noise, as in a simulation, remains 0
    least = stdtrit(rows["freedom"], TAIL_QUANTILE) / ndtri(TAIL_QUANTILE)
    widened = errors * np.maximum(least, spread((away / errors)[noisy]))
    return widened.fillna(spread((away / level)[unknown]) * level) if share[unknown].any() else widened
