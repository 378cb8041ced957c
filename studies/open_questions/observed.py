# SPDX-License-Identifier: Apache-2.0
"""Observations from user-mode-linux and from datasets of sweeps in uniform rows, with the arithmetic."""

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
from tpcsweep.analysis.claims.claim_cells import UNTRUSTED
from tpcsweep.data.labels import SIMULATED, data_origin
from tpcsweep.data.tables import observations

SWEEPS = ("rivals", "netem-limit", "settle")  # sweeps that concern the questions
SHIPPED = Path(__file__).parents[2] / "examples" / "open_questions"
"""Measurements of the project: the experiments, and a dataset for each sweep."""
COLUMNS = (
    *("source", "simulated", "explanation", "streams", "rtt", "delay", "limit", "mtu", "offloads"),
    *("bandwidth", "throughput", "error", "packet", "drops", "trusted"),
)
"""Columns of an observation.
source: origin, for people. delay: ms in the queue. limit: packets, inf for none. bandwidth: Gbit/s that passes
otherwise. throughput, error: Gbit/s. packet: mean bytes of a packet as the queue counts it, if observed. drops: of the
queue. trusted: neither unsteady nor from a machine with saturated CPUs."""
FLOOR = 0.05
"""Smallest error as a share of the throughput; repeated cells differ by about as much."""
SMALL_BUFFER = 2**20  # TCP buffers below this are the subject of a row


def own_experiments(results: Path) -> Path:
    """Return the file of this machine's experiments in user-mode-linux, below a folder of results."""
    return results / "published" / "open_questions" / "netem_in_uml.json"


def files(results: Path) -> tuple[Path, tuple[Path, ...]]:
    """Return experiments and datasets to read: this machine's, and shipped ones for missing ones."""
    own = own_experiments(results)
    datasets = [
        path
        for sweep in SWEEPS
        for name in (sweep, f"{sweep}@*")  # on this machine, and on every other testbed
        for path in sorted(results.glob(f"{name}/dataset.nc"))
    ]
    sweeps = {path.parent.name for path in datasets}
    shipped = (path for path in sorted(SHIPPED.glob("*.nc")) if path.stem not in sweeps)
    return own if own.exists() else SHIPPED / own.name, (*datasets, *shipped)


def read(experiments: Path, datasets: Iterable[Path]) -> pd.DataFrame:
    """Return one row for each measurement in the existing files, with the columns of `with_arithmetic`."""
    rows: list[Mapping[str, Any]] = []
    for path in filter(Path.exists, (experiments, *datasets)):
        found = (
            of_experiments(json.loads(path.read_text()))
            if path == experiments
            else of_dataset(xr.load_dataset(path))
        )
        where = f" (shipped: examples/{SHIPPED.name}/{path.name})" if path.parent == SHIPPED else ""
        rows += [{**row, "source": row["source"] + where} for row in found]
    return with_arithmetic(pd.DataFrame(rows, columns=list(COLUMNS)))


def of_experiments(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of experiments. The fastest one without any knob defines the machine's bandwidth."""
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
    """Return the rows of a sweep. Its path has half of the RTT on each side, as on all testbeds."""
    rows = observations(ds, also=["path_drops"])
    rows = rows[rows["throughput"].notna() & (rows["rtt"] > 0)]
    rows = rows.assign(trusted=~rows[list(UNTRUSTED)].any(axis=1), error=rows["error"].fillna(0.0))
    tools = ", ".join(sorted(set(rows["tool"])))
    source = f"XRootD ({tools}), sweep {ds.attrs['sweep']}, {data_origin(ds)}"
    kept = ("streams", "rtt", "mtu", "bandwidth", "throughput", "error", "trusted")
    return [
        {
            **{name: row[name] for name in kept},
            "source": source,
            "simulated": ds.attrs["testbed_kind"] == SIMULATED,
            "explanation": explanation(row),
            "delay": row["rtt"] / 2,
            "limit": row["queue_limit"],
            # Random loss needs packets of the MTU, so super-packets are cut before it.
            "offloads": row["loss"] == 0,
            "packet": None,
            "drops": row["path_drops"],
        }
        for row in rows.to_dict("records")
    ]


def explanation(row: Mapping[str, Any]) -> str:
    """Return the explanation that a sweep's cell tests; the first if it has several knobs."""
    if row["loss"] > 0:
        return "loss"
    if math.isfinite(row["queue_limit"]):
        return "queue_limit"
    if row["tcp_buffer"] < SMALL_BUFFER:
        return "window"
    return "ranges" if row["tcp_streams"] > 1 else "none"


def with_arithmetic(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the arithmetic to rows with the columns `COLUMNS`, and raise errors to the floor.

    Returns:
        Also `least` and `most`, Gbit/s that limit and bandwidth allow, NaN without a limit; and `settled`, whether
            packets have their smallest size.
    """
    spans = pd.DataFrame(
        [_expected(row) for row in rows.to_dict("records")], rows.index, ["least", "most", "settled"]
    )
    error = np.hypot(rows["error"].astype(float), FLOOR * rows["throughput"].astype(float))
    return rows.assign(**spans, error=error)


def _expected(row: Mapping[str, Any]) -> tuple[float, float, bool]:
    if not math.isfinite(row["limit"]):
        return math.nan, math.nan, True
    setup = Setup(row["delay"], int(row["mtu"]), bool(row["offloads"]), int(row["limit"]))
    low, high = (min(end, row["bandwidth"]) for end in setup.goodput(row["streams"]))
    return low, high, row["streams"] > setup.crossover.high
