# SPDX-License-Identifier: Apache-2.0
"""Staging: cells between measurement and dataset, and the list of cells that could not be measured.

Snakemake deletes the new outputs of a failed or killed job, and of a job whose output a user deleted meanwhile.
Therefore a job writes each cell into `staging/` and copies it to its place, and folding empties `staging/`. Each
function names the guarantee that it serves (docs/developing.md).
"""

import contextlib
import itertools
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tpcsweep.common.files import replacing_file, write_json
from tpcsweep.data import cell_files
from tpcsweep.data.cell_result import NotMeasured
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.sweeps.sweep import Cell

FILE = "not_measured.json"  # name of the list of unmeasured cells in a study's folder
CLEARS_AT_END = "TPCSWEEP_CLEARS"
"""Environment variable that tells jobs that their run calls `clear_unmeasured` at its end."""


def staged_file(study: SweepStudy, cell: Cell) -> Path:
    return study.folder / "staging" / f"{cell.path}.json"


def current_file(study: SweepStudy, cell: Cell) -> Path | None:
    """Return a cell's current file, published or staged. A run can be watched before its cells are published."""
    places = study.cell_file(cell), staged_file(study, cell)
    return next((file for file in places if not cell_files.stale(file, cell_spec(study, cell))), None)


def stale_cells(study: SweepStudy) -> Iterator[Cell]:
    """Yield the cells of a measured study whose files are missing or not current. No other cell is measured."""
    for cell in study.grid.cells:
        if cell_files.stale(study.cell_file(cell), cell_spec(study, cell)):
            yield cell


# --- from staging to a cell's place


def adopt(study: SweepStudy) -> None:
    """Copy current cells from staging to their places. A killed job loses no measured cell."""
    for cell in study.grid.cells:
        publish(staged_file(study, cell), study.cell_file(cell), cell_spec(study, cell))


def publish(staged: Path, path: Path, wanted: Mapping[str, Any]) -> bool:
    """Copy a staged cell to its place if needed; return whether it is current there.

    The copy in staging outlives Snakemake's deletion of outputs. A damaged staged file is deleted, and an old cell's
    file at the place is renamed.
    """
    if not cell_files.stale(path, wanted):
        return True
    if cell_files.damage(staged):
        shutil.rmtree(staged) if staged.is_dir() else staged.unlink()
    if cell_files.stale(staged, wanted):
        return False
    _keep_measurement(path)
    with replacing_file(path) as part:
        shutil.copyfile(staged, part)
    return True


def write_placeholder(path: Path, spec: Mapping[str, Any], why: str) -> None:
    """Write a file for a cell that could not be measured, so that its job succeeds and the dataset is made."""
    _keep_measurement(path)
    cell_files.write_cell(path, spec, NotMeasured(why, cell_files.utc_timestamp()))


def _keep_measurement(path: Path) -> None:
    if path.exists() and cell_files.unmeasured_reason(path) is None:
        set_aside(path, "damaged" if cell_files.damage(path) else "stale")


def set_aside(path: Path, reason: str) -> Path:
    """Rename a file that is no current cell, and return its new path.

    Cells of another specification are never folded and never deleted, and Snakemake measures a missing one.
    """
    numbers = itertools.chain([""], itertools.count(2))
    names = (path.with_name(f"{path.name}.{reason}{number}") for number in numbers)
    return path.rename(next(name for name in names if not name.exists()))


def empty(study: SweepStudy) -> None:
    """Delete the staged cells that equal their published files, which the dataset contains.

    A cell that a user deletes afterwards is measured again, and not adopted.
    """
    folder = study.folder / "staging"
    for cell in study.grid.cells:
        if cell_files.same_bytes(staged := staged_file(study, cell), study.cell_file(cell)):
            staged.unlink()
    for path in (*sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True), folder):
        with contextlib.suppress(OSError):
            path.rmdir()


# --- cells whose files Snakemake would take for finished


