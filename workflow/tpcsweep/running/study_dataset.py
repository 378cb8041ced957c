# SPDX-License-Identifier: Apache-2.0
"""Fold a study's cell files into its dataset; files that are no current cells are measured next time."""

import contextlib
import itertools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from tpcsweep.common.files import write_json
from tpcsweep.data import cell_files
from tpcsweep.sweeps.study import Configuration, cell_spec
from tpcsweep.sweeps.sweep import Cell
from tpcsweep.testbeds.loading import Study

if TYPE_CHECKING:
    from tpcsweep.data.folding import Folded
    from tpcsweep.data.reduction import Source

FILE = "not_measured.json"  # name of the list of unmeasured cells in a study's folder
PARTIAL = "partial.nc"  # name of a dataset that is made during a run, in the study's folder
CLEARS_AT_END = "TPCSWEEP_CLEARS"
"""Environment variable that tells jobs that their run calls `clear_unmeasured` at its end."""


_ATTEMPTS = 3  # a run may replace or move the file of a cell that is being read


class Hole(NamedTuple):
    deployment: str
    cells: tuple[str, ...]
    why: str


def make_dataset(study: Study, output: Path, processes: int) -> None:
    """Fold the cells of a study, or copy an imported dataset.

    Raises DatasetError, MissingExtraError, ResultsError, and ConfigurationError for a damaged dataset.
    """
    if isinstance(study, Configuration):
        fold_study(study, output, processes)
        return
    from tpcsweep.data.opening import copy_dataset

    copy_dataset(study.file, output)


def fold_study(study: Configuration, output: Path, processes: int = 1) -> None:
    """Write the dataset of a sweep, its table and the list of unmeasured cells.

    Staged cells that the dataset contains are deleted. `clear_unmeasured` is called, unless the run does that at its
    end. Raises DatasetError if no cell was measured, or cells do not fold into one dataset.
    """
    # importing it loads xarray, which commands that only read the holes do not need
    from tpcsweep.data import folding, reduction

    grid, attributes = study.grid, study.attributes
    if study.testbed.simulated:
        specs = (cell_spec(study, cell) for cell in grid.cells)
        lines = folding.cell_lines(study.cells_file, len(grid.cells))
        _write(folding.fold(lines, grid.axes, specs, processes, attributes), output)
        return
    reasons: dict[Path, str] = {}
    files = {study.cell_file(cell): cell for cell in grid.cells if study.cell_file(cell).exists()}
    specs = (cell_spec(study, cell) for cell in files.values())
    refused: reduction.DatasetError | None = None
    try:
        _write(folding.fold(files, grid.axes, specs, processes, attributes, reasons.__setitem__), output)
    except reduction.DatasetError as error:
        refused = error
    found = _list(study, reasons)
    if CLEARS_AT_END not in os.environ:
        clear_unmeasured(study)
    if refused:
        if sum(len(hole.cells) for hole in found) < len(grid.cells):
            raise refused
        why = "; ".join(dict.fromkeys(hole.why for hole in found))
        raise reduction.DatasetError(f"no cell was measured: {why}; run snakemake again")
    cell_files.empty_staging(study)


def fold_snapshot(study: Configuration, output: Path, processes: int = 1) -> None:
    """Write the dataset of the cells so far, published or staged, beside a run: this changes nothing else.

    Its attribute `partial` counts the cells, unless it has all. Raises DatasetError if no cell is measured.
    """
    from tpcsweep.data import folding, reduction

    grid, count = study.grid, len(study.grid.cells)
    for attempt in itertools.count(1):
        sources: Iterable[Source] = ()
        if study.testbed.simulated:
            sources, cells, found = folding.cell_lines(study.cells_file, count), grid.cells, count
        else:
            files = {file: cell for cell in grid.cells if (file := _current_file(study, cell))}
            sources, cells, found = files, tuple(files.values()), len(files)
        if not found:
            raise reduction.DatasetError("no cell is measured yet")
        partial = {} if found == count else {"partial": f"{found} of {count} cells"}
        specs = (cell_spec(study, cell) for cell in cells)
        try:
            content = folding.fold(sources, grid.axes, specs, processes, {**study.attributes, **partial})
            break
        except (FileNotFoundError, reduction.DatasetError):
            if attempt == _ATTEMPTS:
                raise
    folding.write(content, output)


