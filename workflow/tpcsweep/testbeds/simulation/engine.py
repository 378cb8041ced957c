# SPDX-License-Identifier: Apache-2.0
"""A process that simulates cells with SimGrid, one after another."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from tpcsweep.extras import SIMGRID_PYTHON, missing

PROGRAM = Path(__file__).with_name("simulate.py")


class SimulationError(Exception):
    """SimGrid is missing, or has ended without an answer."""


class CellError(SimulationError):
    """SimGrid could not compute a cell, and can compute others."""


class Engine:
    """SimGrid, waiting for cells."""

    def __init__(self, process: Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self.version = str(self._answer()["simgrid"])

    def simulate(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of `simulate.py` for a cell that `plan` has made.

        Raises:
            CellError: if the cell takes too long or SimGrid fails on it.
            SimulationError: if SimGrid has ended.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and so has what it says
            self._process.stdin.write(json.dumps(cell) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line or '{"error": "has ended"}')
        if "error" in answer:
            said = self._log.read_text(errors="replace").strip().splitlines()
            last = f": {said[-1]}" if said else ""
            program = f"{SIMGRID_PYTHON} {PROGRAM.name}"
            kind = CellError if line else SimulationError
            raise kind(f"{program}: {answer['error']}{last} (see {self._log})")
        return answer


@contextlib.contextmanager
def started(log: Path) -> Iterator[Engine]:
    """Run the process for the length of a `with`.

    Args:
        log: The file for what it prints, in a folder that exists.

    Raises:
        SimulationError: if SimGrid is missing.
    """
    command = [SIMGRID_PYTHON, "-u", str(PROGRAM)]
    with log.open("w") as errors, contextlib.ExitStack() as stack:
        try:
            process = stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, stderr=errors, text=True))
        except OSError as error:
            raise SimulationError(f"{SIMGRID_PYTHON} cannot be run: {error.strerror}") from error

        @stack.callback
        def end() -> None:
            process.kill()
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # a process that has ended leaves its input unread
                process.stdin.close()

        try:
            engine = Engine(process, log)
        except SimulationError as error:
            raise SimulationError("; ".join([str(error), *missing(["simulation"])])) from error
        yield engine
