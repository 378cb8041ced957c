# SPDX-License-Identifier: Apache-2.0
"""Scripts in namespaces of their own, in memory: what they unpack is gone with them, however they end."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO

from .messages import ImageError
from .tars import EPOCH

WORK = "/media"
"""Where the private mount namespaces have their memory: empty on every Debian, and reachable for apt's user."""


def in_private(script: str, environment: Mapping[str, str], out: IO[bytes], program: str) -> None:
    """Run a script as root in mount and process namespaces of its own, in an empty folder in memory.

    The kernel ends all of it with this process, however that ends: the first process of the namespace is killed
    with its parent, the others with it, and the mounts go with the last.

    Args:
        script: For bash, which ends at the first command that fails.
        environment: What it has beside this process's own.
        out: Where its standard output goes.
        program: What an error says that has failed.

    Raises ImageError with the last lines that it said, where it fails.
    """
    setup = f"umask 022; mount -t tmpfs -o mode=755 tpcsweep {WORK}; cd {WORK}\n"
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LC_"))}
    fixed = {"TMPDIR": WORK, "SOURCE_DATE_EPOCH": str(EPOCH), "LANG": "C.UTF-8"}
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", *namespaces, "bash", "-euo", "pipefail", "-c", setup + script],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=said,
            env={**own, **fixed, **environment},
            check=False,
        )
        said.seek(0)
        last = "\n  ".join(said.read().decode(errors="replace").splitlines()[-15:])
    if done.returncode != 0:
        raise ImageError(f"{program} failed with {done.returncode}; it said last:\n  {last}")
