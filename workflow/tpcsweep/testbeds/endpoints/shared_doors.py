# SPDX-License-Identifier: Apache-2.0
"""Doors that all runs of a user on a machine share: their streams, and the pauses that servers ask for.

Files in the folder `doors` of the ledger: `<door>.pause` has the time until which a door asked for a pause; `<id>.run`
has the streams of a cell that is being measured. The latter is locked until then, also if the run ends by kill -9.
"""

import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from tpcsweep.common import locks
from tpcsweep.common.errors import BrokenError
from tpcsweep.common.files import write_json

PORTS = {"https": 443, "http": 80}
ROOT_PORT = 1094
LONGEST_PAUSE = 300.0  # s that a run waits for a door before it gives up a deployment
POLL = 1.0  # seconds between looks at other runs


class BusyDoorError(BrokenError):
    """A door asked for a longer pause than LONGEST_PAUSE."""

    final = True


def door_of(url: str) -> str:
    """Return host and port of a URL; "" for a local folder."""
    parts = urlsplit(url)
    host = (
        parts.netloc.rpartition("@")[2]
        if parts.port
        else f"{parts.netloc}:{PORTS.get(parts.scheme, ROOT_PORT)}"
    )
    return host.lower() if parts.netloc else ""


class SharedDoors:
    """The doors of a pair, as all runs of this user on this machine use them."""

    def __init__(self, ledger: Path, testbed: str) -> None:
        self._folder, self._testbed = ledger / "doors", testbed
        self._folder.mkdir(exist_ok=True, mode=0o700)

    def ask_pause(self, door: str, seconds: float) -> None:
        """Note that a door asked for a pause from now on."""
        until = max(time.time() + seconds, self._paused_until(door))
        write_json(self._pause(door), {"until": until})

    def await_pauses(
        self, doors: Iterable[str], waiting: Callable[[str], object], check: Callable[[], object]
    ) -> None:
        """Wait until no door asks for a pause; `waiting` is called with a note, and `check` again and again.

        Raises BusyDoorError for a pause of more than LONGEST_PAUSE.
        """
        for door in doors:
            noted = False
            while (left := self._paused_until(door) - time.time()) > 0:
                words = f"{door} asks for a pause of {left:.0f} s"
                if left > LONGEST_PAUSE:
                    raise BusyDoorError(f"{words}. Fix: measure later, or with fewer streams")
                if not noted:
                    waiting(words)
                    noted = True
                check()
                time.sleep(min(left, POLL))

    def _pause(self, door: str) -> Path:
        return self._folder / f"{quote(door, safe='')}.pause"

    def _paused_until(self, door: str) -> float:
        try:
            return float(json.loads(self._pause(door).read_text())["until"])
        except (OSError, ValueError, LookupError, TypeError):
            return 0.0

    @contextmanager
    def streams(
        self,
        counts: Mapping[str, int],
        most: int,
        waiting: Callable[[str], object],
        check: Callable[[], object] = lambda: None,
    ) -> Iterator[None]:
        """Use doors with some streams each for the length of a `with`, together with other runs at most `most` each.

        Before that, `waiting` is called with the runs that are in the way, and `check` again and again.
        """
        wish = ""
        while isinstance(held := self._entered(counts, most), str):
            if held != wish:
                waiting(wish := held)
            check()
            time.sleep(POLL)
        file, descriptor = held
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
            file.with_suffix(".lock").unlink(missing_ok=True)
            os.close(descriptor)

    def _entered(self, counts: Mapping[str, int], most: int) -> tuple[Path, int] | str:
        """Return a new entry and its lock, or which runs are in the way."""
        with closing(_Lock(self._folder / "all.lock")):
            taken: Counter[str] = Counter()
            owners: set[str] = set()
            for file in self._folder.glob("*.run"):
                try:
                    os.close(locks.lock_file(file.with_suffix(".lock")))
                except locks.LockedError as error:
                    used = _counts(file)
                    taken.update(used)
                    owners |= {str(error)} if used.keys() & counts.keys() else set()
                else:  # its run has ended
                    file.unlink(missing_ok=True)
                    file.with_suffix(".lock").unlink(missing_ok=True)
            for door, count in counts.items():
                if taken[door] and taken[door] + count > most:
                    others = f"{taken[door]} streams of other runs at {door} ({' and '.join(sorted(owners))})"
                    return f"waiting for {others}, as max_streams is {most}"
            file = self._folder / f"{secrets.token_hex(8)}.run"
            descriptor = locks.lock_file(file.with_suffix(".lock"), f"testbed {self._testbed}")
            write_json(file, dict(counts))
            return file, descriptor


class _Lock:
    def __init__(self, file: Path) -> None:
        self._descriptor = locks.lock_file(file, waiting=lambda _: None)

    def close(self) -> None:
        os.close(self._descriptor)


def _counts(file: Path) -> dict[str, int]:
    try:
        return {str(door): int(count) for door, count in json.loads(file.read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
