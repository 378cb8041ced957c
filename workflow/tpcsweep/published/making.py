# SPDX-License-Identifier: Apache-2.0
"""A published figure from its configuration to its files: its data by an inner Snakemake, then drawn and judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from matplotlib.figure import Figure

from tpcsweep.configuration.loading import Configuration
from tpcsweep.dataset.labels import how_made
from tpcsweep.figures import save
from tpcsweep.figures.panels import in_common, styled
from tpcsweep.files import write_json, write_text
from tpcsweep.published.base import Data, PublishedFigure, Shown
from tpcsweep.published.carried import Carried, carried, unmeasured
from tpcsweep.published.layout import board, close
from tpcsweep.published.planned import planned
from tpcsweep.published.scaling import written
from tpcsweep.running import holes
from tpcsweep.testbeds.simulation.redrawn import datasets

DRAWS = 40  # random parameter sets that simulated data are judged under

_PLACEHOLDERS = "placeholders"

Run = Callable[[Mapping[str, Any], Sequence[str]], int]
"""Runs a Snakemake with this configuration for some targets; returns its exit code."""


class MakingError(RuntimeError):
    """A figure whose data could not be made."""


@dataclass(frozen=True)
class Making:
    """How figures are made: of which data, on which testbed, into which folder."""

    results: Path
    """The folder of all published figures."""
    run: Run
    testbed: str | None = None
    """None: the figure's own, which simulates."""
    scale: str | None = None
    file: str | None = None
    """A file with data from elsewhere, for a figure that is made of them."""
    also: Path = field(default=Path("results"))
    """Another folder in which data from elsewhere may have been read into a dataset."""


def make(figure: PublishedFigure, making: Making) -> Path:
    """Make a figure's data where they are to be made, draw it, judge its claims; returns the figure.

    Raises:
        MakingError: when the inner Snakemake did not make the dataset.
        ConfigurationError: for a testbed that cannot be read, or a scale by which the sweep cannot be scaled.
    """
    if figure.source is None:
        file = _swept(planned(figure, making.results, making.testbed, making.scale), making)
    else:
        file = _imported(figure.source, making)
        if not file.is_file():
            return _placeholder(figure, making)
    data = Data(file)
    shown = judged(figure, data)
    folder = file.parent if file.is_relative_to(making.results) else making.results / figure.name
    return _write(figure, folder, figure.draw(data, shown), shown.claims, data.summary.attrs)


def is_placeholder(picture: Path) -> bool:
    """Say whether a picture that `make` has returned shows that data are missing."""
    return picture.parent.parent.name == _PLACEHOLDERS


def command(figure: PublishedFigure) -> str:
    """What a user types to have a figure's data read."""
    return f"snakemake {figure.name} --config file=PATH"


def judged(figure: PublishedFigure, data: Data) -> Shown:
    """Say of a figure's data how they came about, at which scale, and the verdicts on its claims."""
    title = f"{figure.title}; {how_made(data.summary)}"
    draws = islice(datasets(data.summary), DRAWS) if data.simulated else ()
    claims = carried(data.summary, figure.claims, draws)
    own = [figure.when_simulated] if data.simulated and figure.when_simulated else []
    return Shown(title, (_about(data), *own), tuple(claims))


def _swept(configuration: Configuration, making: Making) -> Path:
    """The dataset of a sweep, measured or simulated as far as it is not there yet."""
    if configuration.sweep.scale is not None:
        text = yaml.safe_dump(written(configuration.sweep), sort_keys=False, allow_unicode=True)
        write_text(Path(configuration.sweep_file), text)
    run = configuration.run
    config = {"sweep": configuration.sweep_file, "testbed": run.testbed, "results": run.results}
    # The cells too: of those the dataset was folded from, ones that were deleted since would not be missed.
    return _run(making, config, configuration.folder / "dataset.nc", "cells")


def _imported(source: str, making: Making) -> Path:
    """The dataset of data from elsewhere, read now if there is a file; else where it would be."""
    dataset = making.results / source / "dataset.nc"
    if making.file is None:
        return dataset if dataset.is_file() else making.also / source / "dataset.nc"
    config = {"sweep": "smoke", "testbed": "netns", "results": str(making.results)}
    return _run(making, {**config, "source": source, "file": making.file}, dataset)


def _run(making: Making, config: Mapping[str, Any], dataset: Path, *others: str) -> Path:
    code = making.run(config, [*others, str(dataset)])
    if not dataset.is_file() or (code and not holes.beside(dataset)):
        options = " ".join(f"{name}={value}" for name, value in config.items())
        raise MakingError(f"snakemake {dataset} --config {options} ended with {code}; what it said is above")
    return dataset


def _about(data: Data) -> str:
    attributes = data.summary.attrs
    cells = int(data.summary["throughput"].notnull().sum())
    alike = in_common(data.summary)
    subject = f"Sweep {attributes['sweep']}, testbed {attributes['testbed']}, {cells} cells"
    return f"{subject}; {alike}." if alike else f"{subject}."


def _placeholder(figure: PublishedFigure, making: Making) -> Path:
    """A figure of data from elsewhere that says that they are missing, and shows nothing in their place."""
    claims = unmeasured(figure.claims, command(figure))
    shown = Shown(f"{figure.title}; no data", (), tuple(claims))
    with styled():
        drawn, [panel] = board([1], 5.0, 3.0, shown)
        panel.set_axis_off()
        text = f"needs data:\n{command(figure)}\n\nnot simulated: they are public"
        panel.text(0.5, 0.5, text, ha="center", va="center", fontsize=11)
        close(drawn, shown)
    return _write(figure, making.results / _PLACEHOLDERS / figure.name, drawn, claims, {})


def _write(
    figure: PublishedFigure,
    folder: Path,
    drawn: Figure,
    claims: Sequence[Carried],
    attributes: Mapping[str, Any],
) -> Path:
    about = {"figure": figure.name, "testbed": attributes.get("testbed"), "scale": attributes.get("scale")}
    save(drawn, folder, "published")
    write_json(folder / "published.json", [{**about, **claim.to_dict()} for claim in claims])
    return folder / "published.png"
