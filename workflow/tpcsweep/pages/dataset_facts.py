# SPDX-License-Identifier: Apache-2.0
"""The facts of a dataset that a page starts and ends with: origin, settings, state, and how it was measured."""

import math
from typing import Any

import numpy as np
import xarray as xr

from tpcsweep.common.numbers import counted
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import (
    SIMULATED,
    STATUS,
    data_origin,
    declared_coordinates,
    flagged,
    is_mesh,
    outside_sweep,
)
from tpcsweep.data.pair_rtts import rtts_of_pairs
from tpcsweep.pages.cell_columns import doubtful
from tpcsweep.pages.cell_links import cell_links
from tpcsweep.pages.machine_load import (
    SLOWED_TEXT,
    cells_on_full_machine,
    host_load,
    machine_load,
    slowed_cells,
)
from tpcsweep.pages.page_flags import noted_cells
from tpcsweep.pages.provenance_text import provenance_text
from tpcsweep.pages.shared_settings import other_settings, shared_settings, varied_settings
from tpcsweep.sweeps.designs import compared_axes
from tpcsweep.sweeps.parameters import LINK, name_text, value_text
from tpcsweep.sweeps.sweep import REPETITION

_MOST_BLOCKS = 12  # whose order is written
_FACTS = ("host", "cpu", "kernel", "software", "commit")


def dataset_facts(summary: xr.Dataset) -> dict[str, Any]:
    """Return sweep, machine, dates, and the number of cells of each status."""
    attributes = summary.attrs
    status = summary["status"].values
    known = {"record", *declared_coordinates(summary), *(["rtt"] if rtts_of_pairs(summary).size else [])}
    undeclared = sorted(set(map(str, summary.coords)) - known)
    inside = ~outside_sweep(summary).values
    measured = status != STATUS.index("not_measured")
    loud = doubtful(summary).reshape(status.shape)
    invalid = flagged(summary, *graded(FLAGS, "invalid")).values
    ok = status == STATUS.index("ok")
    quiet = ok & ~loud
    noted = int((quiet & noted_cells(summary)).sum())
    counts = {
        f"without warnings{f' ({noted} with notes)' if noted else ''}": quiet,
        "with warnings": ok & loud & ~invalid,
        "invalid": ok & invalid,
        "failed": status == STATUS.index("failed"),
        "not measured": inside & ~measured,
    }
    return {
        "name": str(attributes["sweep"]),
        "made": _origin(summary),
        "simulated": attributes["testbed_kind"] == SIMULATED,
        "from": str(attributes["measured_from"]),
        "until": str(attributes["measured_until"]),
        "facts": [
            *([name, text] for name in _FACTS if (text := provenance_text(summary, name))),
            *([name, text] for name, text in _of_the_sweep(summary).items() if text),
            *([name_text(name), value_text(name, math.nan)] for name in undeclared),
        ],
        "description": str(attributes.get("description", "")),
        "settings": shared_settings(summary),
        "varied": varied_settings(summary),
        "comment": str(attributes.get("comment", "")),
        "references": str(attributes.get("references", "")),
        "count": int(inside.sum()),
        "machine": "; ".join(filter(None, (machine_load(summary), host_load(summary)))),
        "disturbed": [
            (words, links)
            for words, which in (
                ("Cells on the full measuring machine", cells_on_full_machine(summary)),
                (f"Cells while the machine was at least {SLOWED_TEXT} slower", slowed_cells(summary)),
            )
            if (links := cell_links(summary, which))
        ],
        "host": str(attributes.get("host", "")),
        "measured_in": results_folder(summary),
        "state": f"{_size(summary)}{', all measured' * bool((measured | ~inside).all())}: "
        + ", ".join(f"{int(which.sum())} {words}" for words, which in counts.items() if which.any()),
        "failed": int(counts["failed"].sum()),
        "missing": int(counts["not measured"].sum()),
        "flagged": int((loud & measured).sum()),
        "measured": int(measured.sum()),
        "once": bool(
            summary.sizes[REPETITION] == 1 and measured.any() and attributes["testbed_kind"] != SIMULATED
        ),
    }


def _of_the_sweep(summary: xr.Dataset) -> dict[str, str]:
    return {
        "other settings": other_settings(summary),
        "order of blocks": _order_of_blocks(summary),
    }


def _order_of_blocks(summary: xr.Dataset) -> str:
    """Return the values of the settings of each block in the order of their first cells; "" without blocks."""
    if summary.attrs.get("order") != "blocks" or "started" not in summary:
        return ""
    axes = compared_axes({str(name): summary[name].values.tolist() for name in summary["throughput"].dims})
    others = [name for name in summary["started"].dims if name not in (*axes, REPETITION)]
    if not axes:
        return ""
    blocks = []
    for block in summary[REPETITION].values[:_MOST_BLOCKS]:
        first = summary["started"].sel({REPETITION: block}).min(others, skipna=True).stack(value=axes)
        known = first[first.notnull().values].sortby(first[first.notnull().values])
        values = [" and ".join(map(str, np.atleast_1d(value))) for value in known["value"].values.tolist()]
        if values:
            blocks.append(f"{block}: {', '.join(values)}")
    more = max(0, summary.sizes[REPETITION] - _MOST_BLOCKS)
    return "; ".join([*blocks, *([f"and {more} more"] if more else [])])


def results_folder(summary: xr.Dataset) -> str:
    """Return the folder in which a sweep was measured, as its run named it; "" if nobody knows."""
    return str(summary.attrs.get("cells", "")).removesuffix("/cells")


def _size(summary: xr.Dataset) -> str:
    """Return the number of settings, repetitions and cells of a sweep, and of the sites and links of a mesh."""
    inside = ~outside_sweep(summary)
    settings, cells = int(inside.any(REPETITION).sum()), counted(int(inside.sum()), "cell")
    size = counted(settings, "setting")
    if is_mesh(summary):
        sites = counted(len({*map(str, np.concatenate([summary[role].values for role in LINK]))}), "site")
        links = int(inside.any([name for name in inside.dims if name not in LINK]).sum())
        if links == settings and summary.sizes[REPETITION] == 1:
            return f"{sites}, {counted(links, 'link')}, one cell each"
        size = f"{sites}, {counted(links, 'link')}" + (f", {size}" if links != settings else "")
    return f"{size} × {counted(summary.sizes[REPETITION], 'repetition')} = {cells}"


def _origin(summary: xr.Dataset) -> str:
    """Return the origin of the throughput, with the machine of network namespaces."""
    host, origin = summary.attrs.get("host"), data_origin(summary)
    in_namespaces = host and summary.attrs["testbed_kind"] == "netns"
    return f"{origin}: network namespaces on host {host}" if in_namespaces else origin
