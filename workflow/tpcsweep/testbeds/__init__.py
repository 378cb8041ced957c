# SPDX-License-Identifier: Apache-2.0
"""Where a sweep runs: one folder for each kind of testbed, each with a module `testbed` that has what is here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from tpcsweep.flags import BrokenError

if TYPE_CHECKING:
    from tpcsweep.configuration.loading import Configuration
    from tpcsweep.configuration.parameters import DeploymentParameters


@dataclass(frozen=True)
class Request:
    """One deployment that is to come up."""

    sweep: str
    deployment: str
    """Its path, such as origins=2/rtt=20."""
    parameters: DeploymentParameters
    tools: Sequence[str]
    """The tools that its cells use."""
    seconds: float
    """How long its cells may take at most, together."""
    logs: Path
    """The folder for everything that servers and commands say."""
    stage: Callable[[str], None]
    """Tells people what is being done or waited for."""
    streams: int = 1
    """The most streams that a cell has."""
    testbed: str = ""
    """The testbed's name."""
    arriving: int = 0
    """Bytes of the files that arrive in memory at a time, the most that a cell has."""
    turn: int = 0
    """Which of a testbed's places comes first where there are several, counted around."""


class TeardownError(Exception):
    """Something of a deployment is still there; the message says what."""


def take_all_steps(
    identifier: str, steps: Iterable[Callable[[], object]], *expected: type[Exception]
) -> None:
    """Take every step of a deployment's teardown, whatever became of the others.

    Raises:
        TeardownError: What was raised in them of what is expected, if anything.
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
    """What a run needs of a deployment that is up; what measuring needs of it is the testbed's own affair."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where and with what its cells are measured."""

    def check(self) -> None:
        """Raise BrokenError if something of it has died."""

    def explain(self, error: BrokenError) -> str:
        """Say for people what has broken."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check of a testbed, a row of `tpcsweep check`."""

    subject: str
    """The thing that was checked, such as a server, a pair or a node."""
    check: str
    status: Literal["ok", "failed", "skipped"]
    reason: str = ""
    """Why the check failed or was skipped; or the value that was found."""


class Testbed(Protocol):
    """A kind of testbed.

    A module may also have `check(configuration)`, which yields findings; `rehearse(configuration)`, which raises what
    is in EXPECTED if the deployments of a sweep would be refused; and `manifests(configuration)`, their objects.
    """

    EXPECTED: tuple[type[Exception], ...]
    """What may go wrong, with messages that need no traceback. An error whose `final` is true is not retried."""

    def require(self, settings: Any) -> None:
        """Raise what is in EXPECTED if no deployment could come up; called once, before the first one."""

    def deployed(self, settings: Any, request: Request) -> AbstractContextManager[Any]:
        """Give a deployment that is up and verified for the length of a `with`; nothing stays behind."""

    measure: Callable[..., dict[str, Any]]
    """Measures a cell in a deployment that is up, or computes it; called as `measure.cell.measure` is."""

    def reap(self, settings: Any) -> list[str]:
        """Remove what dead owners have left, and say what it was."""


def of(kind: str) -> Testbed:
    """Import the testbed of a kind; the libraries of the others are not loaded."""
    return cast(Testbed, import_module(f"tpcsweep.testbeds.{kind}.testbed"))


def require(configuration: Configuration) -> None:
    """Raise what is in EXPECTED of the testbed if deployments of a sweep could not come up."""
    testbed = of(configuration.testbed.kind)
    if rehearse := getattr(testbed, "rehearse", None):
        rehearse(configuration)
    testbed.require(configuration.testbed)


def findings(configuration: Configuration) -> Iterable[Finding]:
    """Check a testbed itself, whatever the sweep: its own checks, or whether a deployment can start at all."""
    testbed, name = of(configuration.testbed.kind), configuration.testbed_name
    if own := getattr(testbed, "check", None):
        yield from own(configuration)
        return
    try:
        require(configuration)
    except testbed.EXPECTED as error:
        yield Finding(name, "can deploy", "failed", str(error))
    else:
        yield Finding(name, "can deploy", "ok")
