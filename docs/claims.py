# SPDX-License-Identifier: Apache-2.0
"""Write the list of published claims in docs/published.md: `make docs`."""

from __future__ import annotations

import re
from pathlib import Path

from tpcsweep.analysis.claims.judging import CLAIMS

PAGE = Path(__file__).with_name("published.md")


def claims() -> str:
    """Return the table of the claims that a dataset can show."""
    rows = [f"| `{name}` | {claim.text} |" for name, claim in CLAIMS.items() if claim.test]
    return "\n".join(["| claim | published |", "|---|---|", *rows])


def made() -> str:
    """Return the text of the page with its list renewed."""
    marks = r"(?s)(?<=<!-- claims, made by claims.py -->\n).*?(?=<!-- end -->)"
    return re.sub(marks, lambda _: f"{claims()}\n", PAGE.read_text(), count=1)


if __name__ == "__main__":
    PAGE.write_text(made())
