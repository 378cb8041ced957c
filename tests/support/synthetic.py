# SPDX-License-Identifier: Apache-2.0
"""Cell files of a made-up sweep, for tests of what comes after measuring."""

import itertools
import math
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson
import xarray as xr
from tpcsweep.data import cell_files
from tpcsweep.data.cell_files import format_content
from tpcsweep.data.cell_result import CellResult, Limit, Summary
from tpcsweep.data.labels import about_flags
from tpcsweep.data.repetitions import settings_of
from tpcsweep.data.variables import SAMPLES, SUMMARY
from tpcsweep.measuring.steady import analyse
from tpcsweep.pages.cell_columns import grid_cells
from tpcsweep.pages.contract import EffectRow
from tpcsweep.pages.finding import Sentence
from tpcsweep.pages.findings import findings
from tpcsweep.pages.gains import Gains
from tpcsweep.pages.host_changes import host_changes
from tpcsweep.pages.host_limits import host_records
from tpcsweep.pages.remedies import Remedies
from tpcsweep.pages.trust import doubts
from tpcsweep.sweeps.parameters import Parameters, Value

MEASUREMENT = {"interval": 0.1, "min_time": 4.0, "max_time": 20.0, "precision": 0.05, "confidence": 0.95}
FOUR_AXES: dict[str, Sequence[Value]] = {"origins": [1, 2], "cores": [1.0, 2.0]}
FOUR_AXES |= {"rtt": [5.0, 20.0, 50.0, 100.0], "streams": [1, 2, 4, 8], "repetition": [1, 2, 3]}
MOVED = {"stream": [0, 1], "number": [0, 0], "start": [0.0, 0.1], "first_byte": [0.5, None]}
MOVED |= {"end": [4.0, 5.0], "size": [2**28, 0], "ok": [True, False], "message": ["", "exit code 5"]}
RECORDED = {"xrootd_begin": [0.25, None], "xrootd_end": [3.75, None], "xrootd_connections": [1, None]}
RECORDED |= {"xrootd_size": [2**28, None], "xrootd_code": [0, None], "xrootd_direction": ["pull", ""]}
"""The two transfers of a cell, and what XRootD has recorded of the first."""


def specification(values: Mapping[str, Value], kind: str = "netns", sweep: str = "demo") -> dict[str, Any]:
    """Give the specification of the cell at these values; other parameters have their defaults."""
    given = {name: value for name, value in values.items() if name != "repetition"}
    return {
        "format": 1,
        "sweep": sweep,
        "parameters": {**Parameters().model_dump(), "tcp_buffer": 4 * 2**20, **given},
        "repetition": values.get("repetition", 1),
        "measurement": dict(MEASUREMENT),
        "testbed": {"name": kind, "kind": kind},
    }


def cell(spec: Mapping[str, Any], status: str = "ok", flags: Sequence[str] = ()) -> dict[str, Any]:
    """Give a cell whose throughput follows the smallest of bandwidth, windows and cores, with noise."""
    parameters = spec["parameters"]
    # Of the cell's place alone: a parameter or a key of measuring that comes later leaves the noise as it is.
    place = {name: parameters[name] for name in FOUR_AXES if name in parameters} | {"sweep": spec["sweep"]}
    generator = np.random.default_rng(zlib.crc32(orjson.dumps([place, spec["repetition"]])))
    windows = parameters["streams"] * parameters["tcp_buffer"] * 8 / (parameters["rtt"] + 0.5) / 1e6
    cpu = (parameters["cores"] or 4) * 0.4
    level = 0.94 * (windows**-4 + cpu**-4 + parameters["bandwidth"] ** -4) ** -0.25
    level *= 1 + 0.03 * generator.normal()
    ok, simulated = status == "ok", spec["testbed"]["kind"] == "simulation"
    count = 120 if ok else 0
    time = np.arange(1, count + 1) * 0.1 + generator.uniform(0, 0.005, count)
    noise = np.ones(count)
    for place in range(1, count):
        noise[place] = 1 + 0.7 * (noise[place - 1] - 1) + 0.05 * generator.normal()
    goodput = level * noise * (1 - np.exp(-time / (0.1 + 8 * parameters["rtt"] / 1000)))
    result = analyse(goodput, 0.1, 0.95)
    summary: dict[str, float | None] = dict.fromkeys(SUMMARY)
    if ok:
        summary |= {"throughput": result.mean, "throughput_low": result.low, "throughput_high": result.high}
        summary |= {"throughput_freedom": result.freedom, "throughput_max": float(goodput.max())}
        summary |= {"source_cpu": result.mean / 0.5, "destination_cpu": result.mean / 0.6}
        summary |= {"duration": 12.0, "warmup": result.warmup}
    samples: dict[str, list[Any]] = {name: [None] * count for name in SAMPLES}
    samples |= {"time": time.tolist(), "goodput": goodput.tolist()}
    samples["source_cpu"] = (goodput / 0.5).tolist()
    samples["destination_cpu"] = (goodput / 0.6).tolist()
    shares = range(1, parameters["origins"] + 1)  # every origin uses another share, so that a mix-up shows
    samples["source_origin_cpu"] = [(goodput / 0.5 * n).tolist() for n in shares] if ok else []
    samples["destination_origin_cpu"] = [(goodput / 0.6 * n).tolist() for n in shares] if ok else []
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) + timedelta(seconds=20 * spec["repetition"])
    return {
        "format": 1,
        "spec": spec,
        "status": status,
        "message": "" if ok else "gfal-copy: 503 Service Unavailable",
        "flags": list(flags),
        "limit": ("window" if parameters["rtt"] >= 20 else "bandwidth") if ok else None,
        "limit_second": "",
        "summary": {name: v if v is None or math.isfinite(v) else None for name, v in summary.items()},
        "samples": samples,
        "transfers": {name: [*both] for name, both in {**MOVED, **RECORDED}.items()},
        "provenance": {
            "started": started.isoformat(),
            "host": "testhost",
            "kernel": "6.1.0",
            "cpu": "a CPU",
            "software": {"xrootd": "5.9.0", "gfal2": "2.23.0"},
            **({"simulation": {"inputs": ["chep2024.server_cap"], "assumptions": {}}} if simulated else {}),
            "path": {"rtt": parameters["rtt"] + 0.05},
            "sysctls": {"net.ipv4.tcp_rmem": "4096 131072 67108864"},
            "commit": "0123abc",
            "deployment": f"origins={parameters['origins']}/rtt={parameters['rtt']}",
        },
    }


