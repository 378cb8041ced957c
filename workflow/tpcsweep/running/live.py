# SPDX-License-Identifier: Apache-2.0
"""Light page of a run under way: a table of the cells so far, which the browser loads again and again.

It is not the page that Snakemake makes at the end, because a page newer than its dataset would pass for current. It
needs neither dataset nor models, so that making it takes no time from a measurement.
"""

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from tpcsweep.common.files import replacing_file, write_text
from tpcsweep.common.numbers import short
from tpcsweep.data.cell_result import CellResult
from tpcsweep.data.flags import graded
from tpcsweep.data.places import LIVE_PAGE, RUN_UNDER_WAY
from tpcsweep.pages.rendering import render
from tpcsweep.running.overview import REFRESH, list_sweeps, update_runs
from tpcsweep.running.progress import exclusive, read_progress, time_left, until
from tpcsweep.running.status import current_contents
from tpcsweep.sweeps.study import SweepStudy

Outcome = tuple[str, float | None, bool]
"""Status and throughput of a cell, and whether it has a warning."""


def begin_page(study: SweepStudy) -> None:
    """Write the page of a run that begins, with the cells that are measured already, and list it."""
    _write(study, _measured(study))
    _list(study)


def update_page(study: SweepStudy, measured: Mapping[str, Outcome] = MappingProxyType({})) -> None:
    """Add cells to the page of a run. A full disk does not end the run."""
    with contextlib.suppress(OSError), exclusive(study.folder):
        _write(study, {**_outcomes(study.folder), **measured})
        update_runs(study.folder.parent)


def end_page(study: SweepStudy, line: str) -> None:
    """Let the page of a run lead to the page of its results if that is newer, or else tell how the run ended."""
    run = read_progress(study.folder)
    if not (study.folder / LIVE_PAGE).exists() or not run.get("cells"):  # the run had nothing to measure
        return
    page = study.folder / "index.html"
    made = page.exists() and page.stat().st_mtime >= run["began"]
    with contextlib.suppress(OSError):
        _render(study, _measured(study), line, ended=True, leads=page.name if made else "")
        (study.folder / RUN_UNDER_WAY).unlink(missing_ok=True)
    _list(study)


def _list(study: SweepStudy) -> None:
    """Write the list of all sweeps, so that it has the run from its beginning, and no longer than to its end."""
    with contextlib.suppress(OSError):
        list_sweeps(study.folder.parent)


def outcome(cell: CellResult) -> Outcome:
    return cell.status, cell.summary.throughput, bool(graded(cell.flags, "warning", "invalid"))


def progress_line(study: SweepStudy) -> str:
    """Describe how far a run is: 9 of 24 cells, until about 23:40."""
    state = read_progress(study.folder)
    total = len(study.grid.cells)
    done = total - max(state["cells"] - state["done"], 0)
    left = time_left(state)
    return f"{done} of {total} cells" + ("" if left is None else f", until about {until(left)}")


def _measured(study: SweepStudy) -> dict[str, Outcome]:
    return {path: outcome(cell) for path, cell in current_contents(study) if cell is not None}


def _outcomes(folder: Path) -> dict[str, Outcome]:
    try:
        return dict(orjson.loads((folder / RUN_UNDER_WAY).read_bytes())["outcomes"])
    except (OSError, ValueError, KeyError):
        return {}


def _write(study: SweepStudy, outcomes: dict[str, Outcome]) -> None:
    line = progress_line(study)
    with replacing_file(study.folder / RUN_UNDER_WAY) as part:
        part.write_bytes(orjson.dumps({"line": line, "outcomes": outcomes}))
    _render(study, outcomes, line)


def _render(
    study: SweepStudy, outcomes: dict[str, Outcome], line: str, *, ended: bool = False, leads: str = ""
) -> None:
    largest = max((rate for status, rate, _ in outcomes.values() if status == "ok" and rate), default=0.0)
    deployments = study.grid.deployments
    columns = list(dict.fromkeys(cell.cell_path for cell in study.grid.cells))
    under_way = read_progress(study.folder).get("deployments", ())
    rows = []
    for path in sorted(deployments, key=study.grid.priorities.__getitem__, reverse=True):
        planned = {cell.cell_path for cell in deployments[path]}
        cells = [
            _shown(outcomes.get(f"{path}/{name}"), largest) if name in planned else None for name in columns
        ]
        rows.append({"name": path, "cells": cells, "measuring": path in under_way and not ended})
    content = {"name": study.folder.name, "line": line, "ended": ended, "leads": leads, "refresh": REFRESH}
    now = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    write_text(study.folder / LIVE_PAGE, render("live", **content, columns=columns, rows=rows, now=now))


def _shown(cell: Outcome | None, largest: float) -> dict[str, Any]:
    if cell is None:
        return {"text": "", "share": 0, "kind": ""}
    status, rate, loud = cell
    if status != "ok" or rate is None:
        return {"text": status.replace("_", " "), "share": 0, "kind": "bad"}
    return {
        "text": short(rate),
        "share": round(100 * rate / largest) if largest else 0,
        "kind": "warned" * loud,
    }
