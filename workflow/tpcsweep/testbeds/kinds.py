# SPDX-License-Identifier: Apache-2.0
"""Testbeds by kind: the only place that knows all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tpcsweep.sweeps.parameters import DeploymentParameters
    from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.interface import Finding, Testbed


def load_testbed(kind: str) -> Testbed:
    """Import the testbed of a kind, without the libraries of other kinds."""
    return cast(Testbed, import_module(f"tpcsweep.testbeds.{kind}.testbed"))


def require(study: SweepStudy) -> None:
    """Raise an error of the testbed's EXPECTED if the deployments of a sweep cannot start."""
    testbed = load_testbed(study.testbed.kind)
    if rehearse := getattr(testbed, "rehearse", None):
        rehearse(study)
    testbed.require(study.testbed)


def warnings(study: SweepStudy) -> list[str]:
    """Return reasons why some cells of a sweep may fail. Raises an error of EXPECTED if all will."""
    testbed = load_testbed(study.testbed.kind)
    found: list[str] = testbed.warnings(study) if hasattr(testbed, "warnings") else []
    return found


def pause(study: SweepStudy, wanted: DeploymentParameters) -> float:
    """Return the seconds for which the sites of a deployment ask for a pause."""
    ask = getattr(load_testbed(study.testbed.kind), "pause", None)
    return float(ask(study.testbed, wanted)) if ask else 0.0


def faulty_sites(study: SweepStudy, wanted: DeploymentParameters) -> Mapping[str, str]:
    """Return the sites of a deployment that cannot be used now, and why."""
    ask = getattr(load_testbed(study.testbed.kind), "faulty_sites", None)
    return dict(ask(study.testbed, wanted)) if ask else {}


def findings(study: SweepStudy, pair: str | None = None) -> Iterable[Finding]:
    """Check a testbed, or one of its pairs: by its own checks, or by whether a deployment can start."""
    testbed, name = load_testbed(study.testbed.kind), study.testbed_name
    if own := getattr(testbed, "check", None):
        yield from own(study) if pair is None else own(study, pair)
        return
    try:
        require(study)
    except testbed.EXPECTED as error:
        yield Finding(name, "can deploy", "failed", str(error))
    else:
        yield Finding(name, "can deploy", "ok")
