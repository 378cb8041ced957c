# SPDX-License-Identifier: Apache-2.0
"""Read and check cell files, and reduce them to the content of a dataset, many in parallel."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from tpcsweep.common import signals
from tpcsweep.data.cell_files import parse_cell, read_cell
from tpcsweep.data.cell_result import CellResult, NotMeasured
from tpcsweep.data.groups import Columns, Record, cell_samples, cell_transfers
from tpcsweep.data.labels import STATUS, flag_bits
from tpcsweep.data.variables import SUMMARY
from tpcsweep.sweeps.parameters import CONDITIONS, Value, complete
from tpcsweep.sweeps.sweep import REPETITION

FORMAT = 1  # supported version of cell files
_NO_CELL = f"not a cell file of format {FORMAT}"
SERIAL_CELLS = 500  # number of cells to read before starting processes, which takes a quarter of a second
_BATCH = 64  # cells that a process reads at a time: some megabytes, and some hundredths of a second
_THROUGHPUT = {name for name in SUMMARY if name.startswith("throughput")}


class Line(NamedTuple):
    file: Path
    number: int  # number from 1
    text: bytes

    def __str__(self) -> str:
        return f"{self.file}, line {self.number}"


Source = Path | Line  # file of a cell, or its line in a file
_Pair = tuple[Source, Mapping[str, Any] | None]


class DatasetError(ValueError):
    """Cell files that do not fold into one dataset; the text names the file and the fix."""


class UnusableError(DatasetError):
    """Source without a complete cell, or with another specification than the wanted one; and the reason."""

    def __str__(self) -> str:
        return "{}: {}".format(*self.args)


class Row(NamedTuple):
    """Values of a cell that a dataset keeps."""

    status: int
    message: str
    flags: int
    limit: str
    limit_second: str
    figures: NDArray[np.float64]  # values of `data.variables.SUMMARY`, NaN if missing
    started: np.datetime64
    provenance: bytes | None  # JSON without the start time, or None if nothing was measured


class Reduced(NamedTuple):
    """Content of a cell that a dataset keeps."""

    source: str
    at: int  # index of the cell in the flattened grid
    fixed: dict[str, Any]  # part of its specification without the axes
    row: Row
    samples: Record | None = None
    transfers: Columns | None = None  # transfers; like `samples` None for an unmeasured cell
    unusable: str = ""  # reason not to use the source; the row then marks the cell as not measured


class Reader:
    """Reader of the cells of a grid, whose axes have ordered values."""

    def __init__(self, axes: Mapping[str, Sequence[Value]]) -> None:
        self._places = {name: {value: at for at, value in enumerate(values)} for name, values in axes.items()}

    def reduce(self, source: Source, wanted: Mapping[str, Any] | None) -> Reduced:
        """Read a cell and check that it has the wanted specification, if any.

        Raises DatasetError if the cell is not in the grid, UnusableError if it is unusable and `wanted` is None.
        """
        try:
            return self._usable(source, wanted)
        except UnusableError as error:
            if wanted is None:
                raise
            reason = error.args[1]
            row = unmeasured_row(f"its file was set aside: {reason}")
            place = self._place(str(source), wanted)
            return Reduced(str(source), place, self._fixed(wanted), row, unusable=reason)

    def _usable(self, source: Source, wanted: Mapping[str, Any] | None) -> Reduced:
        try:
            cell = parse_cell(source.text) if isinstance(source, Line) else read_cell(source)
            if cell.format != FORMAT:
                raise UnusableError(source, f"{_NO_CELL} (its format is {cell.format!r})")
            name, result = str(source), cell.result
            spec = complete(cell.spec)
            if wanted is not None and spec != wanted:
                raise UnusableError(source, f"of another specification: {differences(spec, wanted)}")
            place, fixed = self._place(name, spec), self._fixed(spec)
            if isinstance(result, NotMeasured):
                return Reduced(name, place, fixed, unmeasured_row(result.message))
            samples = cell_samples(result.samples, spec["measurement"]["interval"])
            return Reduced(name, place, fixed, cell_row(result), samples, cell_transfers(result.transfers))
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise UnusableError(source, f"{_NO_CELL}: {error!r}") from error
        except ValueError as error:
            raise error if isinstance(error, DatasetError) else UnusableError(source, str(error)) from error

    def _place(self, source: str, spec: Mapping[str, Any]) -> int:
        at = 0
        for name, places in self._places.items():
            value = spec[REPETITION] if name == REPETITION else spec["parameters"][name]
            if value not in places:
                raise DatasetError(
                    f"{source}: {name} is {value!r}, and the grid has {', '.join(map(str, places))}"
                )
            at = at * len(places) + places[value]
        return at

    def _fixed(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **{key: value for key, value in spec.items() if key != CONDITIONS},
            "parameters": {k: v for k, v in spec["parameters"].items() if k not in self._places},
            REPETITION: None if REPETITION in self._places else spec[REPETITION],
        }


def unmeasured_row(message: str) -> Row:
    nothing = np.full(len(SUMMARY), np.nan)
    return Row(STATUS.index("not_measured"), message, 0, "", "", nothing, np.datetime64("NaT", "ns"), None)


def cell_row(cell: CellResult) -> Row:
    """Return the row of a cell. Raises KeyError, TypeError or ValueError if a value is not one of a cell."""
    figures = cell.summary.figures
    if cell.status == "failed":
        # Bytes that arrived before a cell failed say nothing about the throughput of its setting.
        figures = {name: value for name, value in figures.items() if name not in _THROUGHPUT}
    provenance = cell.provenance.copy()
    started = datetime.fromisoformat(provenance.pop("started"))
    binding, second = cell.limit or ("", "")
    return Row(
        STATUS.index(cell.status),
        cell.message,
        flag_bits(cell.flags),
        binding,
        second,
        np.array([figures.get(name) for name in SUMMARY], float),  # null becomes NaN
        np.datetime64(started.astimezone(UTC).replace(tzinfo=None), "ns"),
        provenance_json(provenance),
    )


def provenance_json(provenance: Mapping[str, Any]) -> bytes:
    return orjson.dumps(provenance, option=orjson.OPT_SORT_KEYS)  # equal records have equal bytes


def differences(measured: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> str:
    """Describe the keys in which two specifications differ, such as "parameters.rtt is 10, not 20"."""
    texts = []
    for name in dict.fromkeys((*measured, *wanted)):
        ours, theirs = measured.get(name), wanted.get(name)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            texts += [differences(ours, theirs, f"{prefix}{name}.")] if ours != theirs else []
        elif ours != theirs or (name in measured) != (name in wanted):
            texts.append(f"{prefix}{name} is {_json(measured, name)}, not {_json(wanted, name)}")
    return ", ".join(texts)


def _json(mapping: Mapping[str, Any], name: str) -> str:
    return orjson.dumps(mapping[name]).decode() if name in mapping else "absent"


def reduced_cells(
    pairs: Iterable[_Pair], axes: Mapping[str, Sequence[Value]], processes: int
) -> Generator[Reduced]:
    """Yield cells in the order of their sources. Close the generator to end its processes.

    `pairs` are sources with their wanted specifications. Processes start for more than a few sources; 1 starts none.
    Raises DatasetError for the first bad source (see `Reader.reduce`), or a process that died.
    """
    rest = iter(pairs)
    reader = Reader(axes)
    for source, wanted in rest if processes == 1 else islice(rest, SERIAL_CELLS):
        yield reader.reduce(source, wanted)
    with closing(_in_processes(rest, reader, processes)) as batches:
        for cell in chain.from_iterable(batches):
            if isinstance(cell, Exception):
                raise cell
            yield cell


def _in_processes(
    pairs: Iterator[_Pair], reader: Reader, processes: int
) -> Generator[list[Reduced | Exception]]:
    pool = signals.workers(processes)  # it starts no process before the first batch
    waiting: deque[Future[list[Reduced | Exception]]] = deque()
    try:
        for batch in iter(lambda: [*islice(pairs, _BATCH)], []):
            # The first submit forks. Python prints and drops exceptions that signals raise in its after-fork code.
            with signals.defer_signals():
                waiting.append(pool.submit(_reduce, reader, batch))
            if len(waiting) > 3 * processes:  # finished batches that wait for their turn take memory
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise DatasetError(
            "a process that reads cell files was killed, probably because memory ran out: "
            "run snakemake again, with more memory or fewer cores"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _reduce(reader: Reader, pairs: Sequence[_Pair]) -> list[Reduced | Exception]:
    """Reduce cells up to the first rejected one, and append its error; earlier batches may fail later."""
    cells: list[Reduced | Exception] = []
    for source, wanted in pairs:
        try:
            cells.append(reader.reduce(source, wanted))
        except (DatasetError, OSError) as error:
            return [*cells, error]
    return cells
