# SPDX-License-Identifier: Apache-2.0
"""An ordinary user with an empty home, who installs the wheel in an environment and has no checkout."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.storage import ADDRESSES, PORTS
from tests.support.users import User, made
from tests.support.wheels import BIN, wheel_in
from tests.support.workflow import ROOT, succeeded


class Installer(User):
    """A user with a virtual environment, into which the wheel is installed."""

    def asking(self, program: str, *arguments: str, folder: str = "sweeps") -> list[str]:
        """The command line of one of the wheel's programs, in a folder of the user's."""
        command = [str(self.home / "venv/bin" / program), *arguments]
        return self.command(self.home / folder, command)

    def run(self, program: str, *arguments: str, folder: str = "sweeps") -> str:
        return succeeded(self.asking(program, *arguments, folder=folder))

    @property
    def ledger(self) -> list[Path]:
        return list((self.home / ".local/state/tpcsweep/endpoints").glob("*.json"))


@contextlib.contextmanager
def installed(pki: Path, work: Path, *extras: str) -> Iterator[Installer]:
    """A user with the wheel, credentials of a `pki`, and the folder `sweeps` that `tpcsweep init` made."""
    with made(Installer, "tpcpip") as user:
        wheel, home = wheel_in(work), user.home
        # The system's certificates include a site's own authority, as in envs/setup.sh.
        uv = [f"{BIN}/uv", "--quiet", "--system-certs"]
        subprocess.run([*uv, "venv", "--python", sys.executable, home / "venv"], check=True)
        install = [*uv, "pip", "install", "--python", home / "venv/bin/python"]
        asked = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        lists = [ROOT / f"envs/requirements-{extra}.txt" for extra in extras]
        pins = [ROOT / "envs/requirements.txt", *(file for file in lists if file.exists())]
        constraints = [word for file in pins for word in ("--constraint", file)]
        subprocess.run([*install, *constraints, asked], check=True)
        shutil.copytree(pki / "ca", home / "ca", symlinks=True)
        shutil.copyfile(pki / "user.key", home / "proxy")
        (home / "proxy").chmod(0o600)
        subprocess.run(["chown", "--recursive", f"{user.name}:", str(home)], check=True)
        user.run("tpcsweep", "init", "sweeps", folder="")
        yield user


def loopback(**changes: object) -> dict[str, Any]:
    """The settings of a testbed with the storage as its pair, for the user's credentials."""
    ends = {role: {"urls": [f"davs://{ADDRESSES[role]}:{PORTS[role]}/data/test"]} for role in ADDRESSES}
    return {
        "kind": "endpoints",
        "budget": {"bytes": "2 TiB", "time": "1 h"},
        "max_streams": 2,
        "ca": "~/ca",
        "credentials": {"proxy": "$HOME/proxy"},
        "pairs": [{"name": "loopback", **ends, "bandwidth": "20 Gbit/s"}],
        **changes,
    }


def configure(config: Path, files: Mapping[str, object]) -> None:
    """Write files of a user's configuration, by their names as in `sweeps/short`."""
    for name, content in files.items():
        (config / f"{name}.yaml").write_text(yaml.safe_dump(content))
