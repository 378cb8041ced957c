"""Run something in a user-mode-linux kernel, which has what the running kernel may lack: netem, cgroup v2.

Debian package user-mode-linux. Its root is the host's by hostfs; it writes only to tmpfs, and to two files in
the test's own folder that it opened before mounting anything.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

UML = Path(__file__).parent
TIMEOUT = 120


def run_in_uml(script: str, folder: Path) -> str:
    """The output of a shell script run as root inside user-mode-linux; fails the test if it fails."""
    files = {name: folder / name for name in ("script", "out", "code")}
    files["script"].write_text(script)
    environment = [f"RUN_{name.upper()}={file}" for name, file in files.items()]
    argv = ["linux", "mem=768M", "rootfstype=hostfs", "rootflags=/", "rw", f"init={UML / 'boot.sh'}"]
    console = subprocess.run(
        ["timeout", "-k", "5", str(TIMEOUT), *argv, *environment, "con=null", "con0=null", "quiet"],
        env={**os.environ, "TMPDIR": "/dev/shm"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    ).stdout
    assert files["code"].exists(), f"the kernel did not get to the script's end: {console[-2000:]}"
    out = files["out"].read_text()
    assert files["code"].read_text().strip() == "0", out
    return out
