# SPDX-License-Identifier: Apache-2.0
"""Time series and transfers of a sweep's cells for its page, in a bounded number of bytes; pure functions.

With very many cells, series are coarser, then have the goodput alone, then are absent, and fewer transfers are listed.
"""

import base64
import math
from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from tpcsweep.common.numbers import short
from tpcsweep.data.labels import SIMULATED
from tpcsweep.data.variables import SAMPLES
from tpcsweep.pages.contract import Distinct, Numbered, Quantity, Series, Texts, Transfers

SERIES_BYTES = 1_500_000  # bytes of all cells' series together, before encoding as text
_FINEST, _COARSEST = 160, 24
"""Points of a cell's series: at most the width of a chart, and no series at all below the smaller number."""
MOST_TRANSFERS = 40_000  # of all cells together
_GAP = 255  # byte of a point without a sample; those below it are levels
_NO_SAMPLES = "No time series: the cell has no samples."
_TOO_LARGE = "The page is too large for time series; the dataset has them."
_QUANTITIES = {
    "goodput": ("goodput", "goodput", "accent"),
    "source_cpu": ("source", "CPU", "accent"),
    "destination_cpu": ("destination", "CPU", "mark"),
    "client_cpu": ("client", "CPU", "soft"),
    "rtt_loaded": ("RTT", "round-trip time", "accent"),
    "retransmits": ("retransmits", "retransmitted segments", "accent"),
}
"""Quantities of a cell over time: label, title of the chart, and colour of the style; `goodput` comes first."""


def cell_series(summary: xr.Dataset, samples: xr.Dataset) -> Series:
    """Return each cell's samples as bytes: means over equal times, scaled from zero to the cell's maximum."""
    samples = _at_equal_times(samples)
    cells, times = summary["throughput"].size, samples.sizes.get("time", 0)
    names = [name for name in _QUANTITIES if name in samples]
    budget = SERIES_BYTES // max(cells, 1)
    if len(names) * _COARSEST > budget:
        names = names[:1]
    points = min(_FINEST, times, budget // max(len(names), 1))
    if points < min(_COARSEST, max(times, 1)) or not times:
        absent = _TOO_LARGE if times else _NO_SAMPLES
        return {"points": 0, "step": 0.0, "gap": _GAP, "quantities": [], "explained": "", "absent": absent}
    end = float(samples["time"].values[-1])
    coded = [_quantity(name, samples, summary["throughput"].dims, points, end / times) for name in names]
    return {
        "points": points,
        "step": end / points,
        "gap": _GAP,
        "quantities": [each for each in coded if each is not None],
        "explained": f"Means of {short(end / points)} s; grey: warm-up; band: the interval.",
        "absent": _NO_SAMPLES,
    }


def _at_equal_times(samples: xr.Dataset) -> xr.Dataset:
    """Return the samples at equal times; each lasts from the time before it, as simulated ones do for longer."""
    if samples.sizes.get("time", 0) < 2:
        return samples
    ends = samples["time"].values
    step = np.diff(ends, prepend=0.0).min()
    equal = np.arange(1, round(ends[-1] / step) + 1) * step
    if len(equal) == len(ends):
        return samples
    return samples.isel(time=np.searchsorted(ends, equal - step / 2)).assign_coords(time=equal)


def _quantity(
    name: str, samples: xr.Dataset, dims: tuple[object, ...], points: int, interval: float
) -> Quantity | None:
    flat = samples[name].transpose(*dims, "time")
    times = flat.sizes["time"]
    starts = np.flatnonzero(np.diff(np.arange(times) * points // times, prepend=-1))
    # One part of the grid at a time, because all samples of many cells would exceed the memory.
    parts = (flat.isel({flat.dims[0]: first}).values.reshape(-1, times) for first in range(flat.shape[0]))
    means = np.concatenate([_means(part, starts) for part in parts])
    units = SAMPLES[name].units.replace("1", "")
    if name == "retransmits":
        means, units = means / interval, "per s"
    if name != "goodput" and not np.isfinite(means).any():
        return None
    top = np.nan_to_num(means).max(axis=1)
    levels = np.rint(means / np.where(top > 0, top, 1)[:, None] * (_GAP - 1))
    coded = np.nan_to_num(levels, nan=_GAP).astype(np.uint8)
    label, chart, colour = _QUANTITIES[name]
    return {
        "key": name,
        "label": label,
        "chart": chart,
        "colour": f"var(--{colour})",
        "units": units,
        "top": as_texts(top),
        "bytes": base64.b64encode(coded.tobytes()).decode(),
    }


def _means(part: NDArray[np.float64], starts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the means of each row between `starts`; NaN without a sample."""
    known = np.isfinite(part)
    count = np.add.reduceat(known, starts, axis=1, dtype=int)
    total = np.add.reduceat(np.where(known, part, 0.0), starts, axis=1, dtype=float)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def first_transfers(transfers: xr.Dataset, cells: int) -> Transfers:
    """Return the first transfers of each cell in the order of their starts, and the number of transfers."""
    names = ["cell", "stream", "start", "end", "rate", "ok", "message"]
    rows = transfers[names].to_dataframe().sort_values(["cell", "start"])
    counts = np.bincount(rows["cell"].astype(int), minlength=cells)
    most = max(2, MOST_TRANSFERS // max(int((counts > 0).sum()), 1))
    kept = rows.groupby("cell").head(most)
    return {
        "counts": counts.tolist(),
        "most": most,
        "stream": kept["stream"].astype(int).tolist(),
        "start": as_texts(kept["start"]),
        "end": as_texts(kept["end"]),
        "rate": as_texts(kept["rate"]),
        "failures": numbered(np.where(kept["ok"] == 1, "", _failures(kept["message"]))),
    }


def _failures(messages: Iterable[object]) -> list[str]:
    return [f"failed: {message}" if message else "failed" for message in messages]


def missing_interval(summary: xr.Dataset) -> str:
    """Return why a measured cell has no interval; "" for datasets whose intervals are not those of samples."""
    is_sampled = "measurement_interval" in summary.attrs and summary.attrs["testbed_kind"] != SIMULATED
    return "no interval: fewer than eight samples after the warm-up" if is_sampled else ""


def as_texts(values: ArrayLike) -> Texts:
    """Return numbers as texts, None for numbers that are not finite."""
    return [short(value) if math.isfinite(value) else None for value in np.ravel(values).tolist()]


def distinct(texts: Sequence[str]) -> Distinct:
    number = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    return {"texts": list(number), "at": [number[text] for text in texts]}


def numbered(texts: Iterable[object]) -> Numbered:
    """Return the texts that are not empty, with their places."""
    return [(at, str(text)) for at, text in enumerate(texts) if text]