def remove_partial(study: Configuration) -> None:
    """Delete the dataset and page that were made during a run, if the study's own dataset is newer."""
    partial, whole = study.folder / PARTIAL, study.folder / "dataset.nc"
    with contextlib.suppress(OSError):  # there is none, or another user made it
        if whole.stat().st_mtime >= partial.stat().st_mtime:
            for file in study.folder.glob(f"{partial.stem}.*"):
                file.unlink()


def _current_file(study: Configuration, cell: Cell) -> Path | None:
    places = study.cell_file(cell), cell_files.staged_file(study, cell)
    return next((file for file in places if not cell_files.stale(file, cell_spec(study, cell))), None)


def clear_unmeasured(study: Configuration) -> None:
    """Rename or delete placeholders, damaged and stale cells' files, so that the next run measures these cells.

    Damaged files and placeholders that the list of unmeasured cells lacks are added to it. Stale files that it lacks
    remain, because the run had other targets. Rules list these files as outputs, so this must follow the last job of a
    run.
    """
    listed = {path for hole in holes(study.folder) for path in hole.cells}
    unlisted: list[tuple[Cell, str]] = []
    for cell in study.grid.cells:
        file, spec = study.cell_file(cell), cell_spec(study, cell)
        if not (stale := cell_files.stale(file, spec)) and cell.path not in listed:
            continue
        if cell_files.is_placeholder(file):
            why = str(cell_files.read_cell(file)["message"])
            file.unlink()
        elif why := cell_files.damage(file):
            cell_files.rename_rejected(file, "damaged")
        elif cell.path in listed and file.exists() and (stale or _is_rejected(study, cell)):
            cell_files.rename_rejected(file, "stale" if stale else "damaged")
        if why and cell.path not in listed:
            unlisted.append((cell, why))
    if unlisted:
        _write_holes(study, [*holes(study.folder), *_grouped(unlisted)])


def _is_rejected(study: Configuration, cell: Cell) -> bool:
    """Return whether folding rejects the file of a cell for more than what `data.cell_files.damage` sees."""
    from tpcsweep.data.reduction import Reader

    return bool(Reader(study.grid.axes).reduce(study.cell_file(cell), cell_spec(study, cell)).unusable)


def holes(folder: Path) -> list[Hole]:
    try:
        return [Hole(**hole) for hole in orjson.loads((folder / FILE).read_bytes())]
    except FileNotFoundError:
        return []


def _write(folded: "Folded", output: Path) -> None:
    from tpcsweep.data import folding, tables

    folding.write(folded, output)
    tables.write_table(folded.summary, output.with_name("cells.csv"))


def _list(study: Configuration, reasons: Mapping[Path, str]) -> list[Hole]:
    def why(cell: Cell) -> str:
        file = study.cell_file(cell)
        if file in reasons:
            return reasons[file]
        if cell_files.is_placeholder(file):
            return str(cell_files.read_cell(file)["message"])
        return "" if file.exists() else "the file was missing"

    found = _grouped((cell, why(cell)) for cell in study.grid.cells)
    _write_holes(study, found)
    return found


def _grouped(reasons: Iterable[tuple[Cell, str]]) -> list[Hole]:
    """Return a hole for each deployment and reason; cells without a reason are measured."""
    paths: dict[tuple[str, str], list[str]] = {}
    for cell, reason in reasons:
        if reason:
            paths.setdefault((cell.deployment.path, reason), []).append(cell.path)
    return [Hole(deployment, tuple(cells), reason) for (deployment, reason), cells in paths.items()]


def _write_holes(study: Configuration, found: Iterable[Hole]) -> None:
    write_json(study.folder / FILE, [hole._asdict() for hole in found])
