"""Ending in order: what asks a process to end becomes SystemExit, once, and waits while it tidies up."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks a process to end."""


_came: list[int] = []
"""What asked to end while that was ignored."""


def ignore() -> None:
    """Until `heed`, nothing but SIGKILL ends this process: a teardown that is interrupted leaves things behind.

    Commands that run meanwhile need a session of their own, or Ctrl-C ends them.
    """
    for number in ENDING:
        signal.signal(number, lambda number, _: _came.append(number))


def heed() -> None:
    """From here on what asks to end becomes SystemExit, and so does, at once, what has asked while it was ignored."""
    for number in ENDING:
        signal.signal(number, _leave)
    for first in _came[:1]:
        _leave(first, None)


def _leave(number: int, _frame: object) -> None:
    ignore()
    raise SystemExit(128 + number)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP, and the death of the starter, into SystemExit, once, and ignore them then."""
    before = {number: signal.getsignal(number) for number in ENDING}
    _came.clear()
    ended = threading.Event()
    threading.Thread(target=watch_starter, args=(os.getppid(), ended), daemon=True).start()
    try:
        heed()
        yield
    finally:
        ended.set()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let what asks to end take effect only at the end of the `with`.

    In another thread than the main one, which alone is told of signals, there is nothing to hold.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for first in came[:1]:
            signal.raise_signal(first)


def watch_starter(starter: int, ended: threading.Event) -> None:
    """Until the event is set, notice that the starter was killed by force, which leaves its jobs running, and end.

    starter: the id of the process that started this one.
    """
    while not ended.wait(0.5):
        if os.getppid() != starter:
            os.kill(os.getpid(), signal.SIGTERM)
            return
