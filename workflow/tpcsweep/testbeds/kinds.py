# SPDX-License-Identifier: Apache-2.0
"""Testbeds by kind: the only place that knows all of them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
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


def findings(study: SweepStudy) -> Iterable[Finding]:
    """Check a testbed for any sweep: by its own checks, or by whether a deployment can start."""
    testbed, name = load_testbed(study.testbed.kind), study.testbed_name
    if own := getattr(testbed, "check", None):
        yield from own(study)
        return
    try:
        require(study)
    except testbed.EXPECTED as error:
        yield Finding(name, "can deploy", "failed", str(error))
    else:
        yield Finding(name, "can deploy", "ok")
