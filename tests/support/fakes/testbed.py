# SPDX-License-Identifier: Apache-2.0
"""A testbed whose cells are measured at once. Files in its folder tell it what to do, and `log` tells what it did."""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tpcsweep.data.cell_result import CellResult
from tpcsweep.running import runner
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.testbeds.interface import Request

from tests.support.fakes import FOLDER

HERE = Path(os.environ[FOLDER])
runner.CALM = 0.0  # a busy machine does not matter here


class RefusedError(Exception):
    """The deployment does not start as asked."""


EXPECTED = (RefusedError,)


class _Site:
    def __init__(self, deployment: str) -> None:
        self.deployment = deployment
        self.provenance = {"software": {"xrootd": "played"}}

    def check(self) -> None:
        """All is well."""

    explain = str


def _log(text: str) -> None:
    with (HERE / "log").open("a") as file:
        file.write(f"{text}\n")


def require(_settings: Any) -> None:
    """Refuse the machine if the file `lacking` exists."""
    if (HERE / "lacking").exists():
        raise RefusedError("this machine lacks a program")


@contextlib.contextmanager
def deployed(_settings: Any, request: Request) -> Iterator[_Site]:
    """Deploy nothing. Fail for the deployments in the file `refused`."""
    _log(f"deploy {request.deployment}")
    refused = HERE / "refused"
    if refused.exists() and request.deployment in refused.read_text().split():
        raise RefusedError("rtt asked 5 ms, found 9 ms")
    yield _Site(request.deployment)
    _log(f"tear down {request.deployment}")


def measure(site: _Site, parameters: Parameters, *_: Any) -> CellResult:
    """Return the result in the file `record.json`. In the cell that the file `hang` names, wait until it is deleted."""
    cell = f"{site.deployment}/streams={parameters.streams}"
    hang = HERE / "hang"
    if hang.exists() and hang.read_text() == cell:
        (HERE / "hangs").write_text(str(os.getpid()))
        while hang.exists():
            time.sleep(0.01)
    _log(cell)
    record = json.loads((HERE / "record.json").read_bytes())
    return CellResult.from_json({**record, "provenance": {}})


def reap(_settings: Any) -> list[str]:
    """Find nothing."""
    return []
