# SPDX-License-Identifier: Apache-2.0
"""Fold a study's cell files into its dataset; cells without a current file are measured next time."""

import contextlib
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep.running import staging
from tpcsweep.running.progress import read_progress
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.testbeds.loading import Study

if TYPE_CHECKING:
    from tpcsweep.data.folding import Folded
    from tpcsweep.data.reduction import Source

PARTIAL = "partial.nc"  # name of a dataset that is made during a run, in the study's folder


_ATTEMPTS = 3  # a run may replace or move the file of a cell that is being read


def make_dataset(study: Study, output: Path, processes: int) -> None:
    """Fold the cells of a study, or copy an imported dataset.

    Raises DatasetError, MissingExtraError, ResultsError, and ConfigurationError for a damaged dataset.
    """
    if isinstance(study, SweepStudy):
        fold_study(study, output, processes)
        return
    from tpcsweep.data.opening import copy_dataset

    copy_dataset(study.file, output)


def fold_study(study: SweepStudy, output: Path, processes: int = 1) -> None:
    """Write the dataset of a sweep, its table and the list of unmeasured cells.

    Staged cells that the dataset contains are deleted. `staging.clear_unmeasured` is called, unless the run does that
    at its end. Raises DatasetError if no cell was measured, or cells do not fold into one dataset.
    """
    # importing it loads xarray, which commands that only read the holes do not need
    from tpcsweep.data import folding, reduction

    grid, attributes = study.grid, dict(study.attributes)
    if study.testbed.simulated:
        specs = (cell_spec(study, cell) for cell in grid.cells)
        lines = folding.cell_lines(study.cells_file, len(grid.cells))
        _write(folding.fold(lines, grid.axes, specs, processes, attributes), output)
        return
    reasons: dict[Path, str] = {}
    files = {study.cell_file(cell): cell for cell in grid.cells if study.cell_file(cell).exists()}
    specs = (cell_spec(study, cell) for cell in files.values())
    if len(files) < len(grid.cells) and read_progress(study.folder).get("stopped"):
        attributes["stopped"] = "by a signal, such as that of Ctrl-C"
    refused: reduction.DatasetError | None = None
    try:
        _write(folding.fold(files, grid.axes, specs, processes, attributes, reasons.__setitem__), output)
    except reduction.DatasetError as error:
        refused = error
    holes = staging.list_holes(study, reasons)
    if staging.CLEARS_AT_END not in os.environ:
        staging.clear_unmeasured(study)
    if refused:
        if sum(len(hole.cells) for hole in holes) < len(grid.cells):
            raise refused
        why = "; ".join(dict.fromkeys(hole.why for hole in holes))
        raise reduction.DatasetError(f"no cell was measured: {why}; run snakemake again")
    staging.empty(study)


def fold_snapshot(study: SweepStudy, output: Path, processes: int = 1) -> None:
    """Write the dataset of the cells so far, published or staged, beside a run: this changes nothing else.

    Its attribute `partial` counts the cells, unless it has all. Raises DatasetError if no cell is measured.
    """
    from tpcsweep.data import folding, reduction

    grid, count = study.grid, len(study.grid.cells)
    for attempt in itertools.count(1):
        sources: Iterable[Source] = ()
        if study.testbed.simulated:
            sources, cells, known = folding.cell_lines(study.cells_file, count), grid.cells, count
        else:
            files = {file: cell for cell in grid.cells if (file := staging.current_file(study, cell))}
            sources, cells, known = files, tuple(files.values()), len(files)
        if not known:
            raise reduction.DatasetError("no cell is measured yet")
        partial = {} if known == count else {"partial": f"{known} of {count} cells"}
        specs = (cell_spec(study, cell) for cell in cells)
        try:
            content = folding.fold(sources, grid.axes, specs, processes, {**study.attributes, **partial})
            break
        except (FileNotFoundError, reduction.DatasetError):
            if attempt == _ATTEMPTS:
                raise
    folding.write(content, output)


def remove_partial(study: SweepStudy) -> None:
    """Delete the dataset and page that were made during a run, if the study's own dataset is newer."""
    partial, whole = study.folder / PARTIAL, study.folder / "dataset.nc"
    with contextlib.suppress(OSError):  # there is none, or another user made it
        if whole.stat().st_mtime >= partial.stat().st_mtime:
            for file in study.folder.glob(f"{partial.stem}.*"):
                file.unlink()


def _write(folded: "Folded", output: Path) -> None:
    from tpcsweep.data import folding, tables

    folding.write(folded, output)
    tables.write_table(folded.summary, output.with_name("cells.csv"))
