# SPDX-License-Identifier: Apache-2.0
"""What was observed: rows of one form, from user-mode-linux and from datasets of sweeps, beside the arithmetic."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from arithmetic import Setup
from experiments import AMPLE
from sources import SHIPPED
from tpcsweep.claims.cells import UNTRUSTED
from tpcsweep.dataset import SIMULATED
from tpcsweep.dataset.labels import how_made
from tpcsweep.dataset.observations import observations

COLUMNS = (
    *(
        "source",
        "simulated",
        "explanation",
        "streams",
        "rtt",
        "delay",
        "limit",
        "mtu",
        "offloads",
        "bandwidth",
    ),
    *("throughput", "error", "least", "most", "settled", "packet", "drops", "trusted"),
)
"""source: where, for people. delay: ms in the queue. limit: packets, inf for none. bandwidth: Gbit/s that passes
besides. throughput, error: Gbit/s. least, most: of the throughput, by arithmetic. settled: whether packets are as
small as they get. packet: mean bytes of one as the queue counts it, where that was seen. drops: of the queue. trusted:
neither unsteady nor of a machine whose CPUs were all busy."""

FLOOR = 0.05
"""No error is taken for less than this share of a throughput: cells measured anew differ by about as much."""
SMALL_BUFFER = 2**20  # TCP buffers below this are what a row is about


def read(experiments: Path, datasets: Iterable[Path]) -> pd.DataFrame:
    """Everything that is there of the given files; no rows where nothing is."""
    rows: list[Mapping[str, Any]] = []
    if experiments.exists():
        rows += _told(of_experiments(json.loads(experiments.read_text())), experiments)
    for path in datasets:
        if path.exists():
            rows += _told(of_dataset(xr.load_dataset(path)), path)
    return with_arithmetic(pd.DataFrame(rows, columns=list(COLUMNS)))


def _told(rows: Iterable[Mapping[str, Any]], file: Path) -> list[Mapping[str, Any]]:
    """Rows that say so where they were not measured on this machine."""
    where = f" (shipped: examples/{SHIPPED.name}/{file.name})" if file.parent == SHIPPED else ""
    return [{**row, "source": row["source"] + where} for row in rows]


def of_experiments(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of what `kernel.measure` gave. The best without any knob is what the machine passes at all."""
    experiments = content["experiments"]
    without = [run["throughput"] for run in experiments if run["explanation"] == "none"]
    machine = max(without, default=math.inf)
    kept = ("explanation", "streams", "rtt", "mtu", "offloads", "throughput", "packet", "drops")
    return [
        {
            **{name: run[name] for name in kept},
            "source": f"{content['tool']}, {content['testbed']}",
            "simulated": False,
            "delay": run["rtt"],
            "limit": math.inf if run["limit"] >= AMPLE else run["limit"],
            "bandwidth": min(run["policer"] or math.inf, machine),
            "error": np.std(run["rates"], ddof=1) / math.sqrt(len(run["rates"])),
            "trusted": True,
        }
        for run in experiments
    ]


def of_dataset(ds: xr.Dataset) -> list[Mapping[str, Any]]:
    """The rows of a sweep whose path has half of the RTT on each side, as all testbeds here make it."""
    rows = observations(ds, also=["path_drops"])
    rows = rows[rows["throughput"].notna() & (rows["rtt"] > 0)]
    rows = rows.assign(trusted=~rows[list(UNTRUSTED)].any(axis=1), error=rows["error"].fillna(0.0))
    tools = ", ".join(sorted(set(rows["tool"])))
    source = f"XRootD ({tools}), sweep {ds.attrs['sweep']}, {how_made(ds)}"
    kept = ("streams", "rtt", "mtu", "bandwidth", "throughput", "error", "trusted")
    return [
        {
            **{name: row[name] for name in kept},
            "source": source,
            "simulated": ds.attrs["testbed_kind"] == SIMULATED,
            "explanation": explanation(row),
            "delay": row["rtt"] / 2,
            "limit": row["queue_limit"],
            # What loses packets at random cuts super-packets before.
            "offloads": row["loss"] == 0,
            "packet": None,
            "drops": row["path_drops"],
        }
        for row in rows.to_dict("records")
    ]


def explanation(row: Mapping[str, Any]) -> str:
    """Which explanation a sweep's cell tries; the first where it has several knobs."""
    if row["loss"] > 0:
        return "loss"
    if math.isfinite(row["queue_limit"]):
        return "queue_limit"
    if row["tcp_buffer"] < SMALL_BUFFER:
        return "window"
    return "ranges" if row["tcp_streams"] > 1 else "none"


def with_arithmetic(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with what the arithmetic gives for those with a limit, and errors not below the floor."""
    spans = pd.DataFrame(
        [expected(row) for row in rows.to_dict("records")], rows.index, ["least", "most", "settled"]
    )
    error = np.hypot(rows["error"].astype(float), FLOOR * rows["throughput"].astype(float))
    return rows.assign(**spans, error=error)


def expected(row: Mapping[str, Any]) -> tuple[float, float, bool]:
    """The least and most Gbit/s that the limit leaves of a row's path, and whether its packets are the smallest.

    No more than its bandwidth. NaN where it has no limit.
    """
    if not math.isfinite(row["limit"]):
        return math.nan, math.nan, True
    setup = Setup(row["delay"], int(row["mtu"]), bool(row["offloads"]), int(row["limit"]))
    low, high = (min(end, row["bandwidth"]) for end in setup.goodput(row["streams"]))
    return low, high, row["streams"] > setup.crossover.high
