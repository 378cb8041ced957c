# SPDX-License-Identifier: Apache-2.0
"""The simulated testbed: `simulate` computes all cells of a sweep into one file."""

import hashlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from tpcsweep.common.files import replacing_file
from tpcsweep.data.cell_files import DamagedError, format_cell, parse_cell, utc_timestamp
from tpcsweep.data.cell_result import Provenance
from tpcsweep.measuring import provenance
from tpcsweep.sweeps.parameters import complete
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.sweeps.sweep import Cell
from tpcsweep.testbeds.simulation.physics import Physics
from tpcsweep.testbeds.simulation.result import results
from tpcsweep.testbeds.simulation.settings import Simulation

EXPECTED: tuple[type[Exception], ...] = ()

AT_ONCE = 1000  # cells that a thread computes together: each needs 2 kB per random parameter set


def require(_settings: Simulation) -> None:
    """Do nothing: a simulation needs nothing but this package."""


def reap(_settings: Simulation) -> list[str]:
    """Return nothing: a simulation leaves nothing behind."""
    return []


def simulate(study: SweepStudy, file: Path, processes: int) -> None:
    """Compute the cells of a simulated sweep into one file, which is replaced atomically.

    Each line is the content of a cell's file, in the order of the grid. Cells that the file already contains under the
    wanted specification are not computed again. A killed job leaves its cells in a hidden file for the next job.
    """
    computed = file.with_name(f".{file.name}.computed")
    cells = study.grid.cells
    keys = [_key(cell_spec(study, cell)) for cell in cells]
    lines = {key: line for path in (file, computed) for key, line in _lines(path)}
    missing = [number for number, key in enumerate(keys) if key not in lines]
    file.parent.mkdir(parents=True, exist_ok=True)
    texts = _computed(study, [cells[number] for number in missing], processes)
    with computed.open("ab") as target, closing(texts):
        target.write(b"\n")  # a killed job's last line may be incomplete
        for number, text in zip(missing, texts, strict=True):
            lines[keys[number]] = computed, target.tell(), len(text)
            target.write(text + b"\n")
            target.flush()
    with replacing_file(file) as part, part.open("wb") as target, ExitStack() as stack:
        sources = {path for path, *_ in lines.values()}
        opened = {path: stack.enter_context(path.open("rb")) for path in sources}
        for path, start, size in map(lines.__getitem__, keys):
            opened[path].seek(start)
            target.write(opened[path].read(size) + b"\n")
    computed.unlink()


def origin(settings: Simulation) -> dict[str, Any]:
    """Return the provenance of a testbed's cells: its model. Host, kernel and CPU have no part in them."""
    estimates = {name: getattr(settings.parameters, name) for name in Physics.model_fields}
    return {
        "simulation": {
            **settings.model_dump(mode="json", include={"inputs", "assumptions", "queues", "draws"}),
            "parameters": {name: [known.value, *known.range] for name, known in estimates.items()},
        }
    }


def _key(specification: Mapping[str, Any]) -> bytes:
    """Return a short hash of a specification, because there may be 10⁵ of them."""
    text = orjson.dumps(complete(specification), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).digest()[:16]


def _lines(file: Path) -> Iterator[tuple[bytes, tuple[Path, int, int]]]:
    """Yield the undamaged lines of a file: the key of each specification, and the line's file, start and size."""
    if not file.exists():
        return
    start = 0
    with file.open("rb") as source:
        for text in source:
            with suppress(DamagedError, TypeError):
                yield _key(parse_cell(text).spec), (file, start, len(text.rstrip(b"\n")))
            start += len(text)


def _computed(study: SweepStudy, cells: Sequence[Cell], processes: int) -> Generator[bytes]:
    """Yield the lines of cells."""
    settings, measurement = study.testbed, study.sweep.measurement
    assert isinstance(settings, Simulation)
    model = provenance.workflow({"software": {}, **origin(settings)})

    def lines(part: Sequence[Cell]) -> list[bytes]:
        about: Provenance = {"started": utc_timestamp(), **model}
        computed = results([cell.parameters for cell in part], settings, measurement)
        pairs = zip((cell_spec(study, cell) for cell in part), computed, strict=True)
        return [format_cell(spec, replace(result, provenance=about)) for spec, result in pairs]

    parts = [cells[first : first + AT_ONCE] for first in range(0, len(cells), AT_ONCE)]
    with ThreadPoolExecutor(processes) as pool:  # numpy lets threads run in parallel
        for texts in pool.map(lines, parts):
            yield from texts
