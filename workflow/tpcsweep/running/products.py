# SPDX-License-Identifier: Apache-2.0
"""Notebooks that the workflow runs on each dataset, and their files. List a new one here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    """Picture of a notebook in Snakemake's report."""

    name: str  # name of its file in figures/, without .png
    label: str
    caption: str  # name of its text in workflow/report/


@dataclass(frozen=True)
class Notebook:
    """Notebook `notebooks/NAME.ipynb`, which gets the dataset of a study and a folder for its figures.

    The notebook writes each figure as PNG and SVG.
    """

    name: str
    figures: Sequence[Figure] = ()
    more: Sequence[str] = ()  # its other files in figures/
    inputs: Mapping[str, str] = field(default_factory=dict)  # further inputs of its rule, by parameter
    requested: bool = False  # whether only studies that request it get it, with the axes that it shows

    @property
    def pictures(self) -> list[str]:
        """Files of the figures' other formats, and its other files."""
        return [*(f"figures/{figure.name}.svg" for figure in self.figures), *self.more]

    @property
    def files(self) -> Iterator[str]:
        """Yield all files, relative to the results folder of a study."""
        yield from (f"figures/{figure.name}.png" for figure in self.figures)
        yield from self.pictures
        yield from (f"notebooks/{self.name}.{suffix}" for suffix in ("ipynb", "html"))


NOTEBOOKS = (
    Notebook(
        "surface",
        figures=(
            Figure("throughput_heatmap", "heat map", "heatmap"),
            Figure("throughput_surface", "surface", "surface"),
            Figure("throughput_lines", "lines", "lines"),
            Figure("goodput_series", "time series", "series"),
            Figure("cpu", "CPU", "cpu"),
        ),
    ),
    Notebook("limits", figures=(Figure("limits", "limits", "limits"),)),
    Notebook(
        "models",
        figures=(Figure("model_fits", "fitted models", "models"),),
        more=[
            f"figures/model_{name}" for name in ("residuals.png", "residuals.svg", "errors.png", "errors.svg")
        ],
        inputs={"models": "<results>/{study}/models.json"},
    ),
    Notebook("claims"),
    *(
        Notebook(name, figures=(Figure(name, name, name),), more=[f"figures/{name}.csv"], requested=True)
        for name in ("curves", "releases", "hardware", "links", "effects")
    ),
)

ALWAYS = [notebook.name for notebook in NOTEBOOKS if not notebook.requested]
"""Notebooks that run for every study; the page links them."""
