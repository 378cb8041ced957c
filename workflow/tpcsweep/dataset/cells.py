# SPDX-License-Identifier: Apache-2.0
"""Cells' files read, checked, and reduced to what a dataset keeps of them: the first ones here, many by processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tpcsweep.configuration import cell_file
from tpcsweep.configuration.parameters import CONDITIONS, Value, complete
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.dataset.series import Record, record_of
from tpcsweep.dataset.summary import Row, hole, row_of
from tpcsweep.dataset.transfers import Columns, columns_of
from tpcsweep.linux import signals
from tpcsweep.variables import NOT_MEASURED

FORMAT = 1
"""The version of cell files that this reads."""
FEW = 500
"""So many files are read here before processes are started: that is a quarter of a second."""
_BATCH = 64
"""Files that a process takes at a time: some megabytes, and some hundredths of a second."""

_Pair = tuple[str | Path, Mapping[str, Any] | None]


class DatasetError(ValueError):
    """Cell files that do not fold into one dataset; the text names the file and what to do."""


class DamagedFileError(DatasetError):
    """A file that is no whole cell's, and in what way."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)  # as they are, to be handed on by processes
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class Reduced(NamedTuple):
    """What a dataset keeps of a cell's file."""

    path: Path
    at: int
    """The cell's place in the flattened grid."""
    fixed: dict[str, Any]
    """What of its specification is on no axis."""
    row: Row
    samples: Record | None
    transfers: Columns | None
    """Both None of a cell that was not measured."""
    damage: str = ""
    """In what way the file is no whole cell's; the row then says that the cell was not measured."""


class Reader:
    """Reads cells of a grid, given the values of each axis in order."""

    def __init__(self, axes: Mapping[str, Sequence[Value]]) -> None:
        self._places = {name: {value: at for at, value in enumerate(values)} for name, values in axes.items()}

    def reduce(self, file: str | Path, wanted: Mapping[str, Any] | None) -> Reduced:
        """Read a cell's file, which must have been measured under the wanted specification, if that is known.

        Raises:
            DatasetError: for a file that was measured under another specification than the wanted one, or lies off
                the grid; where no specification is wanted, also DamagedFileError.
        """
        path = Path(file)
        try:
            return self._whole(path, wanted)
        except DamagedFileError as error:
            if wanted is None:
                raise
            row = hole(f"its file was damaged: {error.reason}")
            return Reduced(
                path, self._place(path, wanted), self._fixed(wanted), row, None, None, error.reason
            )

    def _whole(self, path: Path, wanted: Mapping[str, Any] | None) -> Reduced:
        try:
            cell = _read(path)
            spec = complete(cell["spec"])
            if wanted is not None and spec != wanted:
                raise DatasetError(
                    f"{path}: measured under another specification: {differences(spec, wanted)}; "
                    "delete the file and run snakemake again"
                )
            place, fixed = self._place(path, spec), self._fixed(spec)
            if cell.get("status") == NOT_MEASURED:
                return Reduced(path, place, fixed, hole(cell["message"]), None, None)
            samples = record_of(cell["samples"], spec["measurement"]["interval"])
            return Reduced(path, place, fixed, row_of(cell), samples, columns_of(cell["transfers"]))
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise DamagedFileError(path, f"not a cell file of format {FORMAT}: {error!r}") from error
        except ValueError as error:
            raise error if isinstance(error, DatasetError) else DamagedFileError(path, str(error)) from error

    def _place(self, path: Path, spec: Mapping[str, Any]) -> int:
        at = 0
        for name, places in self._places.items():
            value = spec[REPETITION] if name == REPETITION else spec["parameters"][name]
            if value not in places:
                raise DatasetError(
                    f"{path}: {name} is {value!r}, and the grid has {', '.join(map(str, places))}"
                )
            at = at * len(places) + places[value]
        return at

    def _fixed(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **{key: value for key, value in spec.items() if key != CONDITIONS},
            "parameters": {k: v for k, v in spec["parameters"].items() if k not in self._places},
            REPETITION: None if REPETITION in self._places else spec[REPETITION],
        }


def _read(path: Path) -> dict[str, Any]:
    try:
        cell = cell_file.content_of(path.read_bytes())
    except IsADirectoryError as error:
        raise DamagedFileError(path, "a folder") from error
    except cell_file.DamagedError as error:
        raise DamagedFileError(path, str(error)) from error
    if cell.get("format") != FORMAT:
        reason = f"not a cell file of format {FORMAT} (its format is {cell.get('format')!r})"
        raise DamagedFileError(path, reason)
    return cell


def differences(measured: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> str:
    """Say in which keys two specifications differ, nested ones with dots: parameters.rtt is 10, not 20."""
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


def reduced(
    pairs: Iterable[_Pair], axes: Mapping[str, Sequence[Value]], processes: int
) -> Generator[Reduced]:
    """Give what files hold, in their order. To be closed, lest processes go on.

    Args:
        pairs: files, each with its specification if that is known.
        axes: the values of each axis in order.
        processes: how many read where there are more than a few files; with one none are started.

    Raises:
        DatasetError: see `Reader.reduce`, for the first of the files; also for a process that died.
    """
    rest = iter(pairs)
    reader = Reader(axes)
    for file, wanted in rest if processes == 1 else islice(rest, FEW):
        yield reader.reduce(file, wanted)
    with closing(_in_processes(rest, reader, processes)) as batches:
        for cell in chain.from_iterable(batches):
            if isinstance(cell, Exception):
                raise cell
            yield cell


def _in_processes(
    pairs: Iterator[_Pair], reader: Reader, processes: int
) -> Generator[list[Reduced | Exception]]:
    # Forked: a script of Snakemake's, which others would import again, does its work whenever it is imported.
    # None is started before the first batch is there.
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("fork"), initializer=_begin, initargs=(os.getpid(),)
    )
    waiting: deque[Future[list[Reduced | Exception]]] = deque()
    try:
        for batch in iter(lambda: [*islice(pairs, _BATCH)], []):
            # The first one forks. What is raised then, in what Python runs after a fork, is printed and forgotten.
            with signals.held():
                waiting.append(pool.submit(_reduce, reader, batch))
            if len(waiting) > 3 * processes:  # what is read and waits for its turn takes memory
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise DatasetError(
            "a process that read cell files died without a word, as the kernel lets one when memory runs out: "
            "run snakemake again, with more memory or fewer cores"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(starter: int) -> None:
    """Let whoever started this process end it: Ctrl-C goes to all, and a starter that was killed says nothing."""
    for number in signals.ENDING:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    signals.end_with(starter)


def _reduce(reader: Reader, pairs: Sequence[_Pair]) -> list[Reduced | Exception]:
    """Reduce files up to the first that is refused, with its error in its place: those before may be refused yet."""
    cells: list[Reduced | Exception] = []
    for file, wanted in pairs:
        try:
            cells.append(reader.reduce(file, wanted))
        except (DatasetError, OSError) as error:
            return [*cells, error]
    return cells
