# SPDX-License-Identifier: Apache-2.0
"""A testbed that only plays, for jobs of deployments."""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from tpcsweep.common.errors import BrokenError, FaultError
from tpcsweep.data.cell_result import CellResult
from tpcsweep.data.flags import BROKEN
from tpcsweep.testbeds.interface import Request

from tests.support import synthetic

OK, FAILED, DIED, DIED_LATE, NOT_BEGUN, NOT_UP = "ok", "failed", "died", "died late", "not begun", "not up"
REFUSED, NOT_GONE, DISTURBED = "refused", "not gone", "disturbed"
BROKE = {DIED, DIED_LATE, NOT_BEGUN, NOT_UP, REFUSED}


class RefusedError(Exception):
    """A deployment that is not as asked."""


ERRORS = {NOT_UP: FaultError("a server died"), REFUSED: RefusedError("rtt asked 5 ms, found 9 ms")}


class Played:
    """A testbed whose cells end as a script says; it ends with cells that go well."""

    EXPECTED = (RefusedError,)

    def __init__(self, script: list[str]) -> None:
        self.script = list(script)
        self.deployments: list[list[str]] = []  # how the cells of each have ended
        self.requests: list[Request] = []
        self.up = False
        self.meanwhile: Callable[[], object] = lambda: None  # while a deployment waits for the machine

    @contextlib.contextmanager
    def deployed(self, _: Any, request: Request) -> Iterator[Any]:
        """One at a time, and none that has broken is used again."""
        assert not self.up
        assert request.logs.is_dir()
        self.meanwhile()
        self.up = True
        self.deployments.append([])
        self.requests.append(request)
        provenance = {"deployment": len(self.deployments), "software": {}}
        try:
            if self.script[:1] in ([NOT_UP], [REFUSED]):
                self.deployments[-1].append(self.script.pop(0))
                raise ERRORS[self.deployments[-1][0]]
            yield SimpleNamespace(provenance=provenance, check=self.check, explain=str)
        finally:
            self.up = False
        if self.script[:1] == [NOT_GONE]:
            raise RefusedError("a mount is still there")

    def check(self) -> None:
        assert not set(self.deployments[-1]) & BROKE

    def measure(self, *_: Any) -> CellResult:
        assert self.up
        outcome = self.script.pop(0) if self.script else OK
        self.deployments[-1].append(outcome)
        if outcome in (NOT_BEGUN, NOT_UP, REFUSED):
            raise BrokenError("a server is dead")
        status = "ok" if outcome in (OK, DIED_LATE, DISTURBED) else FAILED
        flags = [BROKEN] if outcome in (DIED, DIED_LATE) else [DISTURBED] if outcome == DISTURBED else []
        return synthetic.result(None, {"throughput": 1.0}, status=status, message=outcome, flags=flags)
