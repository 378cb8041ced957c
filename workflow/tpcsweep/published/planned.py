# SPDX-License-Identifier: Apache-2.0
"""Which sweep a published figure is made of, on which testbed: its configuration, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tpcsweep.configuration.checks import check
from tpcsweep.configuration.loading import Configuration, load
from tpcsweep.configuration.parameters import chosen
from tpcsweep.configuration.problems import ConfigurationError, Problem, within
from tpcsweep.configuration.sweep import expand
from tpcsweep.published.base import PublishedFigure
from tpcsweep.published.scaling import scaled


def planned(figure: PublishedFigure, results: Path, testbed: str | None, scale: str | None) -> Configuration:
    """The configuration of a figure's sweep, by default on the figure's own testbed and at the published scale.

    Raises:
        ConfigurationError: for a testbed that cannot be read, or a scale by which the sweep cannot be scaled.
    """
    sweep = f"config/published/{figure.name}.yaml"
    configuration = load(
        {"sweep": sweep, "testbed": testbed or figure.testbed, "results": str(results)}, Path()
    )
    if scale is None:
        return configuration
    with within(sweep):
        smaller = scaled(configuration.sweep, scale, configuration.testbed.kind)
    name = f"{figure.name}_scaled_{scale.replace('/', '_')}"
    return replace(
        configuration,
        name=name,
        sweep=smaller,
        sweep_file=str(results / "sweeps" / f"{name}.yaml"),
        grid=expand(smaller, configuration.testbed.defaults(chosen(smaller.parameters))),
    )


def problems(
    figure: PublishedFigure, results: Path, testbed: str | None, scale: str | None
) -> tuple[str, ...]:
    """Give the reasons why a figure cannot be made as asked, a line for each."""
    if figure.source is not None:
        return ()
    try:
        lines: Sequence[Problem] = check(planned(figure, results, testbed, scale))
    except ConfigurationError as error:
        lines = error.problems
    return tuple(f"{figure.name}: {problem}" for problem in lines)
