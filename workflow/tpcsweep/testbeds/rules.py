# SPDX-License-Identifier: Apache-2.0
"""Rules that limits of several kinds of testbeds have. Pure."""

from __future__ import annotations

from collections.abc import Collection

from tpcsweep.configuration.checks import Rule
from tpcsweep.configuration.units import CORES, Dimension, show


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


def enough_cores(least: float, why: str) -> Rule:
    """Each origin has at least so many cores, where there is a quota.

    Args:
        least: The fewest cores of one origin.
        why: What follows it in messages.
    """

    def allowed(cores: float | None, origins: int) -> str | None:
        fewest = round(least * origins, 6)
        if cores is None or cores >= fewest:
            return None
        return f"at least {show(fewest, CORES)}, as each origin has its part of them, and {why}"

    return Rule(("cores", "origins"), allowed)


def one_of(name: str, values: Collection[object], allowed: str) -> Rule:
    """A parameter has one of a few values; `allowed` says in words which, and why."""
    return Rule((name,), lambda value: None if value in values else allowed)
