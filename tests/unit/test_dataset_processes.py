# SPDX-License-Identifier: Apache-2.0
"""Cells' files read by several processes fold into the same dataset, and fail in the same words."""

import contextlib
import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import pytest
from tpcsweep import dataset
from tpcsweep.dataset import cells, folding
from tpcsweep.linux.signals import interruptible

from tests.support import synthetic
from tests.support.workflow import wait_until

AXES = {"origins": [1, 2], "streams": [*range(1, 11)], "repetition": [1, 2]}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files of 40 cells, of which processes take three at a time after the first five."""
    monkeypatch.setattr(cells, "FEW", 5)
    monkeypatch.setattr(cells, "_BATCH", 3)
    return [*synthetic.write_sweep(tmp_path, AXES, missing=[{"streams": 7}], failed=[{"streams": 3}])]


UNLIKE, UNFLAGGED = (b'"mtu":9000', b'"mtu":1500'), (b'"flags"', b'"flag"')


@pytest.mark.parametrize("first", [6, 35])
@pytest.mark.parametrize(
    ("how", "says"), [(UNLIKE, r"no axis: parameters\.mtu is 1500, not 9000"), (UNFLAGGED, "'flags'")]
)
def test_the_first_of_the_wrong_files_is_named(files: list[Path], first: int, how: Any, says: str) -> None:
    files[first].write_bytes(files[first].read_bytes().replace(*how))
    for other in files[first + 1 : first + 10]:
        other.write_bytes(b"{" if how is UNLIKE else other.read_bytes().replace(*UNLIKE))
    for processes in (1, 2):
        with pytest.raises(dataset.DatasetError, match=says) as caught:
            dataset.fold(files, AXES, processes=processes)
        assert str(caught.value).startswith(f"{files[first]}: ")


def test_a_file_twice_or_missing_is_named(files: list[Path]) -> None:
    with pytest.raises(dataset.DatasetError, match=rf"{files[30]}: another file .* same point"):
        dataset.fold([*files, files[30]], AXES, processes=2)
    files[30].unlink()
    with pytest.raises(FileNotFoundError, match=str(files[30])):
        dataset.fold(files, AXES, processes=2)


def test_few_files_start_no_processes(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    before = psutil.Process().children()
    seen = []

    def watched() -> Iterator[Path]:
        yield from files
        seen.append(len(psutil.Process().children()) - len(before))

    with ThreadPoolExecutor(1) as threads:
        for few in (len(files), 5):
            monkeypatch.setattr(cells, "FEW", few)
            threads.submit(dataset.fold, watched(), AXES, processes=2).result()
    assert seen == [0, 2]
    assert psutil.Process().children() == before


def test_a_process_that_dies_is_an_error(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(cells.Reader, "_fixed", dying)
    monkeypatch.setattr(cells, "FEW", 0)
    with pytest.raises(dataset.DatasetError, match="a process that read cell files was killed"):
        dataset.fold(files, AXES, processes=2)


@contextlib.contextmanager
def endless(folder: Path, before: Callable[[], object] = os.getpid) -> Iterator[BaseProcess]:
    """A process that folds one file again and again, after something else."""
    axes = {"streams": [1], "repetition": [1]}
    [path] = synthetic.write_sweep(folder, axes)

    def fold() -> None:
        os.setsid()
        cells.FEW = 0
        folding._Grid.add = lambda *_: None
        before()
        with interruptible():
            dataset.fold(itertools.repeat(path), axes, processes=2)

    child = multiprocessing.get_context("fork").Process(target=fold)
    child.start()
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.join()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_ends_folding_ends_its_processes(tmp_path: Path, how: signal.Signals) -> None:
    with endless(tmp_path) as child:
        parent = psutil.Process(child.pid)
        wait_until(lambda: len(parent.children()) == 2, "it reads with two processes")
        processes = parent.children()
        if how == signal.SIGINT:
            os.killpg(child.pid, how)  # as Ctrl-C
            child.join(60)
            assert child.exitcode == 128 + how
        else:
            child.kill()
        assert not psutil.wait_procs(processes, timeout=60)[1]


def test_what_asks_to_end_while_processes_are_forked_is_heard(tmp_path: Path) -> None:
    def ask() -> None:
        os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))

    with endless(tmp_path, ask) as child:
        child.join(60)
        assert child.exitcode == 128 + signal.SIGTERM
