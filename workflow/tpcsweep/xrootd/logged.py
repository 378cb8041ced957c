# SPDX-License-Identifier: Apache-2.0
"""Run commands that take long: what they say goes into a log, and they end with whoever started them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

ALONE = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
"""A command's processes and mounts end with whoever started it, kill -9 included."""
NOT_PASSED_ON = re.compile(r"LD_|(C|CXX|CPP|LD)FLAGS$|(CC|CXX)$")
"""Variables that would change what is built."""
SAID_LAST = 8
"""Lines of what a failed command said that errors quote."""
_WRONG = re.compile(r"error:|CMake Error|undefined reference", re.IGNORECASE)


def run(command: Sequence[str], log: Path, hear: Callable[[bytes], object] = bool) -> int:
    """Run a command to its end, its words into a log that it begins anew; returns its exit code.

    Each line is told to `hear`, as it comes.
    """
    environment = {key: value for key, value in os.environ.items() if not NOT_PASSED_ON.match(key)}
    with (
        log.open("wb") as file,
        subprocess.Popen(
            [*ALONE, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout
        try:
            for line in process.stdout:
                file.write(line)
                hear(line)
        except BaseException:
            process.kill()  # whatever it has started goes with it
            raise
    return process.returncode


def last_words(log: Path) -> str:
    """Give the last lines of a log."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-SAID_LAST:])


def wrong(log: Path) -> str:
    """Give the first line of a log that says what is wrong; else its last lines."""
    lines = log.read_text(errors="replace").splitlines()
    return next((line.strip() for line in lines if _WRONG.search(line)), last_words(log))
