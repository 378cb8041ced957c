# SPDX-License-Identifier: Apache-2.0
"""Fold a study's cell files into its dataset; files that are no current cells are measured next time."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from tpcsweep import results
from tpcsweep.configuration.loading import Configuration, Study, cell_spec
from tpcsweep.configuration.sweep import Cell, by_deployment
from tpcsweep.files import write_json

if TYPE_CHECKING:
    from tpcsweep.dataset import Folded

FILE = "not_measured.json"  # name of the list of unmeasured cells in a study's folder
CLEARS_AT_END = "TPCSWEEP_CLEARS"
"""Environment variable that tells jobs that their run calls `clear_unmeasured` at its end."""


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
    from tpcsweep.dataset import earlier

    earlier.copy_completed(study.file, output)


def fold_study(study: Configuration, output: Path, processes: int = 1) -> None:
    """Write the dataset of a sweep, its table and the list of unmeasured cells.

    Staged cells that the dataset contains are deleted. `clear_unmeasured` is called, unless the run does that at its
    end. Raises DatasetError if no cell was measured, or cells do not fold into one dataset.
    """
    # importing it loads xarray, which commands that only read the holes do not need
    from tpcsweep import dataset

    grid, attributes = study.grid, study.attributes
    if study.testbed.simulated:
        specs = (cell_spec(study, cell) for cell in grid.cells)
        lines = dataset.cell_lines(study.cells_file, len(grid.cells))
        _write(dataset.fold(lines, grid.axes, specs, processes, attributes), output)
        return
    reasons: dict[Path, str] = {}
    files = {study.cell_file(cell): cell for cell in grid.cells if study.cell_file(cell).exists()}
    results.renew_times(files)  # the clock may have been set back since the measurement
    specs = (cell_spec(study, cell) for cell in files.values())
    refused: dataset.DatasetError | None = None
    try:
        _write(dataset.fold(files, grid.axes, specs, processes, attributes, reasons.__setitem__), output)
    except dataset.DatasetError as error:
        refused = error
    found = _list(study, reasons)
    if CLEARS_AT_END not in os.environ:
        clear_unmeasured(study)
    if refused:
        if sum(len(hole.cells) for hole in found) < len(grid.cells):
            raise refused
        why = "; ".join(dict.fromkeys(hole.why for hole in found))
        raise dataset.DatasetError(f"no cell was measured: {why}; run snakemake again")
    results.empty_staging(study)


def clear_unmeasured(study: Configuration) -> None:
    """Rename or delete placeholders, damaged and stale cells' files, so that the next run measures these cells.

    Rules list these files as outputs, so this must follow the last job of a run.
    """
    listed = {path for hole in holes(study.folder) for path in hole.cells}
    files = {cell.path: study.cell_file(cell) for cell in study.grid.cells}
    placeholders = {path: file for path, file in files.items() if results.is_placeholder(file)}
    if not placeholders.keys() <= listed:  # the run made no dataset
        _list(study, {})
    for file in placeholders.values():
        file.unlink()
    for cell in study.grid.cells:
        if cell.path in listed and (file := files[cell.path]).exists():
            damage = results.damage(file)
            if damage or results.stale(file, cell_spec(study, cell)):
                results.rename_rejected(file, "damaged" if damage else "stale")


def holes(folder: Path) -> list[Hole]:
    try:
        return [Hole(**hole) for hole in orjson.loads((folder / FILE).read_bytes())]
    except FileNotFoundError:
        return []


def _write(folded: "Folded", output: Path) -> None:
    from tpcsweep import dataset

    dataset.write(folded, output)
    dataset.write_table(folded.summary, output.with_name("cells.csv"))


def _list(study: Configuration, reasons: Mapping[Path, str]) -> list[Hole]:
    def why(cell: Cell) -> str:
        file = study.cell_file(cell)
        if file in reasons:
            return reasons[file]
        if results.is_placeholder(file):
            return str(results.read_cell(file)["message"])
        return "" if file.exists() else "the file was missing"

    paths: dict[tuple[str, str], list[str]] = {}
    for deployment, cells in by_deployment(study.grid.cells).items():
        for cell in cells:
            if reason := why(cell):
                paths.setdefault((deployment, reason), []).append(cell.path)
    found = [Hole(deployment, tuple(cells), reason) for (deployment, reason), cells in paths.items()]
    write_json(study.folder / FILE, [hole._asdict() for hole in found])
    return found
