# SPDX-License-Identifier: Apache-2.0
"""Reproduction of a published figure from a dataset: its picture, and the verdicts on its claims."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xarray as xr

from tpcsweep.claims.base import Effect, Outcome, Verdict
from tpcsweep.claims.effects import Interval
from tpcsweep.claims.judging import CLAIMS, judge
from tpcsweep.dataset import SIMULATED, TRANSFERS_GROUP, load
from tpcsweep.dataset.labels import data_origin
from tpcsweep.figures import save
from tpcsweep.figures.panels import common_parameters
from tpcsweep.files import write_json
from tpcsweep.numbers import CONFIDENCE
from tpcsweep.published import PublishedFigure
from tpcsweep.testbeds.simulation.model import datasets

DRAWS = 40  # random parameter sets for judging simulated data
INPUT = "input"  # role of a claim that determined parameters of the simulation, which therefore reproduces it
ASSUMPTION = "assumption"  # role of a claim that follows almost directly from an assumption
PREDICTION = "prediction"  # role of any other claim


@dataclass(frozen=True)
class JudgedClaim:
    """Verdict with, for simulated data, its weight as evidence."""

    verdict: Verdict
    was_input: bool = False
    assumed: str = ""  # assumption from which the claim follows almost directly, or ""
    agree: int = 0  # number of random parameter sets with the same outcome
    draws: int = 0  # number of random parameter sets; 0 for measured data

    @property
    def word(self) -> str:
        """Verdict in one to three words."""
        return INPUT if self.role == INPUT else self.verdict.outcome.value

    @property
    def role(self) -> str:
        """Role of the claim in a simulation; "" for measured data, and if nothing was judged."""
        if self.verdict.data != "simulated" or self.verdict.outcome is Outcome.OPEN:
            return ""
        if self.was_input:
            return INPUT
        return ASSUMPTION if self.assumed else PREDICTION

    @property
    def has_draws(self) -> bool:
        """Whether the number of agreeing parameter sets is meaningful."""
        return bool(self.draws) and self.verdict.outcome is not Outcome.OPEN

    def to_dict(self) -> dict[str, Any]:
        row = self.verdict.to_dict()
        del row["evidence"], row["tested"]
        return {
            **row,
            "verdict": self.word,
            "outcome": self.verdict.outcome.value,
            "role": self.role,
            "follows_from": self.assumed if self.role == ASSUMPTION else None,
            "draws_agree": self.agree if self.has_draws else None,
            "draws": self.draws if self.has_draws else None,
        }


@dataclass(frozen=True)
class Data:
    """Dataset whose groups are read on demand."""

    file: Path

    @cached_property
    def summary(self) -> xr.Dataset:
        return load(self.file)

    @property
    def simulated(self) -> bool:
        return bool(self.summary.attrs["testbed_kind"] == SIMULATED)

    @cached_property
    def samples(self) -> xr.Dataset:
        return load(self.file, "samples")

    @cached_property
    def transfers(self) -> xr.Dataset:
        return load(self.file, TRANSFERS_GROUP)


@dataclass(frozen=True)
class Caption:
    title: str
    notes: tuple[str, ...]
    claims: tuple[JudgedClaim, ...]


def make_figure(figure: PublishedFigure, dataset: Path, picture: Path) -> None:
    """Draw a figure as PNG and SVG, and write the verdicts on its claims as JSON next to it."""
    data = Data(dataset)
    caption = figure_caption(figure, data)
    save(figure.draw(data, caption), picture.parent, picture.stem)
    attributes = data.summary.attrs
    about = {"figure": figure.name, "testbed": attributes.get("testbed"), "scale": attributes.get("scale")}
    write_json(picture.with_suffix(".json"), [{**about, **claim.to_dict()} for claim in caption.claims])


def figure_caption(figure: PublishedFigure, data: Data) -> Caption:
    attributes, cells = data.summary.attrs, int(data.summary["throughput"].notnull().sum())
    subject = f"Sweep {attributes['sweep']}, testbed {attributes['testbed']}, {cells} cells"
    about = "; ".join(filter(None, [subject, common_parameters(data.summary)])) + "."
    title = f"{figure.title}; {data_origin(data.summary)}"
    draws = islice(datasets(data.summary), DRAWS) if data.simulated else ()
    claims = judge_claims(data.summary, figure.claims, draws)
    own = [figure.when_simulated] if data.simulated and figure.when_simulated else []
    return Caption(title, (about, *own), tuple(claims))


def without_data(figure: PublishedFigure) -> list[dict[str, Any]]:
    """Return the rows of a figure's claims without data, with the commands that make the figure."""
    command = "snakemake published --configfile config/published.yaml"
    if figure.source:
        dataset = f"results/{figure.source}/dataset.nc"
        command = f"tpcsweep import {figure.source} FILE && snakemake published --config dataset={dataset}"
    verdicts = (
        Verdict(CLAIMS[name], Outcome.OPEN, "there is no dataset", "none", advice=command)
        for name in figure.claims
    )
    return [{"figure": figure.name, **JudgedClaim(verdict).to_dict()} for verdict in verdicts]


def judge_claims(
    summary: xr.Dataset, claims: Sequence[str], draws: Iterable[xr.Dataset] = ()
) -> list[JudgedClaim]:
    """Judge claims on a dataset, and on datasets of other parameter sets if it is simulated.

    Each random parameter set is judged separately, because all its cells change together. The interval of an effect
    then contains `CONFIDENCE` of the effects in the sets. Raises KeyError for an unknown claim.
    """
    inputs = str(summary.attrs.get("claims_used_as_inputs", "")).split()
    assumed = orjson.loads(summary.attrs.get("claims_that_follow_from_assumptions", "{}"))
    judged = [judge(dataset, claims) for dataset in (summary, *draws)]
    return [
        JudgedClaim(
            replace(verdict, effect=_spread(verdict.effect, others)) if others else verdict,
            was_input=verdict.claim.name in inputs,
            assumed=assumed.get(verdict.claim.name, ""),
            agree=sum(other.outcome == verdict.outcome for other in others),
            draws=len(others),
        )
        for verdict, *others in zip(*judged, strict=True)
    ]


def _spread(effect: Effect | None, others: Sequence[Verdict]) -> Effect | None:
    values = [other.effect.interval.value for other in others if other.effect is not None]
    if effect is None or not values:
        return effect
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    middle = effect.interval.value
    return replace(effect, interval=Interval(middle, min(middle, float(low)), max(middle, float(high))))
