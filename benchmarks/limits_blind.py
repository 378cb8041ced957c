# SPDX-License-Identifier: Apache-2.0
"""Confusion matrix of limits on randomly drawn cells that no threshold was tuned on.

    python -m benchmarks.limits_blind FILE          as root; 8 minutes
    python -m benchmarks.limits_blind table FILE    the matrices of FILE; measures nothing

A fixed seed draws rates, RTTs, files, buffers, losses, queues, quotas, streams, origins, tools, congestion controls and
MTUs from ranges (`benchmarks.limits_cells`): 22 cells whose limit allows at most two fifths of any other, and 44 with
close causes, whose limit allows 0.5 to 0.75 of the next one. Each cell waits at most three seconds until half of the
CPUs are idle.

FILE is a CSV with a row for each cell: its shares of time and the figures behind them. If it exists, missing and
disturbed cells (`machine_saturated`) are measured again, independent of their results; each cell's last row counts.
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
from scipy.stats import binomtest
from tpcsweep.common.errors import BrokenError
from tpcsweep.data.variables import LIMITS, SHARES, SUMMARY
from tpcsweep.deploying.paths.network_path import PathError
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns.site import NetnsSite

from benchmarks.limits_cells import Draw, Group, close, far, text
from tests.support.sites import cell, site_of

SEED = 20261129
SECONDS = 4.0


def groups(seed: int) -> Iterator[Group]:
    draw = Draw(seed)
    yield from far(draw)
    yield from close(draw)


NUMBERS = (*SHARES.values(), *(name for name, figure in SUMMARY.items() if figure.source == "limits"))
COLUMNS = (
    "causes", "built", "found", "second", "throughput", "deployment", "cell", "flags", "load", "message",
    *NUMBERS,
)  # fmt: skip


def measured(group: Group) -> Iterator[dict[str, Any]]:
    """Measure the cells of a group; yield a row for each."""
    streams = max(built.parameters["streams"] for built in group.cells)
    with (
        tempfile.TemporaryDirectory() as folder,
        site_of(Path(folder), streams=streams, **group.deployment) as site,
    ):
        for built in group.cells:
            calm()
            with built.arranged(site):
                found = _cell(site, SECONDS, {**group.deployment, **built.parameters})
            yield {
                "causes": group.causes,
                "built": built.limit,
                "found": found["limit"] or "failed",
                "second": found["limit_second"],
                "throughput": found["summary"]["throughput"],
                "deployment": text(group.deployment),
                "cell": built.text,
                "flags": " ".join(found["flags"]),
                "load": f"{os.getloadavg()[0]:.1f}",
                "message": found["message"],
                **{number: found["summary"].get(number) for number in NUMBERS},
            }


def calm() -> None:
    """Wait briefly for half of the CPUs to be idle for a second."""
    for _ in range(3):
        before = psutil.cpu_times()
        time.sleep(1.0)
        now = psutil.cpu_times()
        if (now.idle - before.idle) / (sum(now[:8]) - sum(before[:8])) >= 0.5:
            return


def _cell(site: NetnsSite, seconds: float, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a cell, for longer if nothing arrived."""
    for length in (seconds, 4 * seconds):
        found = cell(site, Measurement(min_time=length, max_time=length), **wanted)
        if not found["message"].startswith("no byte arrived"):
            break
    return found


def read(path: Path) -> pd.DataFrame:
    """Return the last row of each cell, by deployment and cell."""
    rows = pd.read_csv(path).drop_duplicates(["deployment", "cell"], keep="last")
    return rows.set_index(["deployment", "cell"])


def disturbed(rows: pd.DataFrame) -> pd.Series:
    """Return the cells during which other processes kept the machine busy."""
    return rows["flags"].fillna("").str.contains("machine_saturated") & (rows["built"] != "machine")


def table(path: Path) -> None:
    """Print the matrices, and the share of correctly judged cells with Wilson's interval of 95 %."""
    rows = read(path)
    for causes, some in rows.groupby("causes", sort=False):
        print(
            f"\n{causes} causes\n\n| built | found | right, with Wilson's interval of 95 % |\n|---|---|---|"
        )
        for name in (name for name in LIMITS if (some["built"] == name).any()):
            found = some[some["built"] == name]["found"]
            counts = found.value_counts().reindex([name, *LIMITS, "failed"]).dropna()
            listed = ", ".join(
                f"{each} {count:.0f}" for each, count in counts[~counts.index.duplicated()].items()
            )
            print(f"| `{name}` | {listed} | {_share(found == name)} |")
        print(f"\nright: {_share(some['found'] == some['built'])}; disturbed: {disturbed(some).sum()}")


def _share(right: pd.Series) -> str:
    test = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    return f"{right.sum()} of {len(right)}: {100 * right.mean():.0f} % ({100 * test.low:.0f} to {100 * test.high:.0f})"


def main() -> None:
    if sys.argv[1] == "table":
        table(Path(sys.argv[2]))
        return
    path, done = Path(sys.argv[1]), set()
    if path.exists():
        rows = read(path)
        done = set(rows[~disturbed(rows)].index)
    else:
        path.write_text(",".join(COLUMNS) + "\n")
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        for group in groups(SEED):
            left = [built for built in group.cells if (text(group.deployment), built.text) not in done]
            try:
                for row in measured(replace(group, cells=left)) if left else ():
                    writer.writerow(row)
                    file.flush()
            except (BrokenError, PathError) as error:
                print(f"not measured: {text(group.deployment)}: {error}", file=sys.stderr)
    table(path)


if __name__ == "__main__":
    main()
