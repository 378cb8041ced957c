# SPDX-License-Identifier: Apache-2.0
"""The ledger of folders that this user's runs created on endpoints. `reap` deletes those of dead runs.

An entry is a file, written before its folders are created and removed after they are deleted, so it survives kill -9.
The entry's lock shows whether its run is alive. It names a folder from the request to create it until its deletion, and
no folder whose creation was refused.
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
from tpcsweep.common.files import state_folder, write_json
from tpcsweep.common.urls import MadeFolder, NewFolder, made_up
from tpcsweep.measuring.tools.tool import Credentials
from tpcsweep.testbeds.endpoints import pauses, secrets
from tpcsweep.testbeds.endpoints.doors import DoorError, Doors, RefusedError
from tpcsweep.testbeds.endpoints.opening_doors import open_doors
from tpcsweep.testbeds.endpoints.pairs import EndpointPair
from tpcsweep.testbeds.endpoints.settings import Endpoints

LINGER = 6.0
"""Seconds that a server may continue a copy without its client; XRootD checks at each marker, after 5 s."""


@dataclass
class Entry:
    file: Path
    testbed: str
    """Name of the testbed; "" in entries of earlier versions."""
    pair: str
    folders: dict[str, NewFolder]
    """By role, `source` and `destination`; a MadeFolder if the server has created it."""
    secrets: str

    def create(self, role: str, doors: Doors, url: str) -> MadeFolder:
        """Create a new folder in the folder of an end, and return it. Raises DoorError."""
        folder = NewFolder(url, made_up())
        self._note(role, folder)
        try:
            made = doors.make_folder(folder)
        except RefusedError:
            self._note(role, None)
            raise
        self._note(role, made)
        return made

    def _note(self, role: str, folder: NewFolder | None) -> None:
        if folder:
            self.folders[role] = folder
        else:
            del self.folders[role]
        self.write()

    def write(self) -> None:
        folders = {
            role: {"door": folder.door, "name": folder.name, "made": isinstance(folder, MadeFolder)}
            for role, folder in self.folders.items()
        }
        about = {"testbed": self.testbed, "pair": self.pair}
        write_json(self.file, {**about, "folders": folders, "secrets": self.secrets})

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
            about = str(content.get("testbed", "")), str(content["pair"])
            return cls(file, *about, folders, str(content["secrets"]))
        except (ValueError, LookupError, TypeError, AttributeError):
            found = "not an entry of this version of tpcsweep"
            fix = "look into the folders that it names, then delete it"
            raise ValueError(f"{file}: {found}. Fix: {fix}") from None

    def pair_in(self, settings: Endpoints) -> EndpointPair | None:
        """Return the testbed's pair that has the entry's name and folders."""
        pair = settings.named(self.pair)
        folders = self.folders.items()
        known = pair and all(folder.door in getattr(pair, role).urls for role, folder in folders)
        return pair if known else None

    def unexplained(self) -> str:
        """Return what no pair explains, and the fix."""
        where = " and ".join(folder.url for folder in self.folders.values()) or "no folder"
        of = f"pair {self.pair}" + (f" of testbed {self.testbed}" if self.testbed else "")
        fix = f"run `tpcsweep reap --testbed {self.testbed or 'NAME'}` with a testbed that has this pair"
        return f"{where}: {of}. Fix: {fix}, or delete the folders and then {self.file}"


def place() -> Path:
    folder = state_folder() / "endpoints"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def begin(held: ExitStack, testbed: str, pair: str, private: Path) -> Entry:
    """Write an entry without folders, and lock it until `held` is closed."""
    name = made_up()
    file = place() / f"{name}.json"
    held.callback(os.close, locks.lock_file(file.with_suffix(".lock"), name))
    entry = Entry(file, testbed, pair, {}, str(private))
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


def reap(settings: Endpoints, only: str | None = None) -> tuple[list[str], list[str]]:
    """Delete the folders of dead runs on a testbed's endpoints, or on `only` one pair's.

    Return the deleted ones, and the errors.
    """
    done, problems = [], []
    for file in dead():
        try:
            entry = Entry.read(file)
        except ValueError:
            continue
        pair = entry.pair_in(settings)
        if not pair or (only is not None and pair.name != only):
            continue
        count, wrong = _reaped(settings, pair, entry) if entry.folders else (0, [])
        if Path(entry.secrets).name.startswith(secrets.PREFIX):
            shutil.rmtree(entry.secrets, ignore_errors=True)
        if wrong:
            problems += wrong
            continue
        end(entry)
        if entry.folders:
            where = " and ".join(folder.url for folder in entry.folders.values())
            done.append(f"{count} files in {where}")
    return done, problems


def unexplained(settings: Endpoints) -> list[str]:
    """Return the entries of dead runs that no pair of a testbed explains, or nobody can read, each with its fix."""
    found = []
    for file in dead():
        try:
            entry = Entry.read(file)
        except ValueError as error:
            found.append(str(error))
            continue
        if not entry.pair_in(settings):
            found.append(entry.unexplained())
    return found


def _reaped(settings: Endpoints, pair: EndpointPair, entry: Entry) -> tuple[int, list[str]]:
    try:
        pauses.await_short(folder.door for folder in entry.folders.values())
        with secrets.written(settings, pair) as private:
            doors = {
                role: open_doors(folder.door, Credentials(private), role)
                for role, folder in entry.folders.items()
            }
            count, wrong = cleared(doors, entry.folders)
            if count and not wrong:  # a server may finish a copy after its client is gone
                time.sleep(LINGER)
                more, wrong = cleared(doors, entry.folders)
                count += more
    except (OSError, secrets.CredentialError, DoorError) as error:
        where = " and ".join(folder.url for folder in entry.folders.values())
        return 0, [f"{where}: {error}"]
    return count, wrong
