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
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from tpcsweep.common import locks
from tpcsweep.common.files import write_json

POLL = 1.0  # seconds between looks at other runs


class SharedDoors:
    """The doors of a pair, as all runs of this user on this machine use them."""

    def __init__(self, ledger: Path, testbed: str) -> None:
        self._folder, self._testbed = ledger / "doors", testbed
        self._folder.mkdir(exist_ok=True, mode=0o700)

    @contextmanager
    def streams(
        self,
        counts: Mapping[str, int],
        most: Mapping[str, int],
        waiting: Callable[[str], object],
        check: Callable[[], object] = lambda: None,
    ) -> Iterator[None]:
        """Use doors with some streams each for the length of a `with`, together with other runs at most `most` of each.

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

    def _entered(self, counts: Mapping[str, int], most: Mapping[str, int]) -> tuple[Path, int] | str:
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
                if taken[door] and taken[door] + count > most[door]:
                    others = f"{taken[door]} streams of other runs at {door} ({' and '.join(sorted(owners))})"
                    return f"waiting for {others}, as max_streams is {most[door]}"
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
