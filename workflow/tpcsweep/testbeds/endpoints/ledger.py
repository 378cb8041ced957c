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

from tpcsweep.common import locks
from tpcsweep.common.files import write_json
from tpcsweep.common.urls import MadeFolder, NewFolder
from tpcsweep.measuring.tools.tool import Credentials
from tpcsweep.testbeds.endpoints import secrets
from tpcsweep.testbeds.endpoints.doors import DoorError, Doors
from tpcsweep.testbeds.endpoints.opening_doors import open_doors
from tpcsweep.testbeds.endpoints.settings import EndpointPair, Endpoints

LINGER = 6.0
"""Seconds that a server may continue a copy without its client; XRootD checks at each marker, after 5 s."""


@dataclass
class Entry:
    file: Path
    pair: str
    folders: dict[str, NewFolder]
    """By role, `source` and `destination`; a MadeFolder if the server has created it."""
    secrets: str

    def made(self, role: str, folder: MadeFolder) -> None:
        """Note that the server of an end has created its folder."""
        self.folders[role] = folder
        self.write()

    def write(self) -> None:
        folders = {
            role: {"door": folder.door, "name": folder.name, "made": isinstance(folder, MadeFolder)}
            for role, folder in self.folders.items()
        }
        write_json(self.file, {"pair": self.pair, "folders": folders, "secrets": self.secrets})

    @classmethod
    def read(cls, file: Path) -> "Entry":
        """Read an entry. Raises ValueError for any other content."""
        try:
            content = json.loads(file.read_text())
            folders = {
                role: (MadeFolder if folder["made"] is True else NewFolder)(folder["door"], folder["name"])
                for role, folder in content["folders"].items()
            }
            if not folders.keys() <= {"source", "destination"}:
                raise ValueError
            return cls(file, content["pair"], folders, str(content["secrets"]))
        except (ValueError, LookupError, TypeError, AttributeError):
            found = "not an entry of this version of tpcsweep"
            fix = "look into the folders that it names, then delete it"
            raise ValueError(f"{file}: {found}. Fix: {fix}") from None


def place() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(state) / "tpcsweep" / "endpoints"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def begin(held: ExitStack, pair: str, folders: Mapping[str, NewFolder], private: Path) -> Entry:
    """Write an entry, and lock it until `held` is closed."""
    name = folders["destination"].name
    file = place() / f"{name}.json"
    held.callback(os.close, locks.lock_file(file.with_suffix(".lock"), name))
    entry = Entry(file, pair, dict(folders), str(private))
    entry.write()
    return entry


def end(entry: Entry) -> None:
    for file in (entry.file, entry.file.with_suffix(".lock")):
        file.unlink(missing_ok=True)


def dead() -> Iterator[Path]:
    """Yield entries of runs that ended without removing them; each entry is locked while it is used."""
    for file in sorted(place().glob("*.json")):
        try:
            descriptor = locks.lock_file(file.with_suffix(".lock"), "tpcsweep reap")
        except locks.LockedError:
            continue
        try:
            if file.exists():
                yield file
        finally:
            os.close(descriptor)


def cleared(doors: Mapping[str, Doors], folders: Mapping[str, NewFolder]) -> tuple[int, list[str]]:
    """Delete folders with their files; return the number of files, and the errors."""
    count, problems = 0, []
    for role, folder in folders.items():
        try:
            count += doors[role].clear(folder)
        except DoorError as error:
            problems.append(str(error))
    return count, problems


def reap(settings: Endpoints) -> tuple[list[str], list[str]]:
    """Delete the folders of dead runs on a testbed's endpoints; return the deleted ones, and the errors."""
    done, problems = [], []
    for file in dead():
        try:
            entry = Entry.read(file)
        except ValueError as error:
            problems.append(str(error))
            continue
        pair = next((pair for pair in settings.pairs if pair.name == entry.pair), None)
        if not pair or any(
            folder.door not in getattr(pair, role).urls for role, folder in entry.folders.items()
        ):
            continue
        count, wrong = _reaped(settings, pair, entry)
        if Path(entry.secrets).name.startswith(secrets.PREFIX):
            shutil.rmtree(entry.secrets, ignore_errors=True)
        if wrong:
            problems += wrong
        else:
            end(entry)
            where = " and ".join(folder.url for folder in entry.folders.values())
            done.append(f"{count} files in {where}")
    return done, problems


def _reaped(settings: Endpoints, pair: EndpointPair, entry: Entry) -> tuple[int, list[str]]:
    with secrets.written(settings, pair) as private:
        try:
            doors = {
                role: open_doors(folder.door, Credentials(private), role)
                for role, folder in entry.folders.items()
            }
        except OSError as error:
            return 0, [str(error)]
        count, wrong = cleared(doors, entry.folders)
        if count and not wrong:  # a server may finish a copy after its client is gone
            time.sleep(LINGER)
            more, wrong = cleared(doors, entry.folders)
            count += more
    return count, wrong
