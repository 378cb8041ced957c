# SPDX-License-Identifier: Apache-2.0
"""End a process in order: what asks it to end raises SystemExit, once, and then nothing disturbs its tidying up.

And end it with the one that has started it, which kill -9 ends without a word.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import psutil

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that ask a process to end."""
_ignored: list[int] = []
"""Those that came while they were ignored."""
_STARTER = "TPCSWEEP_STARTER"
"""The environment variable in which a Snakemake tells its jobs its pid: a job may begin when that has ended."""
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Here, as a process that was forked from one with threads should load nothing before it execs.
_libc = ctypes.CDLL(None)


def ignore() -> None:
    """Ignore the signals of ENDING until `heed` is called: a teardown that is interrupted leaves things behind.

    Commands that are run meanwhile need a session of their own, or Ctrl-C ends them.
    """
    for number in ENDING:
        signal.signal(number, lambda number, _: _ignored.append(number))


def heed() -> None:
    """Let the signals of ENDING raise SystemExit. If one came while it was ignored, SystemExit is raised now."""
    for number in ENDING:
        signal.signal(number, _leave)
    if _ignored:
        _leave(_ignored[0], None)


def _leave(number: int, _frame: object) -> None:
    ignore()
    raise SystemExit(128 + number)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let the first signal of ENDING within a `with` raise SystemExit, and ignore those that follow it."""
    _ignored.clear()
    with _restored():
        heed()
        yield


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let a signal of ENDING that comes within a `with` take effect at its end.

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


def tell_jobs() -> None:
    """Tell the jobs that this Snakemake will start its pid, for `end_with_snakemake`."""
    os.environ[_STARTER] = str(os.getpid())


def starter() -> int:
    """Return the pid of the Snakemake that started this process, a job's; otherwise that of its parent."""
    return int(os.environ.get(_STARTER, os.getppid()))


def end_with_snakemake() -> None:
    """Have the kernel ask this process, a job's, to end when its Snakemake ends, and at once if that has ended.

    It comes first in a script, before what takes long to import.
    """
    end_with(starter())


def end_with(pid: int, number: int = signal.SIGTERM) -> None:
    """Have the kernel send this process a signal when its parent ends, kill -9 included, and at once if it has ended.

    The kernel means the *thread* that has started this process (PR_SET_PDEATHSIG of prctl(2)): it must stay as long.
    `pid` is that of the parent, or of a process above it that had it start this one.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, number)
    # The starter may have ended before the kernel was asked.
    if pid != os.getppid() and all(process.pid != pid for process in psutil.Process().parents()):
        os.kill(os.getpid(), number)


def workers(processes: int) -> ProcessPoolExecutor:
    """Return a pool of processes that end with this one, kill -9 included. Ctrl-C reaches this process alone.

    They are forked: a script of Snakemake's, which others would import again, does its work whenever it is imported.
    """
    fork = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(processes, fork, initializer=_begin, initargs=(os.getpid(),))


def _begin(starter: int) -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
    end_with(starter)
