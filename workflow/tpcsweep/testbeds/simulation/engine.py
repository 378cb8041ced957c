# SPDX-License-Identifier: Apache-2.0
"""The process that simulates the cells of a deployment with SimGrid, one after another."""

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
    """SimGrid is not there, or has ended without an answer."""


class Engine:
    """SimGrid, waiting for cells."""

    def __init__(self, process: Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self.version = str(self._answer()["simgrid"])

    def simulate(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """Give what `simulate.py` says of a cell that `plan` has made.

        Raises:
            SimulationError: for a cell that takes too long, and where SimGrid has ended.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and so has what it says
            self._process.stdin.write(json.dumps(cell) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"error": "has ended"}')
        if "error" in answer:
            said = self._log.read_text(errors="replace").strip().splitlines()
            last = f": {said[-1]}" if said else ""
            program = f"{SIMGRID_PYTHON} {PROGRAM.name}"
            raise SimulationError(f"{program}: {answer['error']}{last} (see {self._log})")
        return answer


@contextlib.contextmanager
def started(logs: Path) -> Iterator[Engine]:
    """Have the process for the length of a `with`.

    Args:
        logs: the folder for what it says.

    Raises:
        SimulationError: where SimGrid is missing.
    """
    command = [SIMGRID_PYTHON, "-u", str(PROGRAM)]
    log = logs / "simgrid.log"
    with log.open("w") as errors, contextlib.ExitStack() as stack:
        try:
            process = stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, stderr=errors, text=True))
        except OSError as error:
            raise SimulationError(f"{SIMGRID_PYTHON} cannot be run: {error.strerror}") from error
        stack.callback(process.kill)
        try:
            engine = Engine(process, log)
        except SimulationError as error:
            raise SimulationError("; ".join([str(error), *missing(["simulation"])])) from error
        yield engine
