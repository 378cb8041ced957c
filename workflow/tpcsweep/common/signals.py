# SPDX-License-Identifier: Apache-2.0
"""End processes orderly: the first signal raises SystemExit, later ones do not disturb the cleanup.

Processes also end with their starter, even if kill -9 ends it.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import psutil

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # signals that ask a process to end
_ignored: list[int] = []  # signals received while they were ignored
_STARTER = "TPCSWEEP_STARTER"
"""Environment variable with Snakemake's pid for its jobs, because it may end before a job starts."""
STOPPED = "TPCSWEEP_STOPPED"
"""Environment variable that tells the end of a run that its user stopped it."""
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Loaded early, because a process forked from one with threads should load nothing before it execs.
_libc = ctypes.CDLL(None)


def ignore_signals() -> None:
    """Ignore the signals of ENDING until `restore_signals`, because an interrupted teardown leaves things behind.

    Commands in between need a separate session, or Ctrl-C ends them.
    """
    for number in ENDING:
        signal.signal(number, lambda number, _: _ignored.append(number))


def restore_signals() -> None:
    """Let the signals of ENDING raise SystemExit, immediately if one arrived while they were ignored."""
    for number in ENDING:
        signal.signal(number, _leave)
    if _ignored:
        _leave(_ignored[0], None)


def _leave(number: int, _frame: object) -> None:
    ignore_signals()
    raise SystemExit(128 + number)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let the first signal of ENDING within a `with` raise SystemExit, and ignore later ones."""
    _ignored.clear()
    with _restored():
        restore_signals()
        yield


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Delay signals of ENDING to the end of a `with`.

    This does nothing in other threads than the main one, which alone handles signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    try:
        with _restored():
            for number in ENDING:
                signal.signal(number, lambda number, _: came.append(number))
            yield
    finally:
        if came:
            signal.raise_signal(came[0])


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def announce_pid() -> None:
    """Tell the jobs of this Snakemake its pid, for `end_with_snakemake`."""
    os.environ[_STARTER] = str(os.getpid())


def starter() -> int:
    """Return the pid of the Snakemake that started this process, a job's; otherwise that of its parent."""
    return int(os.environ.get(_STARTER, os.getppid()))


def end_with_snakemake() -> None:
    """Have the kernel end this job with its Snakemake, immediately if that has ended.

    Call it first in a script, before slow imports.
    """
    end_with(starter())


def end_with(pid: int, number: int = signal.SIGTERM) -> None:
    """Have the kernel send this process a signal when its parent ends, even by kill -9, or has ended.

    The kernel refers to the *thread* that started this process (PR_SET_PDEATHSIG of prctl(2)), which must live as long.
    `pid` is that of the parent, or of an ancestor on whose behalf the parent started this process.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, number)
    # The starter may have ended before the kernel was asked.
    if pid != os.getppid() and all(process.pid != pid for process in psutil.Process().parents()):
        os.kill(os.getpid(), number)


def workers(processes: int) -> ProcessPoolExecutor:
    """Return a pool of processes that end with this one, even by kill -9, and ignore Ctrl-C.

    They are forked, because other start methods would import, and thereby run, a script of Snakemake again.
    """
    fork = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(processes, fork, initializer=_begin, initargs=(os.getpid(),))


def _begin(starter: int) -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    end_with(starter)
