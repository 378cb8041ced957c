"""A published figure from its configuration to its files: its data by an inner Snakemake, then drawn and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import xarray as xr
import yaml
from matplotlib.figure import Figure

from tpcsweep.configuration.loading import Configuration
from tpcsweep.dataset import SIMULATED
from tpcsweep.dataset.labels import how_made
from tpcsweep.figures import save
from tpcsweep.figures.panels import in_common, styled
from tpcsweep.files import write_json
from tpcsweep.published.base import Data, PublishedFigure, Shown
from tpcsweep.published.carried import Carried, carried, unmeasured
from tpcsweep.published.layout import board, close
from tpcsweep.published.planned import planned
from tpcsweep.published.scaling import written
from tpcsweep.running import holes
from tpcsweep.testbeds.simulation.redrawn import datasets

DRAWS = 40
"""Random parameter sets that simulated data are judged under."""

_PLACEHOLDERS = "placeholders"

Run = Callable[[Mapping[str, Any], Sequence[str]], int]
"""Runs a Snakemake with this configuration for some targets; returns its exit code."""


class MakingError(RuntimeError):
    """A figure whose data could not be made."""


@dataclass(frozen=True)
class Making:
    """What a figure is made of and on."""

    results: Path
    """The folder of all published figures."""
    run: Run
    testbed: str | None = None
    """None: the figure's own, which simulates."""
    scale: str | None = None
    file: str | None = None
    """Of data from elsewhere."""
    also: Path = field(default=Path("results"))
    """Where datasets from elsewhere are, where they have been read before."""


def make(figure: PublishedFigure, how_to: Making) -> Path:
    """Make a figure's data where they are to be made, draw it, judge its claims; returns the figure.

    Raises:
        MakingError: when the inner Snakemake did not make the dataset.
        ConfigurationError: for a testbed that cannot be read, or a scale by which the sweep cannot be scaled.
    """
    if figure.source is None:
        found = _swept(planned(figure, how_to.results, how_to.testbed, how_to.scale), how_to)
    elif (imported := _imported(figure.source, how_to)) is None:
        return _placeholder(figure, how_to)
    else:
        found = imported
    data = Data(found)
    shown = judged(figure, data)
    folder = found.parent if found.is_relative_to(how_to.results) else how_to.results / figure.name
    attributes = data.summary.attrs
    return _write(
        figure,
        folder,
        figure.draw(data, shown),
        shown.claims,
        str(attributes["testbed"]),
        attributes.get("scale"),
    )


def is_placeholder(picture: Path) -> bool:
    """Whether what `make` has returned shows what is missing, as there were no data."""
    return picture.parent.parent.name == _PLACEHOLDERS


def command(figure: PublishedFigure) -> str:
    """What a user types to have a figure's data read."""
    return f"snakemake {figure.name} --config file=PATH"


def judged(figure: PublishedFigure, data: Data) -> Shown:
    """What a figure says of its data: how they came about, at which scale, and the verdicts on its claims."""
    title = f"{figure.title}; {how_made(data.summary)}"
    claims = carried(data.summary, figure.claims, _draws(data))
    simulated = data.summary.attrs["testbed_kind"] == SIMULATED
    own = [figure.when_simulated] if simulated and figure.when_simulated else []
    return Shown(title, (_about(data), *own), tuple(claims))


def _swept(configuration: Configuration, how_to: Making) -> Path:
    """The dataset of a sweep, measured or simulated as far as it is not there yet."""
    if configuration.sweep.scale is not None:
        file = Path(configuration.sweep_file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(written(configuration.sweep), sort_keys=False, allow_unicode=True))
    asked = configuration.run
    config = {"sweep": configuration.sweep_file, "testbed": asked.testbed, "results": asked.results}
    # The cells too: of those the dataset was folded from, ones that were deleted since would not be missed.
    return _run(how_to, config, configuration.folder / "dataset.nc", "cells")


def _imported(source: str, how_to: Making) -> Path | None:
    dataset = how_to.results / source / "dataset.nc"
    if how_to.file is None:
        return _there(dataset.parent, how_to.also / source)
    config = {"sweep": "smoke", "testbed": "netns", "results": str(how_to.results)}
    return _run(how_to, {**config, "source": source, "file": how_to.file}, dataset)


def _run(how_to: Making, config: Mapping[str, Any], dataset: Path, *others: str) -> Path:
    code = how_to.run(config, [*others, str(dataset)])
    if not dataset.is_file() or (code and not holes.beside(dataset)):
        given = " ".join(f"{name}={value}" for name, value in config.items())
        raise MakingError(f"snakemake {dataset} --config {given} ended with {code}; what it said is above")
    return dataset


def _there(*folders: Path) -> Path | None:
    files = (folder / "dataset.nc" for folder in folders)
    return next((file for file in files if file.is_file()), None)


def _draws(data: Data) -> Iterator[xr.Dataset]:
    """A simulated dataset under other parameter sets; nothing of a measured one."""
    simulated = data.summary.attrs["testbed_kind"] == SIMULATED
    return islice(datasets(data.summary), DRAWS) if simulated else iter(())


def _about(data: Data) -> str:
    attributes = data.summary.attrs
    cells = int(data.summary["throughput"].notnull().sum())
    alike = in_common(data.summary)
    said = f"Sweep {attributes['sweep']}, testbed {attributes['testbed']}, {cells} cells"
    return f"{said}; {alike}." if alike else f"{said}."


def _placeholder(figure: PublishedFigure, how_to: Making) -> Path:
    """A figure of data from elsewhere that says that they are missing, and shows nothing in their place."""
    claims = unmeasured(figure.claims, "none", command(figure))
    shown = Shown(f"{figure.title}; no data", (), tuple(claims))
    with styled():
        drawn, axes = board(1, 1, 5.0, 3.0, shown)
        one = axes.flat[0]
        one.set_axis_off()
        text = f"needs data:\n{command(figure)}\n\nnot simulated: they are public"
        one.text(0.5, 0.5, text, ha="center", va="center", fontsize=11)
        close(drawn, shown)
    return _write(figure, how_to.results / _PLACEHOLDERS / figure.name, drawn, claims, None, None)


def _write(
    figure: PublishedFigure,
    folder: Path,
    drawn: Figure,
    claims: Sequence[Carried],
    testbed: str | None,
    scale: str | None,
) -> Path:
    save(drawn, folder, "published")
    content = [
        {"figure": figure.name, "testbed": testbed, "scale": scale, **claim.to_dict()} for claim in claims
    ]
    write_json(folder / "published.json", content)
    return folder / "published.png"
