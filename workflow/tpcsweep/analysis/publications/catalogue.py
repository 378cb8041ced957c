# SPDX-License-Identifier: Apache-2.0
"""Figures and tables of publications, each with its claims.

figures.yaml lists them. The drawing functions are imported on demand, because every job reads the rules, which need the
names, but few jobs draw.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tpcsweep.common.installation import PACKAGE
from tpcsweep.data.places import DatasetStudy
from tpcsweep.sweeps.problems import read_yaml
from tpcsweep.testbeds.loading import Study


@dataclass(frozen=True)
class PublishedFigure:
    """Figure or table of a publication, and its reproduction."""

    name: str  # name of its sweep, config/published/NAME.yaml, unless the figure has a source
    title: str
    claims: tuple[str, ...]
    """Identifiers; figures.yaml omits the publication, which is the name up to the first underscore."""
    drawn_by: str = "drawing.against_streams"
    """Function of this package as `module.function`, of `reproduction.Data` and `reproduction.Caption`."""
    settings: Mapping[str, Any] = field(default_factory=dict)  # further arguments of the function
    source: str | None = None  # file in config/imports that reads its data, if they come from elsewhere
    when_simulated: str = ""  # note on its picture if the data are simulated

    def draw(self, data: Any, caption: Any) -> Any:
        """Return the Figure of `reproduction.Data` with a `reproduction.Caption`."""
        module, _, name = self.drawn_by.partition(".")
        return getattr(import_module(f"{__package__}.{module}"), name)(data, caption, **self.settings)


def _figures() -> Iterator[PublishedFigure]:
    file = PACKAGE / "analysis/publications/figures.yaml"
    for name, entry in read_yaml(file, file.name).items():
        publication = name.partition("_")[0]
        claims = tuple(f"{publication}.{claim}" for claim in entry.pop("claims"))
        yield PublishedFigure(name, claims=claims, **entry)


FIGURES: Mapping[str, PublishedFigure] = {figure.name: figure for figure in _figures()}


def published_studies(studies: Mapping[str, Study]) -> list[str]:
    return [name for name, study in studies.items() if published_figure(study)]


def published_figure(study: Study) -> str:
    """Return the name of the published figure that a study reproduces, or "".

    It is the figure of the study's sweep, scaled or not, or of imported data.
    """
    if isinstance(study, DatasetStudy):
        return next((name for name, figure in FIGURES.items() if figure.source == study.name), "")
    name = study.name.partition("_scaled_")[0]
    return name if name in FIGURES else ""
