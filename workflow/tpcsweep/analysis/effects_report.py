# SPDX-License-Identifier: Apache-2.0
"""Tables of a report on settings of hosts: every effect, and means of the figures that sites compare."""

from collections.abc import Mapping
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from matplotlib.figure import Figure

from tpcsweep.analysis.block_effects import block_effects, default_settings, verdict_text
from tpcsweep.analysis.effects_plots import TOPIC, forest
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.tables import observations
from tpcsweep.data.variables import SUMMARY
from tpcsweep.pages.figures.panels import placeholder
from tpcsweep.sweeps.problems import ConfigurationError

_COLUMNS = [
    "setting",
    "value",
    "reference",
    "axis",
    "at",
    "measure",
    "ratio",
    "low",
    "high",
    "blocks",
    "p",
    "verdict",
]
COMPLETION = "completion of a file (s)"
_FIGURES = ("throughput", "source_cpu", "destination_cpu", "machine_cpu", "disk_wait", "retransmits")
HOSTS = "host_"
"""Beginning of the names of figures of the hosts, which a testbed with `hosts` records."""


def report(summary: xr.Dataset) -> tuple[Figure, pd.DataFrame, list[str]]:
    """Return the figure and the table of all effects, and notes; the reason if they cannot be estimated."""
    try:
        found = block_effects(summary)
    except ConfigurationError as error:
        return (
            placeholder(summary, TOPIC, str(error)),
            pd.DataFrame(columns=_COLUMNS),
            [str(error)],
        )
    rows = [vars(row) | {"verdict": verdict_text(row, found.at_least)} for row in found.rows]
    return forest(summary, found), pd.DataFrame(rows)[_COLUMNS], found.notes


def metrics(summary: xr.Dataset, transfers: xr.Dataset) -> pd.DataFrame:
    """Return means over the usable cells of each combination of settings, a row for each, and units in the heads.

    Without settings the table is empty.

    The time to complete a file is the median over all transfers that ended well. Figures that no cell has are left out.
    """
    if not (settings := default_settings(summary)):
        return pd.DataFrame()
    hosts = [str(name) for name in summary.data_vars if str(name).startswith(HOSTS)]
    figures = [name for name in (*_FIGURES, *hosts) if name in summary and summary[name].dtype.kind == "f"]
    rows = observations(summary, untrusted=graded(FLAGS, "invalid"), also=figures)
    usable = rows[rows["reason"] == ""]
    means = usable.groupby(settings, sort=False)[figures].mean().dropna(axis="columns", how="all")
    means.insert(0, "cells", usable.groupby(settings, sort=False).size())
    if transfers.sizes.get("transfer"):
        cells = transfers[[*settings, "ok", "total"]].to_dataframe()
        means[COMPLETION] = cells[cells["ok"] == 1].groupby(settings)["total"].median()
    return means.rename(columns=_heads(summary)).reset_index()


def _heads(summary: xr.Dataset) -> Mapping[str, str]:
    units: dict[Any, str] = {name: str(summary[name].attrs.get("units", "1")) for name in summary.data_vars}
    known = {name: units.get(name, "1") for name in (*SUMMARY, *units)}
    return {str(name): f"{name} ({unit})" for name, unit in known.items() if unit != "1"}
