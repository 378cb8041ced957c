"""A published figure from its configuration to its files: its data by an inner Snakemake, then drawn and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import xarray as xr
import yaml
from matplotlib.figure import Figure

from tpcsweep import yaml_file
from tpcsweep.dataset import SIMULATED
from tpcsweep.figures import save
from tpcsweep.figures.labels import how
from tpcsweep.figures.panels import in_common, styled
from tpcsweep.published.base import Data, PublishedFigure, Shown
from tpcsweep.published.carried import Carried, carried, unmeasured
from tpcsweep.published.layout import board, close
from tpcsweep.published.scaling import factor, scaled, written
from tpcsweep.simulated import datasets
from tpcsweep.sweep import Sweep

DRAWS = 40
"""Random parameter sets that simulated data are judged under."""

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
        ConfigurationError: for a scale that is none, or by which the sweep cannot be scaled.
    """
    scale: str | None = None
    notes: tuple[str, ...] = ()
    if figure.source is not None:
        found = _imported(figure.source, how_to)
    else:
        scale = how_to.scale
        found, notes = _swept(figure, how_to)
    if found is None:
        return _placeholder(figure, how_to)
    data = Data(found)
    shown = judged(figure, data, scale, notes)
    folder = found.parent if found.is_relative_to(how_to.results) else how_to.results / figure.name
    testbed = str(data.summary.attrs["testbed"])
    return _write(figure, folder, figure.draw(data, shown), shown.claims, testbed, scale)


def judged(figure: PublishedFigure, data: Data, scale: str | None = None, notes: Sequence[str] = ()) -> Shown:
    """What a figure says of its data: how they came about, at which scale, and the verdicts on its claims.

    notes: what scaling has left out.
    """
    title = f"{figure.title}; {how(data.summary)}"
    if scale is not None:
        left = "".join(f"; {note}" for note in notes)
        title += f", scaled {scale}: bandwidth, cores, files and buffers × {scale}{left}"
    claims = carried(data.summary, figure.claims, _draws(data))
    return Shown(title, (_about(data),), tuple(claims))


def _swept(figure: PublishedFigure, how_to: Making) -> tuple[Path, tuple[str, ...]]:
    """The dataset of a sweep, measured or simulated as far as it is not there yet; and what its scaling left out."""
    testbed = how_to.testbed or figure.testbed
    sweep, name = f"config/published/{figure.name}.yaml", figure.name
    notes: tuple[str, ...] = ()
    if how_to.scale is not None:
        asked = Sweep.model_validate(yaml_file.read(Path(sweep), sweep))
        smaller, notes = scaled(asked, factor(how_to.scale))
        name = f"{figure.name}_scaled_{how_to.scale.replace('/', '_')}"
        file = how_to.results / "sweeps" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        header = f"# {sweep} × {how_to.scale}, written by `snakemake {figure.name}`\n"
        file.write_text(header + yaml.safe_dump(written(smaller), sort_keys=False))
        sweep = str(file)
    config = {"sweep": sweep, "testbed": testbed, "results": str(how_to.results)}
    # As `Configuration.folder`, which is for testbeds of any kind: only those of kind netns have the bare name.
    folder = how_to.results / (name if _kind(testbed) == "netns" else f"{name}@{Path(testbed).stem}")
    # The cells too: of those the dataset was folded from, ones that were deleted since would not be missed.
    return _run(how_to, config, folder / "dataset.nc", "cells"), notes


def _imported(source: str, how_to: Making) -> Path | None:
    dataset = how_to.results / source / "dataset.nc"
    if how_to.file is None:
        return _there(dataset.parent, how_to.also / source)
    config = {"sweep": "smoke", "testbed": "netns", "results": str(how_to.results)}
    return _run(how_to, {**config, "source": source, "file": how_to.file}, dataset)


def _run(how_to: Making, config: Mapping[str, Any], dataset: Path, *others: str) -> Path:
    code = how_to.run(config, [*others, str(dataset)])
    if code or not dataset.is_file():
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


def _kind(testbed: str) -> str:
    """The kind of a testbed; raises ConfigurationError where its file cannot be read."""
    file = testbed if testbed.endswith(".yaml") else f"config/testbeds/{testbed}.yaml"
    return str(yaml_file.read(Path(file), file).get("kind"))


def _about(data: Data) -> str:
    attributes = data.summary.attrs
    cells = int(data.summary["throughput"].notnull().sum())
    return f"Sweep {attributes['sweep']}, testbed {attributes['testbed']}, {cells} cells; {in_common(data.summary)}."


def _placeholder(figure: PublishedFigure, how_to: Making) -> Path:
    """A figure of data from elsewhere that says that they are missing, and shows nothing in their place."""
    command = f"snakemake {figure.name} --config file=PATH"
    claims = unmeasured(figure.claims, "none", command)
    shown = Shown(f"{figure.title}; no data", (), tuple(claims))
    with styled():
        drawn, axes = board(1, 1, 5.0, 3.0, shown)
        one = axes.flat[0]
        one.set_axis_off()
        text = f"needs data:\n{command}\n\nnot simulated: they are public"
        one.text(0.5, 0.5, text, ha="center", va="center", fontsize=11)
        close(drawn, shown)
    return _write(figure, how_to.results / figure.name, drawn, claims, None, None)


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
    beside = folder / ".published.json.part"
    beside.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    beside.replace(folder / "published.json")
    return folder / "published.png"
