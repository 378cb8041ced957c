# SPDX-License-Identifier: Apache-2.0
"""Interface of testbeds. Each kind is a package whose module `testbed` implements `Testbed`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tpcsweep.common.errors import BrokenError

if TYPE_CHECKING:
    from tpcsweep.data.cell_result import CellResult
    from tpcsweep.sweeps.parameters import DeploymentParameters


@dataclass(frozen=True)
class Request:
    """A deployment that a testbed should start."""

    sweep: str
    deployment: str  # the deployment's path, such as origins=2/rtt=20
    parameters: DeploymentParameters
    tools: Sequence[str]  # the tools of the deployment's cells
    seconds: float  # the longest total duration of its cells, s
    logs: Path  # the folder for logs of servers and commands
    stage: Callable[[str], None]  # reports the current step to the user
    streams: int = 1  # the largest number of streams of a cell
    testbed: str = ""  # the testbed's name
    arriving: int = 0  # the largest total size of a cell's destination files in memory, bytes
    preferred_place: int = 0  # index of the preferred place, modulo the number of places of the testbed


class TeardownError(Exception):
    """Parts of a deployment could not be removed; the message names them."""


def take_all_steps(
    identifier: str, steps: Iterable[Callable[[], object]], *expected: type[Exception]
) -> None:
    """Run all steps of a deployment's teardown, even if some fail.

    Raises TeardownError with the messages of all TeardownErrors and `expected` errors of the steps.
    """
    problems = []
    handled: tuple[type[Exception], ...] = (TeardownError, *expected)
    for step in steps:
        try:
            step()
        except handled as error:
            problems.append(str(error))
    if problems:
        raise TeardownError(f"deployment {identifier} is not gone: {'; '.join(problems)}")


class Deployment(Protocol):
    """A running deployment, as far as the runner uses it; measuring depends on the testbed."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Hardware, software and settings with which cells are measured."""

    def check(self) -> None:
        """Raise BrokenError if a part of the deployment has failed."""

    def explain(self, error: BrokenError) -> str:
        """Return the cause of a failure for messages."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check of a testbed, a row of `tpcsweep check`."""

    subject: str  # the checked object, such as a server, a pair or a node
    check: str
    status: Literal["ok", "failed", "skipped", "warning"]
    reason: str = ""  # the reason of a failed or skipped check, or the value found
    pair: str = ""  # the pair of endpoints; blanks separate several that share an end
    role: str = ""  # `source` or `destination`
    door: str = ""  # host and port
    seconds: float | None = None  # the duration of the check


class Testbed(Protocol):
    """The module `testbed` of a kind of testbed.

    Optional functions:

    - `check(study)` yields findings; with `pair` those of one pair of endpoints.
    - `rehearse(study)` raises an error of EXPECTED if the deployments of a sweep would be refused.
    - `warnings(study)` returns reasons why some of its cells may fail, or raises an error if all will.
    - `pause(settings, wanted)` returns the seconds for which the sites of a deployment ask for a pause.
    - `faulty_sites(settings, wanted)` returns the sites of a deployment that cannot be used, and why.
    - `unexplained(settings)` returns leftovers that `reap` cannot assign.
    - `manifests(study)` returns the objects of its deployments.
    """

    EXPECTED: tuple[type[Exception], ...]
    """Errors whose messages need no traceback. An error whose `final` is true is not retried."""

    def require(self, settings: Any) -> None:
        """Raise an error of EXPECTED if no deployment can start; called once, before the first one."""

    def deployed(self, settings: Any, request: Request) -> AbstractContextManager[Any]:
        """Return a context manager that starts and verifies a deployment, and removes it completely."""

    measure: Callable[..., CellResult]
    """Measures or computes a cell of a running deployment; has the signature of `measuring.cell.measure`."""

    def reap(self, settings: Any) -> list[str]:
        """Remove leftovers of dead processes and return their descriptions."""
