# SPDX-License-Identifier: Apache-2.0
"""Check whether a testbed can run a sweep, before anything is deployed.

This module contains the rules of every testbed; the package of each kind contains its own in `checks`.
"""

from __future__ import annotations

from importlib import import_module

from tpcsweep.deploying.xrootd.obtaining import EXTRA, to_build
from tpcsweep.deploying.xrootd.releases import HTTP_CLIENT, SYSTEM, Release
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.parameters import Parameters, Value, selected_parameters, show_value, supporting_testbeds
from tpcsweep.sweeps.problems import Problem, raise_any
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.rules import Rule, _combinations, broken


def require_supported(study: SweepStudy) -> None:
    raise_any(check(study))


def check(study: SweepStudy) -> list[Problem]:
    """List the parameters that the testbed does not support, and the problems that its own checks find."""
    # Imported by name: a testbed's modules import this one, and a run needs only its own kind.
    of_testbed = import_module(f"tpcsweep.testbeds.{study.testbed.kind}.checks")
    problems: list[Problem] = of_testbed.check(study)
    return [*broken(_unsupported(study), study), *problems]


def _unsupported(study: SweepStudy) -> list[Rule]:
    """Return rules that require the default of each parameter that the testbed does not support."""
    testbed = study.testbed
    defaults = testbed.defaults(selected_parameters(study.sweep.parameters))
    known = Parameters().model_copy(update=defaults)

    def rule(name: str, default: Value) -> Rule:
        why = f"{show_value(name, default)}: testbeds of kind {testbed.kind} do not support other values"
        return Rule((name,), lambda value: None if value == default else why)

    return [rule(name, value) for name, value in known if testbed.kind not in supporting_testbeds(name)]


def extras(study: SweepStudy) -> list[str]:
    """List the installation extras that a sweep needs, by its testbed, tools and releases."""
    testbed = study.testbed
    # Elsewhere the tools run in pods, on the client's own installation, or not at all.
    if not isinstance(testbed, Netns):
        return []
    tools = {str(tool) for (tool,) in _combinations(study.grid, ("tool",))}
    releases = [str(name) for (name,) in _combinations(study.grid, ("xrootd",))]
    if any(TOOLS[name].own_release for name in tools) and not Release(SYSTEM).copies_by_http():
        releases.append(HTTP_CLIENT)
    builds = {EXTRA} if any(to_build(name, testbed.own_releases) for name in releases) else set()
    return sorted({extra for name in tools if (extra := TOOLS[name].extra)} | builds)