def clear_unmeasured(study: SweepStudy) -> None:
    """Rename damaged and stale cells' files and delete placeholders, so that the next run measures these cells.

    The list of unmeasured cells afterwards has the reasons of this run: a placeholder's replaces that of an earlier
    run, damaged files that folding did not see are added, and measured cells are removed. A run during which a cell is
    damaged does not exit with 0. Stale files that the list lacks remain, because the run had other targets. Rules list
    these files as outputs, so this must follow the last job of a run.
    """
    listed = {path for hole in holes(study.folder) for path in hole.cells}
    unmeasured: list[tuple[Cell, str]] = []
    measured: set[str] = set()
    for cell in study.grid.cells:
        file, spec = study.cell_file(cell), cell_spec(study, cell)
        if not (stale := cell_files.stale(file, spec)) and cell.path not in listed:
            continue
        if (why := cell_files.unmeasured_reason(file)) is not None:
            file.unlink()
            unmeasured.append((cell, why))
        elif why := cell_files.damage(file):
            set_aside(file, "damaged")
            if cell.path not in listed:
                unmeasured.append((cell, why))
        elif cell.path in listed and file.exists():
            if stale or _is_rejected(study, cell):
                set_aside(file, "stale" if stale else "damaged")
            else:
                measured.add(cell.path)
    if unmeasured or measured:
        _relist(study, unmeasured, measured)


def retry_failed(study: SweepStudy) -> None:
    """Rename failed cells' files and list them with their messages, so that the next run measures these cells.

    Snakemake calls no hook of a run without jobs, so a sweep without any measured cell would end with 0 otherwise.
    """
    failed = []
    for cell in study.grid.cells:
        file = study.cell_file(cell)
        if not cell_files.stale(file, cell_spec(study, cell)):
            failed.append((cell, cell_files.read_cell(file).result.message or "failed"))
            file.replace(file.with_name(f"{file.name}.failed"))
    _relist(study, failed)


def _is_rejected(study: SweepStudy, cell: Cell) -> bool:
    """Return whether folding rejects the file of a cell for more than what `data.cell_files.damage` sees."""
    # It loads xarray, which commands that only read the holes do not need.
    from tpcsweep.data.reduction import Reader

    return bool(Reader(study.grid.axes).reduce(study.cell_file(cell), cell_spec(study, cell)).unusable)


# --- the list of unmeasured cells


class Hole(NamedTuple):
    """Cells of a deployment that could not be measured for the same reason."""

    deployment: str
    cells: tuple[str, ...]
    why: str


def holes(folder: Path) -> list[Hole]:
    try:
        return [Hole(**hole) for hole in orjson.loads((folder / FILE).read_bytes())]
    except FileNotFoundError:
        return []


def list_holes(study: SweepStudy, rejected: Mapping[Path, str]) -> list[Hole]:
    """Write and return the list of unmeasured cells. `rejected` has the reasons of folding by file."""

    def why(cell: Cell) -> str:
        file = study.cell_file(cell)
        if file in rejected:
            return rejected[file]
        return cell_files.unmeasured_reason(file) or ("" if file.exists() else "the file was missing")

    holes = _grouped((cell, why(cell)) for cell in study.grid.cells)
    _write_holes(study, holes)
    return holes


def _grouped(reasons: Iterable[tuple[Cell, str]]) -> list[Hole]:
    """Return a hole for each deployment and reason; cells without a reason are measured."""
    paths: dict[tuple[str, str], list[str]] = {}
    for cell, reason in reasons:
        if reason:
            paths.setdefault((cell.deployment.path, reason), []).append(cell.path)
    return [Hole(deployment, tuple(cells), reason) for (deployment, reason), cells in paths.items()]


def _relist(study: SweepStudy, reasons: Sequence[tuple[Cell, str]], measured: Collection[str] = ()) -> None:
    """Put cells with new reasons first in the list of unmeasured cells, and remove `measured` ones."""
    newer = {cell.path for cell, _ in reasons}.union(measured)
    kept = [
        hole._replace(cells=tuple(each for each in hole.cells if each not in newer))
        for hole in holes(study.folder)
    ]
    _write_holes(study, [*_grouped(reasons), *(hole for hole in kept if hole.cells)])


def _write_holes(study: SweepStudy, holes: Iterable[Hole]) -> None:
    write_json(study.folder / FILE, [hole._asdict() for hole in holes])
