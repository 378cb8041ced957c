# SPDX-License-Identifier: Apache-2.0
"""Confusion matrix of limits: constructed limits of cells against the rules' results.

python -m benchmarks.limits [ROUNDS]       as root; three minutes a round
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tpcsweep.data.variables import LIMITS

from tests.support.constructions import GROUPS, measured

SECONDS = 4.0


def main(rounds: int) -> None:
    """Print the matrix, and the figures of every wrongly judged cell to standard error."""
    found: Counter[tuple[str, str]] = Counter()
    for group in list(GROUPS.values()) * rounds:
        with tempfile.TemporaryDirectory() as folder:
            for built, one in measured(group, [*group.cells, *group.alike], SECONDS, Path(folder)):
                found[built.limit, one["limit"] or "failed"] += 1
                if one["limit"] != built.limit:
                    print(built, one["message"], one["flags"], one["summary"], file=sys.stderr)
    rows = [name for name in LIMITS if any(name == built for built, _ in found)]
    columns = [name for name in (*LIMITS, "failed") if any(name == limit for _, limit in found)]
    print("| built \\ found | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 1) + "|")
    for row in rows:
        print(f"| `{row}` | " + " | ".join(str(found[row, column] or "") for column in columns) + " |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
