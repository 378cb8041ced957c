"""The cells of a sweep that were not measured: which, why, and the command that measures them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.configuration.sweep import Cell
from tpcsweep.files import write_json, write_text
from tpcsweep.running import results

FILE = "not_measured.json"
"""The name of the file that has them, in a sweep's folder."""


class NoCellsError(Exception):
    """No cell of a sweep is there, for what is to be made of those that are."""


class Hole(NamedTuple):
    """Cells of one deployment that were not measured."""

    deployment: str
    cells: tuple[str, ...]
    """Their paths."""
    why: str
    command: str
    """Measures them, and what else of the deployment is missing."""


def foldable(configuration: Configuration) -> tuple[list[Path], str]:
    """The files of cells that are there, under the wanted specification, and a line on the others if there are any.

    A file that says that its cell was not measured is one of them, for its reason; its cell is one of the others.
    Raises NoCellsError where no cell was measured.
    """
    files, measured, total = [], 0, len(configuration.grid.cells)
    for cell in configuration.grid.cells:
        file, spec = configuration.cell_file(cell), wanted(configuration, cell)
        if not results.stale(file, spec):
            measured += 1
            files.append(file)
        elif results.left_out(file) and results.read(file)["spec"] == spec:
            files.append(file)
    if not measured:
        command = _command(configuration, "cells")
        raise NoCellsError(
            f"{configuration.name}: none of its {total} cells is there; {command} measures them"
        )
    said = f"{configuration.name}: {measured} of {total} cells are there; the others are left out"
    return files, f"{said} (--config measure=true measures them first)" if measured < total else ""


def holes(configuration: Configuration, cells: Iterable[Cell]) -> list[Hole]:
    """Those among some cells whose files say that they were not measured, by deployment, in the order given."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        if results.left_out(configuration.cell_file(cell)):
            found.setdefault(cell.deployment_path, []).append(cell)
    return [_hole(configuration, deployment, held) for deployment, held in found.items()]


def _hole(configuration: Configuration, deployment: str, cells: Sequence[Cell]) -> Hole:
    file = configuration.cell_file(cells[0])
    return Hole(
        deployment,
        tuple(cell.path for cell in cells),
        str(results.read(file)["message"]),
        _command(configuration, str(file)),
    )


def _command(configuration: Configuration, target: str) -> str:
    """What measures the cells that a target is made of."""
    config = (f"{key}={getattr(configuration.run, key)}" for key in ("sweep", "testbed", "results"))
    return shlex.join(["snakemake", "--config", *config, "--", target])


def beside(dataset: Path) -> bool:
    """Whether a dataset was made of a sweep of which cells could not be measured."""
    try:
        return bool(orjson.loads(dataset.with_name(FILE).read_bytes()))
    except FileNotFoundError:
        return False


def listed(found: Sequence[Hole]) -> str:
    """For people, at the end of a run."""
    lines = []
    for hole in found:
        cells = f"{len(hole.cells)} cell" + "s" * (len(hole.cells) > 1)
        lines += [f"  {hole.deployment} ({cells}): {hole.why}", f"    {hole.command}"]
    return "\n".join(lines)


def write(found: Sequence[Hole], total: int, file: Path, page: Path, front: Path) -> None:
    """Write them as JSON to `file`, and to `page` the front page of the report: `front`, with a table of them first.

    total: the cells of the sweep.
    """
    write_text(page, table(found, total) + front.read_text())
    # Last, as its time tells which cells it was made of.
    write_json(file, [hole._asdict() for hole in found])


def table(found: Sequence[Hole], total: int) -> str:
    """Them in reStructuredText, which Snakemake reads as a template of Jinja's; nothing of none."""
    if not found:
        return ""
    count = sum(len(hole.cells) for hole in found)
    lines = [
        f"**Not measured: {count} of {total} cells.** Figures show them as holes, and models were fitted without them.",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
    ]
    rows = [("deployment", "cells", "why", "command that measures them")]
    rows += [(hole.deployment, str(len(hole.cells)), hole.why, hole.command) for hole in found]
    for row in rows:
        first, *rest = map(_escaped, row)
        lines += [f"   * - {first}", *(f"     - {text}" for text in rest)]
    return "\n".join([*lines, "", ""])


def _escaped(text: str) -> str:
    plain = "".join(f"\\{sign}" if sign in "\\*`_|" else sign for sign in " ".join(text.split()))
    return plain.replace("{", "{{ '{' }}")
