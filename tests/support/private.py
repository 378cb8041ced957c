# SPDX-License-Identifier: Apache-2.0
"""Scripts in namespaces of their own, in memory: what they unpack is gone with them, however they end."""

import os
import subprocess
import tempfile
from collections.abc import Mapping

WORK = "/media"
"""The memory's place in the private mount namespaces: empty on every Debian, and reachable for apt's user."""


def in_private(script: str, environment: Mapping[str, str]) -> str:
    """Run a script for bash as root in mount and process namespaces of its own, in an empty folder in memory.

    The kernel ends all of it with this process, however that ends: the first process of the namespace is killed
    with its parent, the others with it, and the mounts go with the last.

    Returns:
        The script's standard output and standard error.

    Raises:
        RuntimeError: with the last lines of them, if a command of the script fails.
    """
    setup = f"umask 022; mount -t tmpfs -o mode=755 tpcsweep {WORK}; cd {WORK}\n"
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LC_"))}
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", *namespaces, "bash", "-euo", "pipefail", "-c", setup + script],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**own, "TMPDIR": WORK, "LANG": "C.UTF-8", **environment},
            check=False,
        )
        said.seek(0)
        text = said.read().decode(errors="replace")
    if done.returncode != 0:
        last = "\n  ".join(text.splitlines()[-15:])
        raise RuntimeError(f"the script failed with {done.returncode}; it said last:\n  {last}")
    return text
