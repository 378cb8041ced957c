# SPDX-License-Identifier: Apache-2.0
"""Run scripts in a user-mode-linux kernel, for features like netem that this kernel lacks.

It needs the Debian package user-mode-linux and no privileges: it is a process with root inside. Its root file system is
the host's by hostfs; it writes only to tmpfs, and to two files that it opened before mounting anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
MODULES = HERE / "modules.py"
"""Script that runs inside and loads the kernel modules in its arguments."""
KERNEL = "linux"
"""Debian's name of the kernel's program."""
MEMORY = "1536M"
"""Memory of the kernel, taken from /dev/shm on use."""


class UmlError(RuntimeError):
    """The kernel did not start, or the script inside failed."""


def run(script: str, folder: Path, timeout: float = 600) -> str:
    """Run a bash script as root inside, and return its output including errors.

    Args:
        script: Text of the script.
        folder: Folder for the script, its output and its exit code.
        timeout: Seconds until everything is killed.

    Raises:
        UmlError: If the kernel is not installed, does not reach the script's end in time, or the script fails.
    """
    if not shutil.which(KERNEL):
        raise UmlError(f"{KERNEL}: no such program; install the Debian package user-mode-linux")
    files = {name: folder.resolve() / name for name in ("script", "out", "code")}
    files["code"].unlink(missing_ok=True)
    files["script"].write_text(script)
    argv = [KERNEL, f"mem={MEMORY}", "rootfstype=hostfs", "rootflags=/", "rw", f"init={HERE / 'boot.sh'}"]
    environment = [f"RUN_{name.upper()}={file}" for name, file in files.items()]
    said = subprocess.run(
        ["timeout", "-k", "5", f"{timeout:g}", *argv, *environment, "con=null", "con0=null", "quiet"],
        # The kernel maps its memory from the folder for temporary files.
        env={**os.environ, "TMPDIR": "/dev/shm", "LD_PRELOAD": str(_registers(folder.resolve()))},  # noqa: S108
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    ).stdout
    out = files["out"].read_text() if files["out"].exists() else ""
    if not files["code"].exists() or not (code := files["code"].read_text().strip()):
        raise UmlError(
            f"user-mode-linux did not get to the script's end, for which it had {timeout:g} s: "
            f"{out[-2000:]}\n{said[-2000:]}"
        )
    if code != "0":
        raise UmlError(f"inside user-mode-linux: exit code {code}: {out[-2000:]}")
    return out


def _registers(folder: Path) -> Path:
    """Compile registers.c, without which the kernel does not run on a CPU with AMX."""
    library, source = folder / "registers.so", HERE / "registers.c"
    command = ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UmlError(f"{source}: {error}; install a C compiler (Debian: gcc libc6-dev)") from error
    if done.returncode != 0:
        raise UmlError(f"{source} could not be compiled: {done.stderr[-2000:]}")
    return library
