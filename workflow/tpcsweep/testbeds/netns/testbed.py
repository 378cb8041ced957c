"""The netns testbed: one deployment at a time on this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tpcsweep.client.handle import ClientError
from tpcsweep.configuration.testbeds import Netns
from tpcsweep.linux.cgroups import CgroupError
from tpcsweep.linux.commands import CommandError
from tpcsweep.measure.cell import measure as measure
from tpcsweep.paths import PathError
from tpcsweep.testbeds import Request
from tpcsweep.testbeds.netns import deployment, machine, state
from tpcsweep.testbeds.netns.servers import DeploymentError
from tpcsweep.testbeds.netns.site import Site

EXPECTED = (
    machine.MachineError,
    CommandError,
    CgroupError,
    DeploymentError,
    PathError,
    ClientError,
    state.TeardownError,
    state.BusyError,
)


@contextlib.contextmanager
def deployed(settings: Netns, request: Request) -> Iterator[Site]:
    """Wait for the machine, remove what dead owners left, deploy; raises what is in EXPECTED."""
    machine.require(request.tools)
    owner = state.Owner(request.sweep, request.deployment, os.getpid(), str(request.logs))
    with state.exclusive(owner, waiting=lambda holder: request.stage(f"waiting for {holder}")):
        for leftover in state.leftovers():
            request.stage(f"removing what is left of {state.describe(leftover)}")
            state.teardown(leftover)
        request.stage(f"deploying {request.deployment}")
        with deployment.deployed(settings, request, owner) as site:
            yield site


def require(_settings: Netns) -> None:
    """Raise MachineError with everything that keeps deployments from coming up on this machine."""
    machine.require()


def reap(_settings: Netns) -> list[str]:
    """Remove what dead owners have left on this machine, and say what it was; raises BusyError, TeardownError."""
    removed = []
    with state.exclusive(state.Owner("reap", "", os.getpid(), "")):
        for leftover in state.leftovers():
            removed.append(state.describe(leftover))
            state.teardown(leftover)
    return removed
