# SPDX-License-Identifier: Apache-2.0
"""Fit the simulated testbed's parameters to measured cells, and test them on cells left out (docs/simulation.md)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
import yaml

from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.physics import UNITS, Physics
from tpcsweep.dataset import SIMULATED
from tpcsweep.files import write_text
from tpcsweep.models.base import Floats, Model, Parameter, Points
from tpcsweep.models.fit import RESAMPLES, Fit, fit
from tpcsweep.models.observations import Observations, observe
from tpcsweep.numbers import plain, short
from tpcsweep.testbeds.simulation.model import NUMBERS, WORDS, ModelCells, solve
from tpcsweep.tools import TOOLS

PARAMETERS = (
    Parameter("setup_time", "s", "wall time of a transfer without round trips", 1e-3, 5, 0.1, "log"),
    # With files of one size, round trips of the set-up look like a smaller window: they keep the number measured with
    # files of one byte (measure.limits).
    Parameter("setup_rtts", "1", "before the first byte", 0, 40, 6, needs=("rtt", "file_size"), neutral=6),
    Parameter("setup_cpu", "s", "CPU of each side for a transfer", 1e-4, 1, 0.02, "log", ("cores",)),
    Parameter("redirector_rtts", "1", "RTTs of redirectors", 0, 60, 13, needs=("rtt", "origins"), neutral=13),
    Parameter("core_rate_destination", "Gbit/s", "of a core", 0.1, 60, 3, "log", ("cores",)),
    Parameter("contention", "1", "CPU lost for each stream", 1e-4, 1, 0.01, "log", ("streams",)),
    Parameter("window_share", "1", "of tcp_buffer", 0.02, 1, 0.6, needs=("rtt",)),
    Parameter("initial_window", "1", "segments at the start", 1, 300, 10, "log", ("rtt",)),
    Parameter("saturation", "1", "of a full path", 0.5, 1, 0.9, needs=("streams",)),
)
"""The fitted parameters, with bounds and initial values."""

HELD: Mapping[str, tuple[float | None, str]] = {
    "redirector_time": (0.0, "not fitted: part of setup_time"),
    "instance_cores": (1e3, "not fitted: quotas here are below any instance's reach"),
    "host_cores": (1e3, "not fitted: quotas bind first"),
    "spill": (0.0, "not fitted: data under way on such paths fit into any cache"),
    "cache": (1e3, "not fitted: without spill it has no effect"),
    "server_rate": (None, "not fitted: the path binds first"),
    "disk_read_rate": (None, "not fitted: cells with disks are left out"),
    "disk_write_rate": (None, "not fitted: cells with disks are left out"),
    "nic_rate": (None, "not fitted: there are none in network namespaces"),
    "framing": (14.0, "Linux: tbf counts the Ethernet header"),
    "queue_use": (0.85, "not fitted: no such cells"),
    "queue_delay": (0.5, "half of the delay on each end of the path"),
    "queue_segments": (2.0, "Linux: net.ipv4.tcp_min_tso_segs"),
    "queue_pacing": (1.2, "Linux: net.ipv4.tcp_pacing_ca_ratio"),
    "base_rtt": (0.05, "assumption: two namespaces of one machine"),
}
"""Parameters that are not fitted: their values and the reasons."""


class CalibrationError(ValueError):
    """A dataset to which no parameters can be fitted; the text is the reason."""


def model_for(ratio: float) -> Model:
    """Return the fixed point as a model to fit; `ratio` is a source's core rate over a destination's."""
    held = {name: np.array(np.inf if value is None else value) for name, (value, _) in HELD.items()}

    def throughput(points: Points, **values: float) -> Floats:
        p = held | {name: np.array(value) for name, value in values.items()}
        p["core_rate_source"] = p["core_rate_destination"] * ratio
        return solve(ModelCells(**{name: points[name] for name in ModelCells._fields}), p, "path")[0]

    return Model(
        name="simulation",
        title="The simulated testbed's fixed point",
        formula=r"\min(D, C_i)",
        source="docs/simulation.md",
        axes=ModelCells._fields,
        parameters=PARAMETERS,
        function=throughput,
    )


def observed(summary: xr.Dataset) -> tuple[Observations, float]:
    """Return measured cells without disks, with the columns of `ModelCells`; and `model_for`'s ratio.

    Raises CalibrationError for a simulated dataset and for disks alone, NothingMeasuredError as `observe` does.
    """
    if summary.attrs.get("testbed_kind") == SIMULATED:
        raise CalibrationError("this dataset is simulated: parameters are fitted to measured cells only")
    observations = observe(summary)
    frame = observations.frame
    # Older datasets lack newer parameters, which had their defaults.
    for name in (*NUMBERS, *WORDS):
        if name not in frame:
            default = Parameters.model_fields[name].default
            frame = frame.assign(**{name: np.inf if default is None else default})
    if unknown := sorted({*frame["tool"]} - TOOLS.keys()):
        raise CalibrationError(f"the simulated testbed does not know the tool {unknown[0]}")
    known = ModelCells.from_columns(frame)._asdict()
    frame = frame.assign(**{name: values for name, values in known.items() if name not in frame})
    used = summary["destination_cpu"] / summary["source_cpu"]
    ratio = float(used.median()) if bool(used.notnull().any()) else 1.0
    in_memory = ((frame["reads"] == 0) & (frame["writes"] == 0)).to_numpy()
    if not in_memory.any():
        raise CalibrationError("every cell uses a disk: parameters are fitted to files in memory only")
    return replace(observations, frame=frame).take(in_memory), ratio


def calibrate(observations: Observations, ratio: float, resamples: int = RESAMPLES) -> Fit:
    """Fit the parameters. Raises CalibrationError if that fails."""
    fitted = fit(model_for(ratio), observations, resamples=resamples)
    if not fitted.ok:
        raise CalibrationError("; ".join(fitted.problems))
    return fitted


def predict_left_out(observations: Observations, ratio: float) -> pd.DataFrame:
    """Predict the cells of each value of each axis with parameters fitted to all other cells.

    Columns: `left_out` (axis=value), the axes, `measured` and `predicted` in Gbit/s, and `ratio`. `extrapolated` marks
    the first and last value of an axis. An axis needs at least three values.
    """
    tables = []
    for axis in observations.numeric:
        values = np.sort(observations.frame[axis].unique())
        for value in values if len(values) >= 3 else ():
            out = (observations.frame[axis] == value).to_numpy()
            rows = observations.frame[out]
            predicted = calibrate(observations.take(~out), ratio, resamples=0).estimate(rows)
            about = {
                "left_out": f"{axis}={plain(value)}",
                "extrapolated": value in (values[0], values[-1]),
                "measured": rows["throughput"],
                "predicted": predicted,
                "ratio": predicted / rows["throughput"],
            }
            tables.append(rows[list(observations.axes)].assign(**about))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(observations.axes))


def save_testbed(path: str | Path, fitted: Fit, ratio: float, observations: Observations) -> None:
    """Write a testbed file with all parameters and their sources. Other testbeds can use it as base."""
    # Dataset names may contain line breaks, which a comment must not.
    data = " ".join(f"{observations.label}, {len(observations)} cells".split())
    about = f"# Fitted to {data}. Written by `tpcsweep calibrate`; docs/simulation.md says how.\n"
    parameters = {name: _entry(name, fitted, ratio, data) for name in Physics.model_fields}
    content = {"kind": "simulation", "queues": "path", "parameters": parameters}
    write_text(Path(path), about + yaml.safe_dump(content, allow_unicode=True, sort_keys=False, width=110))


def _entry(name: str, fitted: Fit, ratio: float, data: str) -> dict[str, Any]:
    if name in HELD:
        value, source = HELD[name]
        return {"value": value, "low": value, "high": value, "unit": UNITS[name], "source": source}
    known, times, more = name, 1.0, ""
    if name == "core_rate_source":
        known, times = "core_rate_destination", ratio
        more = f"; {short(ratio)} times that of the destination, by the CPU that both used"
    if not fitted.determined[known]:
        more += f"; not determined by them: {fitted.reasons[known]}"
    value = fitted.values[known]
    ends = {"value": value, "low": min(fitted.low[known], value), "high": max(fitted.high[known], value)}
    return {
        **{end: float(f"{times * number:.4g}") for end, number in ends.items()},
        "unit": UNITS[name],
        "source": f"fitted to {data}, 95 % interval{more}",
    }
