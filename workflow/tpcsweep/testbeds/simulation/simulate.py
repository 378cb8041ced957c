"""Simulate cells with SimGrid: NDJSON in, NDJSON out, a process of its own under the system's Python.

Standard library and Debian's python3-simgrid only; nothing of the package is imported but what is beside this file.
Each line is a cell as `plan.plan` has it; the answer is what `course` reads. SimGrid runs once in a process, so that
each cell is simulated in a fork, which ends without SimGrid's own end (it can hang).
"""

import json
import os
import resource
import signal
import sys
import traceback
from typing import Any

import simgrid  # type: ignore[import-not-found]
from links import Site  # type: ignore[import-not-found]  # beside it: this is run as a file
from streams import by_the_clock, in_turns  # type: ignore[import-not-found]


def simulate(cell: dict[str, Any]) -> dict[str, Any]:
    """The course of a cell, by its rule."""
    found: dict[str, Any] = (in_turns if cell["turns"] else by_the_clock)(Site(cell))
    return found


def say(what: dict[str, Any]) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def answer(cell: dict[str, Any]) -> None:
    """Simulate a cell in a fork, whose answer is a line of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (cell["cpu_seconds"], cell["cpu_seconds"]))
            say(simulate(cell))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        code = os.waitstatus_to_exitcode(status)
        why = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if -code in (signal.SIGXCPU, signal.SIGKILL):
            why += f" (a cell has {cell['cpu_seconds']} s of CPU time: ask for less time, fewer files or larger ones)"
        say({"error": why})


if __name__ == "__main__":
    say({"simgrid": simgrid.simgrid_version})
    for one in sys.stdin:
        answer(json.loads(one))
