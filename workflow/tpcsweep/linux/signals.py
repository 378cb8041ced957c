# SPDX-License-Identifier: Apache-2.0
"""End a process in order: what asks it to end raises SystemExit, once, and then nothing disturbs its tidying up."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that ask a process to end."""
_ignored: list[int] = []
"""Those that came while they were ignored."""


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
    """Let the first signal of ENDING within a `with` raise SystemExit, and ignore those that follow it.

    If the process that started this one ends, that counts as such a signal.
    """
    before = {number: signal.getsignal(number) for number in ENDING}
    _ignored.clear()
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
    """Let a signal of ENDING that comes within a `with` take effect at its end.

    This does nothing in other threads than the main one, which alone handles signals.
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
        if came:
            signal.raise_signal(came[0])


def watch_starter(starter: int, ended: threading.Event) -> None:
    """Watch, until the event is set, whether the process that started this one ends; if it does, ask this one to end.

    A process that is killed by force leaves those running that it has started.
    """
    while not ended.wait(0.5):
        if os.getppid() != starter:
            os.kill(os.getpid(), signal.SIGTERM)
            return
