# SPDX-License-Identifier: Apache-2.0
"""Start processes: the one place that decides what each kind of process gets of the user's environment.

docs/running.md has the table. No user's setting changes a measurement or a figure. Standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders that Debian keeps from the PATH of ordinary users, with tc and sysctl."""
_UMASK = 0o022
_BUILD = re.compile(r"(LD|PKG|GIT|TAR)_|PYTHON|CMAKE|NINJA|DESTDIR$|(CC|CXX)$|.*(FLAGS|PATH|PREFIX)$")
"""Variables that would change a build."""


def measured(home: Path) -> dict[str, str]:
    """Return the environment of servers and measured tools: nothing of the user's."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8"}


def system() -> dict[str, str]:
    """Return the environment of the system's commands, such as ip: where programs and temporary files are."""
    path = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *_SBIN]
    where = {"PATH": os.pathsep.join(dict.fromkeys(path)), "TMPDIR": tempfile.gettempdir()}
    return {**where, "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"}


def python(home: Path) -> dict[str, str]:
    """Return the environment of this Python in another process: its modules, threads and caches, and another home."""
    kept = {k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH" or k.endswith("_NUM_THREADS")}
    caches = os.environ.get("XDG_CACHE_HOME") or f"{system()['HOME']}/.cache"
    if os.access(caches, os.W_OK):
        kept["XDG_CACHE_HOME"] = caches
    modules = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path if folder)
    return {**kept, **system(), "HOME": str(home), "PYTHONPATH": modules}


def building() -> dict[str, str]:
    """Return the environment of downloads and builds: all of the user's, such as proxies, that changes no build."""
    kept = {name: value for name, value in os.environ.items() if not _BUILD.match(name)}
    return {**kept, **system()}


def whole(**told: str) -> dict[str, str]:
    """Return the whole environment: of users' own commands, other Snakemakes, and programs of an image."""
    return {**os.environ, **told}


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Let other users, such as XRootD's, read what this process makes within a `with`, whatever the umask."""
    before = os.umask(_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def run(
    command: Sequence[str | Path], env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command like subprocess.run, without input, and capture text; `env` is that of `system` by default."""
    how = {"capture_output": True, "encoding": "utf-8", "errors": "replace", "umask": _UMASK, **options}
    how |= {} if "input" in options else {"stdin": subprocess.DEVNULL}
    done: subprocess.CompletedProcess[str] = subprocess.run(command, env=env or system(), **how)
    return done


def start(command: Sequence[str], env: Mapping[str, str], **options: Any) -> subprocess.Popen[Any]:
    """Start a command in an environment of this module; raises OSError. A `umask` of -1 is the user's own."""
    return subprocess.Popen(command, env=env, **{"umask": _UMASK, **options})
