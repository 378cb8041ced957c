# SPDX-License-Identifier: Apache-2.0
"""HTML pages of a sweep and of all sweeps: findings, limits of each cell, and sections of analyses.

Data flow one way: a dataset becomes flat cells (`cells`), measured effects of remedies (`remedies`), findings
(`findings`) and plain content (`content`), then one HTML file next to the dataset, without references to other files
or the network. Analyses supply their sections as functions (`Analysis`); a page without them is complete.
Templates escape text from data.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import xarray as xr

from tpcsweep.common.files import is_file, is_up_to_date, write_text
from tpcsweep.common.numbers import short
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import TRANSFERS_GROUP, flagged
from tpcsweep.data.opening import load, open_group
from tpcsweep.data.places import FILES, LIVE_PAGE
from tpcsweep.data.repetitions import count_in_mean
from tpcsweep.pages.content import Links, page_content, sparkline
from tpcsweep.pages.contract import SettingEffects
from tpcsweep.pages.dataset_facts import dataset_facts
from tpcsweep.pages.gains import Forecast
from tpcsweep.pages.rendering import render
from tpcsweep.sweeps.sweep import REPETITION

PAGE = "index.html"
_HISTORY = f"history/{PAGE}"  # page of a sweep's history, in its folder
_FILES: Mapping[str, str] = FILES["page"]


class Section(TypedDict, total=False):
    """Content that an analysis adds to a page."""

    claims: Sequence[Mapping[str, Any]]  # verdicts with the keys published, source, verdict, reason
    forecast: Forecast | None
    links: Links | None
    goals: Mapping[str, Any] | None  # verdict on all goals as text, and its table: heads, and rows of texts
    effects: SettingEffects | None


Analysis = Callable[[Path, xr.Dataset], Section]
"""An analysis of a dataset, by the path of its file and its summary."""


def make_page(
    dataset: Path,
    page: Path,
    listed: bool = False,
    analyses: Sequence[Analysis] = (),
) -> None:
    """Write the page of a dataset, with the sections of `analyses`.

    With `listed` the page links the list of all sweeps even if it does not exist yet.
    """
    folder = dataset.parent
    beside = page.parent == folder
    in_results = beside and dataset.name == "dataset.nc"
    linked = [(name, what) for name, what in _FILES.items() if beside and is_file(folder / name)]
    summary = load(dataset)
    # The samples of 10⁴ cells are read in parts.
    with open_group(dataset, "samples") as samples:
        sections: Section = {}
        for analysis in analyses:
            sections |= analysis(dataset, summary)
        shown = page_content(
            summary,
            samples,
            load(dataset, TRANSFERS_GROUP),
            files=linked or [(os.path.relpath(dataset, page.parent), _FILES["dataset.nc"])],
            **sections,
            overview=f"../{PAGE}" if in_results and (listed or is_file(folder.parent / PAGE)) else "",
            exists=lambda path: in_results and (folder / path).exists(),
        )
    write_text(page, render("page", **shown))


def make_first_page(dataset: Path, analyses: Sequence[Analysis]) -> Path | None:
    """Write a page next to a dataset, unless it has a newer one, to be replaced by one with more analyses.

    Its time is before that of the dataset, so that Snakemake never takes it for the whole page.
    """
    page = dataset.with_name(PAGE)
    if is_up_to_date(page, dataset):
        return None
    make_page(dataset, page, listed=True, analyses=analyses)
    earlier = dataset.stat().st_mtime - 1
    os.utime(page, (earlier, earlier))
    return page


def entries(results: Path) -> list[dict[str, Any]]:
    """Return the overview's content for each results folder with a dataset or the page of a run, latest first."""
    folders = {file.parent for name in ("dataset.nc", LIVE_PAGE) for file in results.glob(f"*/{name}")}
    entries = [_entry(folder / "dataset.nc") for folder in sorted(folders)]
    return sorted(entries, key=lambda entry: str(entry.get("until", "")), reverse=True)


def _entry(file: Path) -> dict[str, Any]:
    folder = file.parent
    pages = {"page": PAGE, "live": LIVE_PAGE, "history": _HISTORY}
    entry = {"folder": folder.name, "problem": ""} | {
        key: name if is_file(folder / name) else "" for key, name in pages.items()
    }
    if not is_file(file):
        return entry
    try:
        with open_group(file) as summary:
            names = ("throughput", "status", "flags", "duration")
            needed = summary[[name for name in names if name in summary]].load()
            loud = flagged(needed, *graded(FLAGS, "warning", "invalid"))
            settings = needed["throughput"].where(count_in_mean(needed) & ~loud).mean(REPETITION)
            highest = np.nanmax(settings.values, initial=0)
            rate = f"at most {short(highest)} Gbit/s without a warning" if highest else ""
            return {**entry, **dataset_facts(needed), "line": sparkline(needed), "highest": rate}
    # A foreign or broken file must not hide the others.
    except (OSError, ValueError, KeyError) as error:
        return {**entry, "problem": f"its dataset cannot be read: {error}"}


def comparisons(results: Path) -> list[dict[str, str]]:
    """Return path, name and summary of each comparison's page in the results folders."""
    pages = []
    for file in sorted(results.glob("*/comparison.json")):
        page = file.with_name("compare.html")
        if is_file(page):
            try:
                text = str(json.loads(file.read_text(encoding="utf-8"))["summary"])
            except (OSError, ValueError, KeyError, TypeError):
                text = "its comparison.json cannot be read"
            folder = file.parent.name
            pages.append({"page": f"{folder}/{page.name}", "name": folder, "text": text})
    return pages
