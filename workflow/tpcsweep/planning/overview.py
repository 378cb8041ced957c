# SPDX-License-Identifier: Apache-2.0
"""Plans and recommendations for people, as tables on a terminal."""

from __future__ import annotations

import math
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table

from tpcsweep.configuration.units import FRACTION, RATE, RTT, show
from tpcsweep.planning.answering import Answer
from tpcsweep.planning.plan import BEYOND, FRONT, Plan
from tpcsweep.planning.question import KNOBS

_EXTRAPOLATED = "* extrapolated: beyond the data"


def table(plan: Plan) -> RenderableType:
    """Return the answer in a line, the settings that matter, and what to know about them."""
    sure = show(plan.probability, FRACTION)
    settings = _table("", "cores", "origins", "streams", "Gbit/s", f"{sure} reach", "chance")
    for row in _settings(plan):
        settings.add_row(
            row["answer"] + ("*" if row["extrapolated"] else ""),
            _cores(row["cores"]),
            str(row["origins"]),
            str(row["streams"]),
            f"{row['throughput']:.3g} ({row['throughput_low']:.3g} to {row['throughput_high']:.3g})",
            f"{row['assured']:.3g}",
            f"{100 * row['probability']:.1f} %",
        )
    notes = [f"- {note}" for note in plan.notes]
    if plan.answers["extrapolated"].any():
        notes.insert(0, _EXTRAPOLATED)
    verdict = "reached" if plan.reached else "not reached by any setting inside the data"
    if not plan.reached and plan.extrapolation is None:
        verdict += f", nor by any up to {BEYOND:g} times their largest values"
    title = (
        f"{show(plan.target, RATE)} with a probability of {sure}: {verdict}\nmodel {plan.model}, {plan.data}"
    )
    return Group(title, settings, *notes)


def recommended(answer: Answer) -> RenderableType:
    """Return recommendations for people: a row for each RTT and target."""
    assert answer.table is not None
    sure = show(answer.question.probability, FRACTION)
    rows = _table("RTT", "target", "streams", "origins", "cores", "Gbit/s", f"{sure} reach", "chance")
    for row in answer.table.to_dict("records"):
        rows.add_row(
            show(row["rtt"], RTT),
            show(row["target"], RATE) + ("" if row["reached"] else " not reached"),
            str(row["streams"]),
            str(row["origins"]),
            _cores(row["cores"]),
            f"{row['throughput']:.3g}" + ("*" if row["extrapolated"] else ""),
            f"{row['assured']:.3g}",
            f"{100 * row['probability']:.1f} %",
        )
    notes = [_EXTRAPOLATED] if answer.table["extrapolated"].any() else []
    about = f"recommended settings, each the cheapest that reaches the target with a probability of {sure}"
    return Group(f"{about}\nmodel {answer.model}, {answer.data}", rows, *notes)


def _table(*columns: str) -> Table:
    """A table that fits 80 columns."""
    return Table(*columns, box=SIMPLE_HEAD)


def _settings(plan: Plan) -> list[dict[str, Any]]:
    """The settings that matter, each once, with all names that it has."""
    settings: dict[tuple[float, ...], dict[str, Any]] = {}
    for row in plan.answers.to_dict("records"):
        place = tuple(float(row[name]) for name in KNOBS)
        if place not in settings:
            settings[place] = row
        elif row["answer"] != FRONT:
            settings[place]["answer"] += f" and\n{row['answer']}"
    return list(settings.values())


def _cores(cores: float) -> str:
    return "no limit" if math.isinf(cores) else f"{cores:g}"
