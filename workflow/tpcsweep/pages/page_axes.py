# SPDX-License-Identifier: Apache-2.0
"""Axes of a page, and their places in its picture at first; pure functions."""

from collections.abc import Sequence

import xarray as xr

from tpcsweep.data.labels import axis_name
from tpcsweep.pages.contract import Axis
from tpcsweep.pages.panel_grid import arrange_axes, places_of_map
from tpcsweep.sweeps.parameters import value_text
from tpcsweep.sweeps.sweep import REPETITION

_IN_FILES = ("null: ", "inf: ")  # beginnings of remarks on values that a page shows as words


def page_axis(values: xr.DataArray) -> Axis:
    name = str(values.name)
    return {
        "key": name,
        "label": axis_name(name),
        "words": values.dtype.kind not in "iuf",
        "values": value_texts(values),
    }


def value_texts(values: xr.DataArray) -> list[str]:
    return [value_text(str(values.name), value) for value in values.values.tolist()]


def axis_meaning(values: xr.DataArray) -> dict[str, str]:
    """Return an axis' label, and its comment, which datasets from elsewhere lack."""
    parts = str(values.attrs.get("comment", "")).split("; ")
    comment = "; ".join(part for part in parts if not part.startswith(_IN_FILES))
    label = axis_name(str(values.name))
    return {"label": label, "comment": comment if comment != label else ""}


def first_places(summary: xr.Dataset, varied: Sequence[str]) -> dict[str, str]:
    """Return the varied axes across, up or with lines, and in columns of panels; "none" without one."""
    found = arrange_axes(summary[["throughput"]].isel({REPETITION: 0}, drop=True), places_of_map(summary))
    x, y = [*(name for name in (found.x, found.y) if name is not None and name in varied), "none", "none"][:2]
    columns = found.columns if found.columns is not None and found.columns in varied else "none"
    return {"x": x, "y": y, "columns": columns}
