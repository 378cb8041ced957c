# SPDX-License-Identifier: Apache-2.0
"""The answer that a sweep's page starts with: the most frequent limit in numbers, and the change that helps most.

Numbers follow from the limited cells themselves. Throughput that TCP's window limits is proportional to streams times
buffer; CPU time for each Gbit is that of the cells whose CPU was used up. Both are medians over cells.
"""

from collections.abc import Iterator

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import short
from tpcsweep.common.texts import capital
from tpcsweep.pages.axis_effects import each_doubling
from tpcsweep.pages.cell_columns import Cells
from tpcsweep.pages.full_rates import RAISE
from tpcsweep.pages.host_limits import HOST_RATE, NAMES, WITHOUT_CAUSE, HostRecords
from tpcsweep.pages.remedies import Remedies
from tpcsweep.sweeps.parameters import value_text

_FILLED = 0.95  # share of the path's bandwidth from which a cell fills the path
_ALIKE = 2  # factor between throughputs per byte of buffer beyond which the window is not their law
_SIDES = {"cpu_source": "source_cpu", "cpu_destination": "destination_cpu", "client": "client_cpu"}
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


def answer(
    summary: xr.Dataset,
    cells: Cells,
    remedies: Remedies,
    of_hosts: HostRecords | None = None,
    has_effects: bool = False,
) -> str:
    """Return sentences about cells without warnings, or "" if no limit of theirs is known.

    They name the most frequent limit, the records of hosts about it, the best change and what more streams give unless
    the page has effects of settings, and the other limits.
    """
    judged = cells.trusted & (cells.limit != "")
    below = judged & ~(cells.throughput >= _FILLED * cells.bandwidth) & (cells.limit != "bandwidth")
    if not judged.any():
        return ""
    if not below.any():
        path = _only(cells.bandwidth)
        rate = f" of {value_text('bandwidth', path)}" if path is not None else ""
        return f"The path{rate} limits every setting{cells.kind} ({judged.sum()})."
    names, counts = np.unique(cells.limit[below].astype(str), return_counts=True)
    limit = str(names[counts.argmax()])
    held = judged & (cells.limit == limit)
    text = next(_numbers(limit, held, judged, summary, cells), "")
    if not text:
        text = f"{capital(NAMES[limit])} limits {held.sum()} of {judged.sum()} settings{cells.kind}"
    known = of_hosts.in_settings(held) if of_hosts else ()
    change = [] if has_effects and limit == HOST_RATE else [_change(limit, held, remedies)]
    all_settings = [] if has_effects else filter(None, [each_doubling(cells, "streams")])
    return " ".join([f"{text}.", *known, *change, *all_settings, *_others(limit, judged, cells)])


def _others(limit: str, judged: Mask, cells: Cells) -> Iterator[str]:
    """Yield a sentence with the other limits and their numbers of settings, if there are any."""
    names, counts = np.unique(cells.limit[judged].astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    named = [f"{NAMES[names[at]]} ({counts[at]})" for at in order if names[at] != limit]
    if named:
        yield f"Limits of the others: {', '.join(named)}."


def _change(limit: str, held: Mask, remedies: Remedies) -> str:
    """Name the change with the largest measured gain in the limited cells, or what is known of other changes."""
    measured = (remedies.effect(remedy, held) for remedy in remedies.of(limit))
    gains = [found for found in measured if found is not None and found[1].gain]
    if not gains:
        lines = remedies.lines(dict.fromkeys(remedies.of(limit), held))
        if limit == HOST_RATE:
            return " ".join([RAISE, *lines])
        return " ".join(
            [*([] if limit in WITHOUT_CAUSE else ["No change has a measured gain here."]), *lines]
        )
    words, effect = max(gains, key=lambda each: each[1].ratio)
    return f"What helps there most: {words}. Measured gain: {effect.times('the throughput')}."


def _numbers(limit: str, held: Mask, judged: Mask, summary: xr.Dataset, cells: Cells) -> Iterator[str]:
    path = _only(cells.bandwidth)
    if path is None:
        return
    target = value_text("bandwidth", path)
    if limit == "window":
        yield from _window(held, judged, summary, cells, path)
    elif limit in _SIDES and _SIDES[limit] in summary:
        moving = held & (cells.throughput > 0)
        cost = summary[_SIDES[limit]].values.ravel()[moving] / cells.throughput[moving]
        if np.isfinite(cost).any():
            each = short(float(np.nanmedian(cost)), 2)
            need = (
                f", so {target} takes {short(float(np.nanmedian(cost)) * path, 2)} cores" if path != 1 else ""
            )
            best = max(np.flatnonzero(held), key=lambda cell: cells.throughput[cell])
            where = [cells.value(name, int(cells.places[name][best])) for name in cells.several()]
            yield (
                f"{capital(NAMES[limit])} limits {held.sum()} of {judged.sum()} settings{cells.kind}: it takes "
                f"{each} cores for each Gbit/s{need}; {_made(summary)}: at most {short(cells.throughput[best], 2)} "
                f"Gbit/s, with {', '.join(where)}"
            )


def _window(held: Mask, judged: Mask, summary: xr.Dataset, cells: Cells, path: float) -> Iterator[str]:
    """Compute the streams, and the buffer of one stream, that fill the path at the RTT with most of these cells."""
    rtt, buffer, streams, connections = (
        _values(summary, name) for name in ("rtt", "tcp_buffer", "streams", "tcp_streams")
    )
    if not np.isfinite(buffer[held]).all() or not np.isfinite(rtt[held]).all():
        return
    rtts, counts = np.unique(rtt[held], return_counts=True)
    worst = rtts[len(rtts) - 1 - counts[::-1].argmax()]
    here = held & (rtt == worst)
    connections = np.where(np.isfinite(connections), connections, 1.0)
    size = float(np.median(buffer[here]))
    each = (cells.throughput / (streams * connections * buffer))[here]
    if not 0 < each.max() <= _ALIKE * each.min():
        return
    needed = _FILLED * path / np.median(each)
    best = max(np.flatnonzero(here), key=lambda cell: cells.throughput[cell])
    count = int(streams[best])
    share = f"{here.sum()} of {(judged & (rtt == worst)).sum()} settings{cells.kind}"
    yield (
        f"At RTT {value_text('rtt', worst)}, TCP's window of {value_text('tcp_buffer', int(size))} limits "
        f"{share}: {int(np.ceil(needed / size))} streams, or one with "
        f"{_mebibytes(needed)}, fill {value_text('bandwidth', path)} if nothing else limits; {_made(summary)}: "
        f"{count} {'stream' if count == 1 else 'streams'} {short(cells.throughput[best], 2)} Gbit/s"
    )


def _values(summary: xr.Dataset, name: str) -> Floats:
    values = summary.coords.get(name, xr.DataArray(np.nan))
    if values.dtype.kind not in "iuf":
        values = xr.DataArray(np.nan)
    dims = summary["throughput"].dims
    return np.asarray(values.broadcast_like(summary["throughput"]).transpose(*dims).values.ravel(), float)


def _only(values: Floats) -> float | None:
    return float(values[0]) if len(np.unique(values)) == 1 and np.isfinite(values[0]) else None


def _mebibytes(size: float) -> str:
    return f"{short(size / 2**20, 2)} MiB"


def _made(summary: xr.Dataset) -> str:
    return "simulated" if summary.attrs["testbed_kind"] == "simulation" else "measured"
