# SPDX-License-Identifier: Apache-2.0
"""The simulated testbed: `simulate` computes all cells of a sweep into one file.

Cells that end when they are steady are the model's fixed point, without simulated transfers. SimGrid simulates cells
that end after a time or after files.
"""

import hashlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import orjson

from tpcsweep.cell_result import CellResult, Provenance
from tpcsweep.configuration.loading import Configuration, cell_spec
from tpcsweep.configuration.parameters import Parameters, complete
from tpcsweep.configuration.physics import Physics
from tpcsweep.configuration.sweep import Cell
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.files import replacing_file
from tpcsweep.measure import provenance
from tpcsweep.results import DamagedError, format_cell, parse_cell, utc_timestamp
from tpcsweep.testbeds.simulation import engine, model
from tpcsweep.testbeds.simulation.engine import CellError, Engine, SimulationError, cell_plan
from tpcsweep.testbeds.simulation.result import course, failed, in_steady_state, results

EXPECTED = (SimulationError,)

AT_ONCE = 1000  # fixed-point cells that a thread computes together: each needs 2 kB per random parameter set


def require(_settings: Simulation) -> None:
    """Do nothing: a simulation needs at most SimGrid, whose absence `simulate` reports."""


def reap(_settings: Simulation) -> list[str]:
    """Return nothing: a simulation leaves nothing behind."""
    return []


def simulate(configuration: Configuration, file: Path, logs: Path, processes: int) -> None:
    """Compute the cells of a simulated sweep into one file, which is replaced atomically.

    Each line is the content of a cell's file, in the order of the grid. Cells that the file already contains under the
    wanted specification are not computed again. A killed job leaves its cells in a hidden file for the next job.
    SimGrid logs to the folder `logs`. Raises SimulationError if it is needed and is missing, or has ended.
    """
    computed = file.with_name(f".{file.name}.computed")
    cells = configuration.grid.cells
    keys = [_key(cell_spec(configuration, cell)) for cell in cells]
    lines = {key: line for path in (file, computed) for key, line in _lines(path)}
    missing = [number for number, key in enumerate(keys) if key not in lines]
    file.parent.mkdir(parents=True, exist_ok=True)
    texts = _computed(configuration, [cells[number] for number in missing], logs, processes)
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


def _computed(
    configuration: Configuration, cells: Sequence[Cell], logs: Path, processes: int
) -> Generator[bytes]:
    at_once = AT_ONCE if configuration.sweep.measurement.until == "steady" else 1
    with ThreadPoolExecutor(processes) as pool, ExitStack() as stack:
        simgrids = []
        if cells and at_once == 1:
            files = [logs / f"simgrid{number}.log" for number in range(processes)]
            simgrids = [stack.enter_context(engine.started(file)) for file in files]
        parts = [cells[first : first + at_once] for first in range(0, len(cells), at_once)]
        for texts in pool.map(_Lines(configuration, simgrids).compute, parts):
            yield from texts


class _Lines:
    """Computes the lines of cells in several threads; numpy and SimGrid let threads run in parallel."""

    def __init__(self, configuration: Configuration, simgrids: Sequence[Engine]) -> None:
        assert isinstance(configuration.testbed, Simulation)
        self._configuration, self._settings = configuration, configuration.testbed
        self._measurement = configuration.sweep.measurement
        self._free: SimpleQueue[Engine] = SimpleQueue()
        for simgrid in simgrids:
            self._free.put(simgrid)
        software = {"simgrid": simgrids[0].version} if simgrids else {}
        self._origin = provenance.workflow({"software": software, **origin(self._settings)})

    def compute(self, cells: Sequence[Cell]) -> list[bytes]:
        about: Provenance = {"started": utc_timestamp(), **self._origin}
        computed = self._results([cell.parameters for cell in cells])
        pairs = zip((cell_spec(self._configuration, cell) for cell in cells), computed, strict=True)
        return [format_cell(spec, replace(result, provenance=about)) for spec, result in pairs]

    def _results(self, parameters: Sequence[Parameters]) -> Iterable[CellResult]:
        physics, queues, measurement = self._settings.parameters, self._settings.queues, self._measurement
        if measurement.until == "steady":
            cells = model.model_cells(parameters)
            throughput, _ = model.solve(cells, model.central(physics), queues)
            courses = in_steady_state(throughput, cells, measurement.interval)
        else:
            planned = cell_plan(parameters[0], physics, queues, measurement)
            simgrid = self._free.get()
            try:
                courses = [course(planned, simgrid.simulate(planned))]
            except CellError as error:
                return [failed(str(error))]
            finally:
                self._free.put(simgrid)
        return results(parameters, courses, self._settings, measurement.confidence)