def result(
    limit: str | None = None, figures: Mapping[str, Any] = MappingProxyType({}), **about: Any
) -> CellResult:
    """Give a cell's result without samples and transfers."""
    summary = Summary(figures)
    whole: dict[str, Any] = {"status": "ok", "summary": summary, "samples": {}, "transfers": {}}
    return CellResult(**whole | about, limit=Limit(limit) if limit else None)


def write_cell(path: Path, spec: Mapping[str, Any], **changes: Any) -> None:
    """Write the file of a cell with other values of some keys."""
    cell_files.write_cell(path, spec, CellResult.from_json(cell(spec) | changes))


def edited(text: bytes) -> bytes:
    """Return a cell's bytes with the checksum of what they say now."""
    content = orjson.loads(text)
    return format_content({name: part for name, part in content.items() if name != "checksum"})


def write_sweep(
    folder: Path,
    axes: Mapping[str, Sequence[Value]],
    *,
    kind: str = "netns",
    missing: Sequence[Mapping[str, Value]] = (),
    failed: Sequence[Mapping[str, Value]] = (),
    flagged: Mapping[str, Sequence[Mapping[str, Value]]] | None = None,
) -> dict[Path, dict[str, Any]]:
    """Write a cell file for each point, and give the specification of each.

    missing, failed, flagged: which cells are so, each named by the values of some axes.
    """
    specs = {}
    for point in itertools.product(*axes.values()):
        values = dict(zip(axes, point, strict=True))
        if _among(values, missing):
            continue
        spec = specification(values, kind)
        path = folder / "cells" / ("/".join(f"{name}={value}" for name, value in values.items()) + ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = [flag for flag, which in (flagged or {}).items() if _among(values, which)]
        status = "failed" if _among(values, failed) else "ok"
        path.write_bytes(format_content(cell(spec, status, flags)))
        specs[path] = spec
    return specs


def _among(values: Mapping[str, Value], which: Sequence[Mapping[str, Value]]) -> bool:
    return any(all(values[name] == value for name, value in one.items()) for one in which)


def bare(throughput: np.ndarray, half: float | np.ndarray, axes: Mapping[str, Sequence[Value]]) -> xr.Dataset:
    """Return a dataset of good cells with intervals of throughput ± half (Gbit/s), and nothing else."""
    content = with_ends(throughput, half) | {"status": np.ones(throughput.shape, np.int8)}
    ds = xr.Dataset({name: (tuple(axes), values) for name, values in content.items()}, axes)
    flags = (tuple(axes), np.zeros(throughput.shape, np.int32), about_flags())
    fixed = {} if "tool" in axes else {"tool": "curl"}
    return ds.assign(flags=flags).assign_coords(fixed).assign_attrs(measurement_confidence=0.95)


def with_ends(throughput: np.ndarray, half: float | np.ndarray) -> dict[str, np.ndarray]:
    """Throughput ± half, by the names that a dataset has for the three."""
    ends = {"throughput_low": throughput - half, "throughput_high": throughput + half}
    return {"throughput": throughput, **ends}


def findings_of(
    summary: xr.Dataset, gained: Gains | None = None, effects: Sequence[EffectRow] = ()
) -> list[Sentence]:
    """Return the findings of a page with some gains by a model, and with effects inside blocks."""
    settings = settings_of(summary)
    of_hosts = host_records(summary, settings, measured := grid_cells(settings))
    cells = of_hosts.explained(measured)
    remedies = Remedies(cells, gained, effects, host_changes(summary))
    return findings(settings, cells, of_hosts, remedies, {row["setting"] for row in effects})


def doubts_of(summary: xr.Dataset) -> list[Sentence]:
    """Return what a page without effects of settings says about the trust in cells."""
    return doubts(summary, grid_cells(settings_of(summary)), in_blocks=False)
