# SPDX-License-Identifier: Apache-2.0
"""The ledger of folders that this user's runs created on endpoints. `reap` deletes those of dead runs.

An entry is a file, written before its folders are created and removed after they are deleted, so it survives kill -9.
The entry's lock shows whether its run is alive.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tpcsweep import locks
from tpcsweep.configuration.endpoints import Endpoints
from tpcsweep.files import write_json
from tpcsweep.testbeds.endpoints import open_doors, secrets
from tpcsweep.testbeds.endpoints.doors import DoorError, Doors
from tpcsweep.tools import Credentials

LINGER = 6.0
"""Seconds that a server may continue a copy without its client; XRootD checks at each marker, after 5 s."""


@dataclass(frozen=True)
class Entry:
    file: Path
    pair: str
    folders: Mapping[str, str]  # URLs by role, `source` and `destination`
    secrets: str


def place() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(state) / "tpcsweep" / "endpoints"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def begin(held: ExitStack, name: str, pair: str, folders: Mapping[str, str], private: Path) -> Entry:
    """Write an entry, and lock it until `held` is closed."""
    file = place() / f"{name}.json"
    held.callback(os.close, locks.lock_file(file.with_suffix(".lock"), name))
    write_json(file, {"pair": pair, "folders": dict(folders), "secrets": str(private)})
    return Entry(file, pair, folders, str(private))


def end(entry: Entry) -> None:
    for file in (entry.file, entry.file.with_suffix(".lock")):
        file.unlink(missing_ok=True)


def dead() -> Iterator[Entry]:
    """Yield entries of runs that ended without removing them; each entry is locked while it is used."""
    for file in sorted(place().glob("*.json")):
        try:
            descriptor = locks.lock_file(file.with_suffix(".lock"), "tpcsweep reap")
        except locks.LockedError:
            continue
        try:
            if file.exists():
                yield Entry(file, **json.loads(file.read_text()))
        finally:
            os.close(descriptor)


def cleared(doors: Mapping[str, Doors], folders: Mapping[str, str]) -> tuple[int, list[str]]:
    """Delete folders with their files; return the number of files, and the errors."""
    count, problems = 0, []
    for role, folder in folders.items():
        try:
            count += doors[role].empty(folder)
            doors[role].delete(f"{folder}/")
        except DoorError as error:
            problems.append(str(error))
    return count, problems


def reap(settings: Endpoints) -> tuple[list[str], list[str]]:
    """Delete the folders of dead runs on a testbed's endpoints; return the deleted ones, and the errors."""
    done, problems = [], []
    for entry in dead():
        pair = next((pair for pair in settings.pairs if pair.name == entry.pair), None)
        ours = pair and all(
            any(folder.startswith(f"{url}/") for url in getattr(pair, role).urls)
            for role, folder in entry.folders.items()
        )
        if not pair or not ours:
            continue
        with secrets.written(settings, pair) as private:
            try:
                doors = {
                    role: open_doors(folder, Credentials(private), role)
                    for role, folder in entry.folders.items()
                }
                count, wrong = cleared(doors, entry.folders)
                if count and not wrong:  # a server may finish a copy after its client is gone
                    time.sleep(LINGER)
                    more, wrong = cleared(doors, entry.folders)
                    count += more
            except OSError as error:
                count, wrong = 0, [str(error)]
        shutil.rmtree(entry.secrets, ignore_errors=True)
        where = " and ".join(entry.folders.values())
        if wrong:
            problems += wrong
        else:
            end(entry)
            done.append(f"{count} files in {where}")
    return done, problems
