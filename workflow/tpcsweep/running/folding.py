# SPDX-License-Identifier: Apache-2.0
"""A study's dataset from the files of its cells. Files that are no current cells are set aside, and measured next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.configuration.sweep import Cell, by_deployment
from tpcsweep.files import write_json
from tpcsweep.running import results

if TYPE_CHECKING:
    from tpcsweep.dataset import Folded

FILE = "not_measured.json"
"""The list of cells without a measurement, in a study's folder."""
_UNKNOWN = "the file was missing"


class Hole(NamedTuple):
    """Cells of one deployment without a measurement."""

    deployment: str
    cells: tuple[str, ...]
    """Their paths."""
    why: str


def fold(study: Configuration, output: Path, processes: int = 1) -> None:
    """Write the dataset of a sweep, its table and the list of holes.

    Damaged cells and cells of another specification are renamed, placeholders of cells that could not be measured are
    deleted: Snakemake measures them in the next run, also if this fails. Staged cells that the dataset contains are
    deleted.

    Raises:
        dataset.DatasetError: if no cell was measured, or cells do not fold into one dataset.
    """
    from tpcsweep import dataset  # loads xarray, which commands that only read the holes do not need

    if study.testbed.simulated:
        folded = dataset.fold_lines(
            study.cells_file,
            study.grid.axes,
            (wanted(study, cell) for cell in study.grid.cells),
            processes,
            study.attributes,
        )
        _write(folded, output)
        return
    reasons: dict[Path, str] = {}
    there = [cell for cell in study.grid.cells if study.cell_file(cell).exists()]
    result: dataset.Folded | dataset.DatasetError
    try:
        result = dataset.fold(
            map(study.cell_file, there),
            study.grid.axes,
            (wanted(study, cell) for cell in there),
            processes,
            study.attributes,
            reasons.__setitem__,
        )
    except dataset.DatasetError as error:
        result = error
    if isinstance(result, dataset.Folded):
        _write(result, output)
    holes = _clear(study, reasons)
    if not isinstance(result, dataset.Folded):
        if sum(len(hole.cells) for hole in holes) < len(study.grid.cells):
            raise result
        why = "; ".join(dict.fromkeys(hole.why for hole in holes))
        raise dataset.DatasetError(f"no cell was measured: {why}; run snakemake again")
    results.empty_staging(study)


def clear_placeholders(study: Configuration) -> None:
    """List and delete the placeholders of a measured study, if a run ended without folding them."""
    if any(results.is_placeholder(study.cell_file(cell)) for cell in study.grid.cells):
        _clear(study, {})


def _clear(study: Configuration, reasons: Mapping[Path, str]) -> list[Hole]:
    """List the cells without a measurement, delete placeholders, and set aside the files that have a reason."""
    holes = [*_holes(study, reasons)]
    write_json(study.folder / FILE, [hole._asdict() for hole in holes])
    for file in map(study.cell_file, study.grid.cells):
        if results.is_placeholder(file):
            file.unlink()
        elif file in reasons and file.exists():
            results.set_aside(file, "damaged" if results.damage(file) else "stale")
    return holes


def holes(folder: Path) -> list[Hole]:
    """Read the holes of a study's dataset."""
    try:
        return [Hole(**hole) for hole in orjson.loads((folder / FILE).read_bytes())]
    except FileNotFoundError:
        return []


def _write(folded: Folded, output: Path) -> None:
    from tpcsweep import dataset

    dataset.write(folded, output)
    dataset.write_table(folded.summary, output.with_name("cells.csv"))


def _holes(study: Configuration, reasons: Mapping[Path, str]) -> Iterable[Hole]:
    def why(cell: Cell) -> str:
        file = study.cell_file(cell)
        if file in reasons:
            return reasons[file]
        if results.is_placeholder(file):
            return str(results.read(file)["message"])
        return "" if file.exists() else _UNKNOWN

    for deployment, cells in by_deployment(study.grid.cells).items():
        by_reason: dict[str, list[str]] = {}
        for cell in cells:
            if reason := why(cell):
                by_reason.setdefault(reason, []).append(cell.path)
        for reason, paths in by_reason.items():
            yield Hole(deployment, tuple(paths), reason)
