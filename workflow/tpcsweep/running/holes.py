# SPDX-License-Identifier: Apache-2.0
"""The cells of a sweep that were not measured: which, why, and the command that measures them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from tpcsweep.configuration.loading import Configuration, wanted
from tpcsweep.configuration.parameters import complete
from tpcsweep.configuration.sweep import Cell, by_deployment
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
    """Give the files of cells that are there, under the wanted specification, and a line on the others if any.

    A file that says that its cell was not measured is among the files, for its reason; its cell is among the others.

    Raises:
        NoCellsError: where no cell was measured.
    """
    files, measured, total = [], 0, len(configuration.grid.cells)
    for cell in configuration.grid.cells:
        file, spec = configuration.cell_file(cell), wanted(configuration, cell)
        if not results.stale(file, spec):
            measured += 1
            files.append(file)
        elif results.left_out(file) and complete(results.read(file)["spec"]) == spec:
            files.append(file)
    if not measured:
        command = _command(configuration, "cells")
        raise NoCellsError(
            f"{configuration.name}: none of its {total} cells is there; {command} measures them"
        )
    said = f"{configuration.name}: {measured} of {total} cells are there; the others are left out"
    return files, f"{said} (--config measure=true measures them first)" if measured < total else ""


def holes(configuration: Configuration, cells: Iterable[Cell]) -> list[Hole]:
    """Find those among some cells whose files say that they were not measured, by deployment, in the cells' order."""
    left_out = by_deployment(cell for cell in cells if results.left_out(configuration.cell_file(cell)))
    files = {deployment: configuration.cell_file(group[0]) for deployment, group in left_out.items()}
    return [
        Hole(
            deployment,
            tuple(cell.path for cell in group),
            str(results.read(files[deployment])["message"]),
            _command(configuration, str(files[deployment])),
        )
        for deployment, group in left_out.items()
    ]


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


def listed(left_out: Sequence[Hole]) -> str:
    """Say them to people, at the end of a run."""
    return "\n".join(
        f"  {hole.deployment} ({len(hole.cells)} cell{'s' * (len(hole.cells) > 1)}): {_printable(hole.why)}\n"
        f"    {hole.command}"
        for hole in left_out
    )


def write(left_out: Sequence[Hole], total: int, file: Path, page: Path, front: Path) -> None:
    """Write a sweep's holes as JSON to `file`, and to `page`, which begins its report, as a table above `front`.

    `total` is the number of the sweep's cells.
    """
    write_text(page, table(left_out, total) + front.read_text())
    # Last, as its time tells which cells it was made of.
    write_json(file, [hole._asdict() for hole in left_out])


def renew(configuration: Configuration, page: Path, front: Path) -> None:
    """Write `page` anew, by the holes that the folder of the sweep lists, whatever it has.

    Snakemake runs it as a template, and a folder of results may have come from somebody else.
    """
    file = configuration.folder / FILE
    left_out = [Hole(**hole) for hole in orjson.loads(file.read_bytes())] if file.exists() else []
    write_text(page, table(left_out, len(configuration.grid.cells)) + front.read_text())


def table(left_out: Sequence[Hole], total: int) -> str:
    """Tabulate holes in reStructuredText, which Snakemake reads as a template of Jinja's; no text for no hole."""
    if not left_out:
        return ""
    count = sum(len(hole.cells) for hole in left_out)
    said = "Figures show them as holes, and models were fitted without them."
    lines = [
        f"**Not measured: {count} of {total} cells.** {said}",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
    ]
    rows = [("deployment", "cells", "why", "command that measures them")]
    rows += [(hole.deployment, str(len(hole.cells)), hole.why, hole.command) for hole in left_out]
    for first, *rest in rows:
        lines += [f"   * - {_escaped(first)}", *(f"     - {_escaped(text)}" for text in rest)]
    return "\n".join([*lines, "", ""])


def _escaped(text: str) -> str:
    """A text as reStructuredText and Jinja have it: no sign of it is a role, a directive, a link or an expression."""
    plain = re.sub(r"[^\w\s]|_", lambda sign: f"\\{sign[0]}", " ".join(_printable(text).split()))
    return plain.replace("{", "{{ '{' }}")


def _printable(text: str) -> str:
    """A text with spaces for signs that steer terminals and parsers, such as escape and NUL."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text)
