# SPDX-License-Identifier: Apache-2.0
"""Count the cells of a sweep by state, without writing, locking or deploying anything."""

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from tpcsweep.common import locks
from tpcsweep.common.numbers import counted, short
from tpcsweep.data import cell_files
from tpcsweep.data.cell_files import DamagedError, parse_cell
from tpcsweep.data.cell_result import CellResult
from tpcsweep.data.flags import graded
from tpcsweep.data.lost_links import LostLink, by_site, main_reason
from tpcsweep.data.restorations import restorations_text
from tpcsweep.running import changes, progress, run_lock, staging
from tpcsweep.sweeps.parameters import LINK, complete
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.sweeps.tournament import in_rounds


@dataclass(frozen=True)
class Status:
    """Number of cells by state; flagged cells are among the measured ones."""

    measured: int  # cells with a throughput under the current specification
    flagged: int  # measured cells with a warning or an invalid flag
    failed: int  # cells without a successful transfer; their files contain the reason
    not_measured: int  # cells that were tried without a measurement
    left: int  # cells not tried, or measured under another specification

    @property
    def cells(self) -> int:
        return self.measured + self.failed + self.missing

    @property
    def missing(self) -> int:
        """Number of cells that the next run measures."""
        return self.not_measured + self.left

    def to_dict(self) -> dict[str, int]:
        return {"cells": self.cells, **asdict(self)}


def count_cells(study: SweepStudy) -> Status:
    counts: Counter[str] = Counter()
    tried = {path for hole in staging.holes(study.folder) for path in hole.cells}
    for path, content in current_contents(study):
        if content is None:
            counts["not_measured" if path in tried else "left"] += 1
            continue
        well = content.status == "ok"
        counts["measured" if well else "failed"] += 1
        counts["flagged"] += well and bool(graded(content.flags, "warning", "invalid"))
    return Status(*(counts[name] for name in ("measured", "flagged", "failed", "not_measured", "left")))


@dataclass(frozen=True)
class SiteStatus:
    """Cells of the links of a site."""

    site: str
    sent: str  # measured of all cells with the site as the source, such as 3 of 4
    received: str  # measured of all cells with the site as the destination
    failed: int
    not_measured: int
    oldest: str  # when the oldest of its current cells was started, UTC


def count_by_site(study: SweepStudy) -> list[SiteStatus]:
    """Return the state of the cells of each site of a mesh, in the order of names; [] for other sweeps."""
    if not study.in_rounds:
        return []
    counts: dict[str, Counter[str]] = {}
    oldest: dict[str, str] = {}
    tried = {path for hole in staging.holes(study.folder) for path in hole.cells}
    for cell, (path, content) in zip(study.grid.cells, current_contents(study), strict=True):
        well = content is not None and content.status == "ok"
        for role in LINK:
            site = str(cell.value(role))
            counts.setdefault(site, Counter()).update([role, *([f"{role} ok"] if well else [])])
            counts[site]["failed"] += content is not None and not well
            counts[site]["not measured"] += content is None and path in tried
            if content is not None:
                oldest[site] = min(oldest.get(site, "~"), str(content.provenance.get("started", "")))
    return [
        SiteStatus(
            site,
            f"{count['source ok']} of {count['source']}",
            f"{count['destination ok']} of {count['destination']}",
            count["failed"],
            count["not measured"],
            oldest.get(site, ""),
        )
        for site, count in sorted(counts.items())
    ]


def flagged_files(study: SweepStudy, flag: str) -> list[Path]:
    paths = (path for path, content in current_contents(study) if content and flag in content.flags)
    files = (study.folder / "cells" / f"{path}.json" for path in paths)
    return [file for file in files if file.exists()]  # a new cell exists only in staging


def status_table(study: SweepStudy, status: Status) -> RenderableType:
    """Return a printable status: one row for each count, and the reasons for unmeasured cells."""
    rows = Table("cells", "state", "meaning")
    for count, state, meaning in (
        (status.measured, "measured", "with a throughput, under the current specification"),
        (status.flagged, "  flagged", "measured, with a warning or invalid"),
        (status.failed, "failed", "no transfer went well"),
        (status.not_measured, "not measured", "tried; the next run tries again"),
        (status.left, "left", "not tried, or measured under another specification"),
    ):
        rows.add_row(str(count), state, meaning)
    parts: list[RenderableType] = [f"{study.folder.name}: {status.cells} cells, in {study.folder}", rows]
    if by_site := count_by_site(study):
        parts.append(_sites_table(by_site))
    parts += hole_lines(study)
    parts += restoration_lines(study)
    parts += changes.stale_lines(study)
    if run := run_under_way(study.folder):
        parts += _run_lines(run)
    elif status.missing:
        parts.append(f"measure them: {study.command}")
    return Group(*parts)


