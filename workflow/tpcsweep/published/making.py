# SPDX-License-Identifier: Apache-2.0
"""A published figure drawn from a dataset, with the verdicts on its claims."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from tpcsweep.dataset.labels import how_made
from tpcsweep.figures import save
from tpcsweep.figures.panels import in_common
from tpcsweep.files import write_json
from tpcsweep.published.base import Data, PublishedFigure, Shown
from tpcsweep.published.carried import carried, unmeasured
from tpcsweep.testbeds.simulation.model import datasets

DRAWS = 40  # random parameter sets that simulated data are judged under


def make(figure: PublishedFigure, dataset: Path, picture: Path) -> None:
    """Draw a figure as PNG and SVG, and write the verdicts on its claims as JSON beside it."""
    data = Data(dataset)
    shown = judged(figure, data)
    save(figure.draw(data, shown), picture.parent, picture.stem)
    attributes = data.summary.attrs
    about = {"figure": figure.name, "testbed": attributes.get("testbed"), "scale": attributes.get("scale")}
    write_json(picture.with_suffix(".json"), [{**about, **claim.to_dict()} for claim in shown.claims])


def judged(figure: PublishedFigure, data: Data) -> Shown:
    """Return the title of a figure, notes on its data, and the verdicts on its claims."""
    title = f"{figure.title}; {how_made(data.summary)}"
    draws = islice(datasets(data.summary), DRAWS) if data.simulated else ()
    claims = carried(data.summary, figure.claims, draws)
    own = [figure.when_simulated] if data.simulated and figure.when_simulated else []
    return Shown(title, (_about(data), *own), tuple(claims))


def without_data(figure: PublishedFigure) -> list[dict[str, Any]]:
    """Return the rows of a figure's claims while it has no data, with the commands that make the figure."""
    command = "snakemake published --configfile config/published.yaml"
    if figure.source:
        dataset = f"results/{figure.source}/dataset.nc"
        command = f"tpcsweep import {figure.source} FILE && snakemake published --config dataset={dataset}"
    claims = unmeasured(figure.claims, command)
    return [{"figure": figure.name, **claim.to_dict()} for claim in claims]


def _about(data: Data) -> str:
    attributes = data.summary.attrs
    cells = int(data.summary["throughput"].notnull().sum())
    alike = in_common(data.summary)
    subject = f"Sweep {attributes['sweep']}, testbed {attributes['testbed']}, {cells} cells"
    return f"{subject}; {alike}." if alike else f"{subject}."
