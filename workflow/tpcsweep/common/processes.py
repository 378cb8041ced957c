# SPDX-License-Identifier: Apache-2.0
"""Start of processes, with the environment for each kind of process.

docs/running.md has the table. No user's setting changes a measurement or a figure. Standard library only.

Deployments are made with `Commands` of iproute2, which operators would type, rather than with a netlink library. The
log of commands can be pasted into a shell.
"""

import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders with tc and sysctl, which Debian omits from the PATH of ordinary users."""
_UMASK = 0o022
_BUILD = re.compile(r"(LD|PKG|GIT|TAR)_|PYTHON|CMAKE|NINJA|DESTDIR$|(CC|CXX)$|.*(FLAGS|PATH|PREFIX)$")
"""Variables that would change a build."""
TIMEOUT = 60.0
"""Seconds for one of `Commands`, which take milliseconds; a hanging one must not block the sweep."""


def measured_environment(home: Path) -> dict[str, str]:
    """Return the environment of servers and measured tools, without anything of the user's."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8"}


def system_environment() -> dict[str, str]:
    """Return the environment of system commands, such as ip: paths of programs and temporary files."""
    path = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *_SBIN]
    where = {"PATH": os.pathsep.join(dict.fromkeys(path)), "TMPDIR": tempfile.gettempdir()}
    return {**where, "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"}


def python(home: Path) -> dict[str, str]:
    """Return the environment of this Python in another process: modules, threads, caches, another home."""
    kept = {k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH" or k.endswith("_NUM_THREADS")}
    caches = os.environ.get("XDG_CACHE_HOME") or f"{system_environment()['HOME']}/.cache"
    if os.access(caches, os.W_OK):
        kept["XDG_CACHE_HOME"] = caches
    modules = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path if folder)
    return {**kept, **system_environment(), "HOME": str(home), "PYTHONPATH": modules}


def build_environment() -> dict[str, str]:
    """Return the environment of downloads and builds: all variables (such as proxies) that alter no build."""
    kept = {name: value for name, value in os.environ.items() if not _BUILD.match(name)}
    return {**kept, **system_environment()}


def user_environment() -> dict[str, str]:
    """Return the environment of a user's commands for hosts: that of system commands, and what ssh and kubectl need."""
    kept = ("USER", "LOGNAME", "SSH_AUTH_SOCK", "KUBECONFIG")
    return {name: os.environ[name] for name in kept if name in os.environ} | system_environment()


def full_environment(**added: str) -> dict[str, str]:
    """Return the whole environment, for users' commands, other Snakemakes, and programs of an image."""
    return {**os.environ, **added}


@contextlib.contextmanager
def readable_umask() -> Iterator[None]:
    """Let other users, such as XRootD's, read files created within a `with`, overriding the umask."""
    before = os.umask(_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def run(
    command: Sequence[str | Path], env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command like subprocess.run, without input, capturing text; `env` is by default `system_environment()`."""
    how = {"capture_output": True, "encoding": "utf-8", "errors": "replace", "umask": _UMASK, **options}
    how |= {} if "input" in options else {"stdin": subprocess.DEVNULL}
    done: subprocess.CompletedProcess[str] = subprocess.run(command, env=env or system_environment(), **how)
    return done


def start(command: Sequence[str], env: Mapping[str, str], **options: Any) -> subprocess.Popen[Any]:
    """Start a command in an environment of this module. Raises OSError. A `umask` of -1 keeps the user's."""
    return subprocess.Popen(command, env=env, **{"umask": _UMASK, **options})


class CommandError(RuntimeError):
    """A command could not be run, failed, or timed out."""


class Commands:
    """Commands of one deployment. They and their input are logged verbatim: never pass a secret."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._lock = threading.Lock()

    def run(self, argv: Sequence[str], input: str | None = None) -> str:  # noqa: A002, the name subprocess uses
        """Run a command to its end and return its standard output. Any thread may call this.

        Raises CommandError if it cannot be run, has an exit code other than 0, or takes longer than TIMEOUT.
        """
        begun, clock = datetime.now(UTC), time.monotonic()
        code: int | None = None
        out = err = ""
        try:
            # Empty input by default, never the terminal; a separate session, which Ctrl-C does not reach.
            done = run(argv, input=input or "", timeout=TIMEOUT, start_new_session=True)
            code, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            err = f"no end after {TIMEOUT:.0f} s"
        except OSError as error:
            err = str(error)
        seconds = time.monotonic() - clock
        here_document = "" if input is None else "\n".join([" <<'END'", *input.splitlines(), "END"])
        errors = "".join(f"#   {line}\n" for line in err.splitlines() if code != 0)
        self.note(
            f"# {begun.isoformat(timespec='milliseconds')}\n{shlex.join(argv)}{here_document}\n{errors}"
            f"# {'failed' if code is None else f'exit {code}'}, {seconds * 1e3:.1f} ms"
        )
        if code != 0:
            outcome = "did not run to its end" if code is None else f"exit code {code}"
            output = (err.strip() or out.strip()) or "no output"
            raise CommandError(f"{shlex.join(argv)}: {outcome} after {seconds:.2f} s: {output}")
        return str(out)

    def batch(self, tool: Sequence[str], lines: Sequence[str]) -> None:
        """Send lines to `ip -batch -` or `tc -batch -`; `tool` is their start, such as ("ip", "-n", "router").

        Raises CommandError as `run` does; the lines before the failing one have been applied.
        """
        self.run([*tool, "-batch", "-"], input="".join(f"{line}\n" for line in lines))

    def note(self, text: str) -> None:
        """Log a comment, or a long-running process that is started elsewhere."""
        with self._lock, self.log.open("a", encoding="utf-8") as log:
            log.write(f"{text}\n")
