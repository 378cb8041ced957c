"""Where a sweep runs: one folder for each kind of testbed, each with a module `testbed` that has what is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from tpcsweep.measure.cell import Site
    from tpcsweep.parameters import DeploymentParameters


class BrokenError(Exception):
    """Something of a deployment that was up has died, or does not answer: another deployment must take its place."""


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


class Testbed(Protocol):
    """A kind of testbed."""

    EXPECTED: tuple[type[Exception], ...]
    """What may go wrong, with messages that need no traceback."""

    def deployed(self, settings: Any, request: Request) -> AbstractContextManager[Site]:
        """A deployment that is up and verified for the length of a `with`; nothing stays behind, however it ends."""

    def reap(self, settings: Any) -> list[str]:
        """Remove what dead owners have left; returns what it was."""


def of(kind: str) -> Testbed:
    """The testbed of a kind. Imported when it is asked for: each brings libraries that the other does not need."""
    return cast(Testbed, import_module(f"tpcsweep.testbeds.{kind}.testbed"))
