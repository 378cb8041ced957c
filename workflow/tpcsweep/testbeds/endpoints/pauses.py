# SPDX-License-Identifier: Apache-2.0
"""Pauses that doors asked for by `Retry-After`. All runs and checks of a user on a machine keep them."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

from tpcsweep.common.errors import BrokenError
from tpcsweep.common.files import state_folder, write_json
from tpcsweep.common.urls import door_of
from tpcsweep.testbeds.endpoints.doors import DoorError

LONGEST_WAIT = 30.0
"""Seconds that a request of tpcsweep's waits for a busy door; a longer pause is an error."""
LONGEST_PAUSE = 300.0
"""Seconds that a run waits for a door before it gives up a deployment."""
POLL = 1.0  # seconds between looks


class BusyDoorError(BrokenError):
    """A door asked for a longer pause than LONGEST_PAUSE."""

    final = True


def ask(door: str, seconds: float) -> None:
    """Note that a door, host and port, asks for a pause from now on."""
    until = time.time() + seconds
    if seconds > left(door):
        _file(door).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(_file(door), {"until": until})


def left(door: str) -> float:
    """Return the seconds until the end of a door's pause, 0 without one."""
    try:
        return max(0.0, float(json.loads(_file(door).read_text())["until"]) - time.time())
    except (OSError, ValueError, LookupError, TypeError):
        return 0.0


def wish(url: str) -> str:
    """Return the pause that the door of a URL asks for in words; "" for none."""
    door = door_of(url)
    return f"{door} asks for a pause of {seconds:.0f} s" if (seconds := left(door)) else ""


def await_short(urls: Iterable[str]) -> None:
    """Wait for the doors of URLs. Raises DoorError for a pause of more than LONGEST_WAIT."""
    for url in urls:
        if (seconds := left(door_of(url))) > LONGEST_WAIT:
            raise DoorError(f"{wish(url)}. Fix: try again later")
        time.sleep(seconds)


def await_all(urls: Iterable[str], waiting: Callable[[str], object], check: Callable[[], object]) -> None:
    """Wait until no door of the URLs asks for a pause; call `waiting` with a note, and `check` again and again.

    Raises BusyDoorError for a pause of more than LONGEST_PAUSE.
    """
    for url in urls:
        noted = False
        while (seconds := left(door_of(url))) > 0:
            if seconds > LONGEST_PAUSE:
                raise BusyDoorError(f"{wish(url)}. Fix: measure later, or with fewer streams")
            if not noted:
                waiting(wish(url))
                noted = True
            check()
            time.sleep(min(seconds, POLL))


def _file(door: str) -> Path:
    return state_folder() / "endpoints" / "doors" / f"{quote(door, safe='')}.pause"
