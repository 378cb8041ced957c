# SPDX-License-Identifier: Apache-2.0
"""Make the table of docs/blind-prediction.md: `make docs`. It takes some seconds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
from blind import STATED, combined, full_path, simulation, table
from tpcsweep.configuration.loading import load
from tpcsweep.configuration.testbeds import Simulation

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "blind-prediction.md"
MARKS = r"(?s)(?<=<!-- table: made by blind_prediction.py -->\n).*?(?=<!-- end -->)"


def predicted() -> pd.DataFrame:
    """Give what the simulation, `combined` and a full path say of what is stated."""
    testbed = load({"sweep": "config/published/chep2024_fig5.yaml", "testbed": "simulation"}, ROOT).testbed
    assert isinstance(testbed, Simulation)
    by = {
        "simulation": simulation(testbed.parameters, testbed.queues),
        "`combined`": combined(),
        "a full path": full_path,
    }
    return table(STATED, by)


def lines(frame: pd.DataFrame) -> str:
    """Give the table in Markdown: a row for each panel, what each says of it side by side."""
    by = list(dict.fromkeys(frame["by"]))
    head = ["figure", "stated", *(f"{name} | log error | sets" for name in by)]
    rows = [" | ".join(head), " | ".join(["---"] * (2 + 3 * len(by)))]
    for (figure, stated), panel in frame.groupby(["figure", "stated"], sort=False):
        said = [_said(row) for row in panel.to_dict("records")]
        rows.append(" | ".join([str(figure), stated, *said]))
    return "\n".join(f"| {row} |" for row in rows)


def _said(row: Mapping[str, Any]) -> str:
    """What one says of a panel, its error, and the share of sets that agree, after and before sets were kept."""
    said = f"{row['median']:.3g}"
    if not math.isclose(row["low"], row["high"], rel_tol=1e-3):
        said += f" ({row['low']:.3g} to {row['high']:.3g})"
    error = f"{row['error']:+.3f}" if row["error"] else "0"
    return f"{said} | {error} | {100 * row['right']:.0f} % ({100 * row['before']:.0f} %)"


def main() -> None:
    """Predict, and write the page."""
    text = lines(predicted()) + "\n"
    PAGE.write_text(re.sub(MARKS, lambda _: text, PAGE.read_text(), count=1))


if __name__ == "__main__":
    main()
