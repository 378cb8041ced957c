# SPDX-License-Identifier: Apache-2.0
"""Rules that limits of several kinds of testbeds have. Pure."""

from __future__ import annotations

from collections.abc import Collection

from tpcsweep.configuration.checks import Rule
from tpcsweep.configuration.units import Dimension, show


def at_most(name: str, limit: float, unit: Dimension, source: str = "") -> Rule:
    """A parameter has an upper limit, which None does not reach.

    Args:
        name: The parameter's.
        limit: In the parameter's base unit.
        unit: What it is shown in.
        source: What follows it in messages: where it comes from.
    """

    def allowed(value: float | None) -> str | None:
        return None if value is None or value <= limit else f"at most {show(limit, unit)}{source}"

    return Rule((name,), allowed)


def one_of(name: str, values: Collection[object], allowed: str) -> Rule:
    """A parameter has one of a few values; `allowed` says in words which, and why."""
    return Rule((name,), lambda value: None if value in values else allowed)
