# SPDX-License-Identifier: Apache-2.0
"""Run commands, and log each of them so that the log can be pasted into a shell.

The commands are iproute2's own, which operators would type, rather than calls of a netlink library; `-batch -` makes
dozens of changes in one process.
"""

from __future__ import annotations

import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tpcsweep import processes

TIMEOUT = 60.0  # s; a deployment's commands take milliseconds, and a hanging one must not block the sweep


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
            done = processes.run(argv, input=input or "", timeout=TIMEOUT, start_new_session=True)
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
        with self._lock, self.log.open("a") as log:
            log.write(f"{text}\n")
