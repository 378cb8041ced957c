# SPDX-License-Identifier: Apache-2.0
"""HTML pages of a sweep and of all sweeps: findings, limits of each cell, and answers of the models.

Data flow one way: a dataset and its models become fitted cells and gains (`forecast`), flat cells (`cells`), measured
effects of remedies (`remedies`), findings (`findings`) and plain content (`content`), then one HTML file next to the
dataset, without references to other files or the network.
Templates escape text from data.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tpcsweep.claims import judge
from tpcsweep.dataset import TRANSFERS_GROUP, load, open_group
from tpcsweep.files import is_file, is_up_to_date, write_text
from tpcsweep.history import SweepHistory, find_history, junit_text, runs
from tpcsweep.installation import PACKAGE
from tpcsweep.models import current
from tpcsweep.pages.content import dataset_facts, page_content, sparkline
from tpcsweep.pages.forecast import forecast as forecast_of
from tpcsweep.pages.history import history_content
from tpcsweep.templates import render

PAGE = "index.html"
_FILES: Mapping[str, str] = tomllib.loads((PACKAGE / "results.toml").read_text(encoding="utf-8"))["page"]


def make_page(dataset: Path, page: Path, whole: Path | None = None, listed: bool = False) -> None:
    """Write the page of a dataset, with the claims and models next to it.

    Claims are judged if claims.json is missing. `whole` is a copy of an older dataset with all current variables. With
    `listed` the page links the list of all sweeps even if it does not exist yet.
    """
    whole = dataset if whole is None else whole
    folder, models = dataset.parent, current(dataset)
    beside, of_results = page.parent == folder, dataset.name == "dataset.nc"
    in_results, claims = beside and of_results, folder / "claims.json"
    judged = of_results and is_up_to_date(claims, dataset)
    linked = [(name, what) for name, what in _FILES.items() if beside and is_file(folder / name)]
    summary = load(whole)
    # The samples of 10⁴ cells are read in parts.
    with open_group(whole, "samples") as samples:
        shown = page_content(
            summary,
            samples,
            load(whole, TRANSFERS_GROUP),
            files=linked or [(os.path.relpath(dataset, page.parent), _FILES["dataset.nc"])],
            claims=orjson.loads(claims.read_bytes()) if judged else [one.to_dict() for one in judge(summary)],
            forecast=forecast_of(summary, models) if models else None,
            overview=f"../{PAGE}" if in_results and (listed or is_file(folder.parent / PAGE)) else "",
            exists=lambda path: in_results and (folder / path).exists(),
        )
    write_text(page, render("page", **shown))


def make_overview(page: Path) -> None:
    write_text(page, render("overview", sweeps=entries(page.parent), comparisons=comparisons(page.parent)))


def make_history(dataset: Path, folder: Path, fail_on: str | None) -> SweepHistory:
    """Add a dataset to a history's folder, and write the history's page, history.json and junit.xml.

    Raises HistoryError if the dataset has no date of measurement, MissingExtraError without the extra `history`.
    """
    runs.keep_run(dataset, folder)
    told = find_history(*runs.read_kept_runs(folder))
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    write_text(folder / "history.json", orjson.dumps(told.to_dict(), option=options).decode())
    write_text(folder / "junit.xml", junit_text(told, fail_on))
    write_text(folder / PAGE, render("history", **history_content(told)))
    return told


def entries(results: Path) -> list[dict[str, Any]]:
    """Return the overview's content for each results folder with a dataset, latest first."""
    found = [_entry(file) for file in sorted(results.glob("*/dataset.nc"))]
    return sorted(found, key=lambda entry: str(entry.get("until", "")), reverse=True)


def _entry(file: Path) -> dict[str, Any]:
    page = file.with_name(PAGE)
    entry: dict[str, Any] = {"folder": file.parent.name, "page": is_file(page), "problem": "", "line": ""}
    try:
        with open_group(file) as summary:
            needed = summary[["throughput", "status", "flags"]].load()
            return {**entry, **dataset_facts(needed), **sparkline(needed)}
    # A foreign or broken file must not hide the others.
    except (OSError, ValueError, KeyError) as error:
        return {**entry, "problem": f"its dataset cannot be read: {error}"}


def comparisons(results: Path) -> list[dict[str, str]]:
    """Return path, name and summary of each comparison's page in the results folders."""
    found = []
    for file in sorted(results.glob("*/comparison.json")):
        page = file.with_name("compare.html")
        if is_file(page):
            try:
                text = str(json.loads(file.read_text(encoding="utf-8"))["summary"])
            except (OSError, ValueError, KeyError, TypeError):
                text = "its comparison.json cannot be read"
            folder = file.parent.name
            found.append({"page": f"{folder}/{page.name}", "name": folder, "text": text})
    return found
