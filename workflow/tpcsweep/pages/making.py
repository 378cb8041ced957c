# SPDX-License-Identifier: Apache-2.0
"""Pages written beside the datasets that they are of."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from tpcsweep.configuration.loading import Configuration
from tpcsweep.dataset import TRANSFERS_GROUP
from tpcsweep.files import is_file, write_text
from tpcsweep.pages import rendering
from tpcsweep.pages.content import Beside, about, content, sparkline

PAGE = "index.html"
_FILES = (
    ("report.html", "figures with captions, every cell as a table, how each was made (snakemake report)"),
    ("dataset.nc", "every cell with its interval, flags, provenance and time series, in NetCDF 4"),
    ("cells.csv", "every cell, for spreadsheets"),
    ("claims.csv", "verdicts on published claims"),
)
_MADE = (
    ("models.json", "fitted models"),
    ("notebooks/models.html", "fitted models, drawn"),
    ("notebooks/claims.html", "published claims, with the evidence"),
    ("history/index.html", "this sweep over time, as it was measured again and again"),
)
"""Named where they are there: other targets make them."""


def make(configuration: Configuration) -> None:
    """Write the page of a configuration's dataset, and the list of all sweeps in the folder of results."""
    folder = configuration.folder
    dataset = folder / "dataset.nc"
    # Anew, of the whole grid: of 10⁴ cells the samples are read a part at a time.
    with xr.open_dataset(dataset, group="samples") as samples:
        summary = xr.load_dataset(dataset)
        transfers = xr.load_dataset(dataset, group=TRANSFERS_GROUP)
        shown = content(summary, samples, transfers, _beside(configuration, dataset))
    write_text(folder / PAGE, rendering.page(shown))
    write_text(configuration.results / PAGE, rendering.overview(entries(configuration.results)))


def entries(results: Path) -> list[dict[str, Any]]:
    """Give what the list of sweeps says of each folder of results that has a dataset, the latest first."""
    found = [_entry(file) for file in sorted(results.glob("*/dataset.nc"))]
    return sorted(found, key=lambda entry: str(entry.get("until", "")), reverse=True)


def _entry(file: Path) -> dict[str, Any]:
    page = file.with_name(PAGE)
    entry: dict[str, Any] = {"folder": file.parent.name, "page": is_file(page), "problem": "", "line": ""}
    try:
        with xr.open_dataset(file) as summary:
            needed = summary[["throughput", "status", "flags"]].load()
            return {**entry, **about(needed), "line": _polyline(sparkline(needed))}
    # Whatever somebody has put there must not keep the others from being listed.
    except (OSError, ValueError, KeyError) as error:
        return {**entry, "problem": f"its dataset cannot be read: {error}"}


def _polyline(values: list[float | None]) -> str:
    """The points of a line through values, in a box of 100 × 30."""
    known = [(at, value) for at, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return ""
    top = max(value for _, value in known) or 1.0
    wide = 100 / (len(values) - 1)
    return " ".join(f"{at * wide:.1f},{29 - 28 * value / top:.1f}" for at, value in known)


def _beside(configuration: Configuration, dataset: Path) -> Beside:
    folder = configuration.folder
    models = folder / "models.json"
    # Of an earlier state of the dataset they would say something else than the rest of the page.
    current = is_file(models) and models.stat().st_mtime >= dataset.stat().st_mtime
    return Beside(
        files=[*_FILES, *((name, what) for name, what in _MADE if is_file(folder / name))],
        cells=list(_paths(configuration)) if configuration.measures else (),
        folder=str(folder),
        command=shlex.join(
            ["snakemake", "--config", *(f"{key}={value}" for key, value in configuration.run.data.items())]
        ),
        claims=json.loads((folder / "claims.json").read_text(encoding="utf-8")),
        models=json.loads(models.read_text(encoding="utf-8"))["choice"] if current else {},
    )


def _paths(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Of each place of the flattened grid the paths that name its deployment and the cell in it."""
    axes = configuration.grid.axes
    places = {name: {value: at for at, value in enumerate(values)} for name, values in axes.items()}
    shape = tuple(map(len, axes.values()))
    paths = [("", "")] * int(np.prod(shape))
    for cell in configuration.grid.cells:
        at = tuple(places[name][value] for name, value in cell.axes.items())
        order = tuple(at[list(cell.axes).index(name)] for name in axes)
        paths[int(np.ravel_multi_index(order, shape))] = cell.deployment.path, cell.cell_path
    yield from paths
