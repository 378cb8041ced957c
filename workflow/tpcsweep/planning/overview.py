# SPDX-License-Identifier: Apache-2.0
"""A plan for people, as a table on a terminal."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.table import Table

from tpcsweep.configuration.units import FRACTION, RATE, show
from tpcsweep.planning.plan import BEYOND, Plan


def table(plan: Plan) -> RenderableType:
    """Show the answer in a line, the settings that matter, and what to know of them."""
    sure = show(plan.probability, FRACTION)
    settings = Table(
        *("", "cores", "origins", "streams", "Gbit/s", "95 % interval", f"{sure} reach", "probability", "")
    )
    for _, row in plan.answers.iterrows():
        settings.add_row(
            row["answer"],
            "no limit" if math.isinf(row["cores"]) else f"{row['cores']:g}",
            str(row["origins"]),
            str(row["streams"]),
            f"{row['throughput']:.3g}",
            f"{row['throughput_low']:.3g} to {row['throughput_high']:.3g}",
            f"{row['assured']:.3g}",
            f"{100 * row['probability']:.1f} %",
            "extrapolated" if row["extrapolated"] else "",
        )
    verdict = "reached" if plan.reached else "not reached by any setting inside the data"
    if not plan.reached and plan.extrapolation is None:
        verdict += f", nor by any up to {BEYOND:g} times their largest values"
    title = (
        f"{show(plan.target, RATE)} with a probability of {sure}: {verdict}\nmodel {plan.model}, {plan.data}"
    )
    return Group(title, settings, *(f"- {note}" for note in plan.notes))
