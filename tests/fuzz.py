# SPDX-License-Identifier: Apache-2.0
"""Try thousands of broken files: `python -m tests.fuzz --inputs 10000 --seed 1`.

Of each kind of file it prints how many were tried, refused and taken, and the shortest that was found with a fault. It
ends with 1 where there is one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.support.fuzzing import KINDS, Case, cases, taken

SHARES = {"sweep": 0.4, "testbed": 0.3, "import": 0.1, "config": 0.1, "question": 0.05, "side": 0.05}
"""Of the inputs, by kind."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    asked = parser.parse_args()
    faults = sum(not sound(kind, round(asked.inputs * SHARES[kind]), asked.seed) for kind in asked.kinds)
    return int(faults > 0)


def sound(kind: str, inputs: int, number: int) -> bool:
    """Try so many files of a kind, print what came of them, and say whether none had a fault."""
    outcomes: Counter[str] = Counter()
    seconds: list[float] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:

        @seed(number)
        @settings(
            max_examples=inputs,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        @given(cases(kind))
        def tried(case: Case) -> None:
            outcomes["tried"] += 1
            began_at = time.process_time()
            outcomes["taken" if taken(case, Path(folder)) else "refused"] += 1
            seconds.append(time.process_time() - began_at)

        try:
            tried()
        except Exception:  # whatever is no refusal
            print(f"{kind}: a fault, after {outcomes['tried']} files\n{traceback.format_exc()}")
            return False
    counts = ", ".join(f"{outcomes[name]} {name}" for name in ("tried", "refused", "taken"))
    took = f"the slowest in {max(seconds):.2f} s of CPU time, all in {time.monotonic() - began:.0f} s"
    print(f"{kind}: {counts}; {took}", flush=True)
    return True


if __name__ == "__main__":
    raise SystemExit(main())