def hole_lines(study: SweepStudy) -> list[str]:
    """Return the reasons for unmeasured cells: a line for each deployment, or for few sites that have all links.

    In a mesh, links without a common site that share a reason have one line.
    """
    holes = staging.holes(study.folder)
    if not study.in_rounds:
        return [
            f"{hole.deployment}: {counted(len(hole.cells), 'cell')} not measured: {hole.why}"
            for hole in holes
        ]
    lost = [
        LostLink(hole.deployment, _ends(study, hole.deployment), hole.why, len(hole.cells)) for hole in holes
    ]
    return [_hole_line(where, links) for where, links in by_site(lost)]


def restoration_lines(study: SweepStudy) -> list[str]:
    """Return a line on each setting of hosts: whether they were restored after the deployments of measured cells."""
    if not study.has_settings:
        return []
    records: dict[str, list[Mapping[str, str]]] = {}
    for _, content in current_contents(study):
        for name, record in (content.provenance.get("settings", {}) if content else {}).items():
            records.setdefault(name, []).append(record)
    return [f"hosts after {name}: {restorations_text(each)}" for name, each in records.items()]


def _ends(study: SweepStudy, path: str) -> frozenset[str]:
    """Return the sites of a link; for a link that the sweep lacks its path."""
    cells = study.grid.deployments.get(path, ())
    return frozenset(str(cell.value(role)) for cell in cells[:1] for role in LINK) or frozenset([path])


def _hole_line(where: str, lost: Sequence[LostLink]) -> str:
    """Return a line with the number of unmeasured cells, and the reason for most of them."""
    cells = counted(sum(link.cells for link in lost), "cell")
    return f"{where}: {cells} not measured: {main_reason(lost)}"


def due_files(study: SweepStudy) -> list[Path]:
    """Return the files of the links of a mesh that were measured longest ago, as many as the budget of a run allows.

    Links that are not measured come first, and use the budget.
    """
    ages: dict[str, str] = {}
    for cell, (_, content) in zip(study.grid.cells, current_contents(study), strict=True):
        started = str(content.provenance.get("started", "")) if content else ""
        ages[cell.deployment.path] = min(ages.get(cell.deployment.path, started), started)
    order = [path for links in in_rounds(study.grid) for path in links]
    due = study.testbed.affordable(study.grid, sorted(order, key=ages.__getitem__))
    files = (study.cell_file(cell) for path in due for cell in study.grid.deployments[path])
    return [file for file in files if file.exists()]


def _sites_table(by_site: list[SiteStatus]) -> Table:
    table = Table("site", "measured from", "measured to", "failed", "not measured", "oldest cell")
    for one in by_site:
        table.add_row(*map(str, astuple(one)))
    return table


def run_under_way(folder: Path) -> dict[str, Any]:
    """Return the pid and the state of the run under way in a results folder; {} if there is none."""
    pid = locks.lock_holder(folder / run_lock.LOCK)
    return {} if pid is None else {"pid": pid, **progress.read_progress(folder)}


def _run_lines(run: Mapping[str, Any]) -> Iterator[str]:
    line = f"a run is under way: snakemake with pid {run['pid']}"
    if "cells" not in run:
        yield line
        return
    left = progress.time_left(run)
    line += f", {run['done']} of its {counted(run['cells'], 'cell')} done"
    yield line + (
        f", about {progress.duration(left)} left, until about {progress.until(left)}"
        if left is not None
        else ""
    )
    if run["last"]:
        rates = (f"{path} {rate_text(rate, status)}" for path, rate, status in run["last"])
        yield "last cells: " + ", ".join(rates)
    if run["deployments"]:
        yield "being measured: " + ", ".join(run["deployments"])
    elif run["done"] >= run["cells"]:
        yield "all cells are measured: dataset, figures, models and page are being made"


def rate_text(rate: float | None, status: str) -> str:
    """Return the throughput of a cell, or its status without one."""
    return f"{short(rate)} Gbit/s" if status == "ok" and rate is not None else status


def current_contents(study: SweepStudy) -> Iterator[tuple[str, CellResult | None]]:
    """Yield each cell's path and its result, staged or published, or None if there is no current one."""
    if study.testbed.simulated:
        file = study.cells_file if study.cells_file.exists() else Path(os.devnull)
        with file.open("rb") as lines:
            for cell in study.grid.cells:
                result = None
                with contextlib.suppress(DamagedError):  # also for a missing line
                    content = parse_cell(lines.readline())
                    if complete(content.spec) == cell_spec(study, cell):
                        result = content.result
                yield cell.path, result if isinstance(result, CellResult) else None
        return
    for cell in study.grid.cells:
        result = None
        if file_or_none := staging.current_file(study, cell):
            # A concurrent run may move the file.
            with contextlib.suppress(DamagedError, FileNotFoundError):
                result = cell_files.read_cell(file_or_none).result
        yield cell.path, result if isinstance(result, CellResult) else None
