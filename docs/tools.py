# SPDX-License-Identifier: Apache-2.0
"""Write the tables of measured tools in docs/tools.md from the datasets of examples/tools: `make docs`.

Means are geometric, with 95 % intervals: Student's over repetitions, of ratios over pairs of the same repetition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
from tpcsweep.analysis.block_effects import MEASURES, block_effects
from tpcsweep.common.numbers import GBIT, between, short
from tpcsweep.data.effects import mean_ratio
from tpcsweep.data.opening import load
from tpcsweep.data.tables import observations
from tpcsweep.sweeps.parameters import value_text

PAGE = Path(__file__).with_name("tools.md")
DATASETS = Path(__file__).parents[1] / "examples/tools"
Row = tuple[str, ...]


def cells(name: str) -> pd.DataFrame:
    """Return the usable cells of a dataset, with the client's CPU-seconds for a file, and those of both sides."""
    also = ("client_cpu", "source_cpu", "destination_cpu", "outside_copy")
    rows = observations(load(DATASETS / f"{name}.nc"), also=also)
    rows = rows[rows["reason"] == ""]
    seconds = rows["file_size"] * GBIT / rows["throughput"]  # for a file's bytes
    servers = rows["source_cpu"] + rows["destination_cpu"]
    return rows.assign(client=rows["client_cpu"] * seconds, servers=servers * seconds)


def mean(values: pd.Series) -> str:
    found = mean_ratio(values, values * math.nan)
    if not found:
        return "–"
    # Three cells with equal numbers of small files have an interval narrower than the digits of the mean.
    low, high = short(found.low), short(found.high)
    return f"{short(found.value)} ({between(found.low, found.high) if low != high else f'{low} to {high}'})"


def ratio(new: pd.DataFrame, base: pd.DataFrame, figure: str) -> str:
    pairs = new.set_index("repetition")[figure] / base.set_index("repetition")[figure]
    return mean(pairs.dropna())


def clients() -> Iterator[Row]:
    """Return throughput and the client's CPU time of each tool, and their ratios to gfal-copy."""
    yield "streams", "tool", "Gbit/s", "ratio", "client's CPU-s for a file", "ratio"
    rows = cells("clients")
    for streams, group in rows.groupby("streams"):
        base = group[group["tool"] == "gfal-copy"]
        for tool in rows["tool"].unique():
            one = group[group["tool"] == tool]
            row = [str(streams), f"`{tool}`"]
            for figure in ("throughput", "client"):
                row += [mean(one[figure]), "1" if tool == "gfal-copy" else ratio(one, base, figure)]
            yield tuple(row)


def integrity() -> Iterator[Row]:
    """Return ratios of cells with a checksum to those without, and the seconds that tools take around a copy."""
    yield "cores", "tool", "file", "checksum", "throughput", "servers' CPU for a file", "s around a copy"
    rows = cells("integrity")
    for (cores, tool, size), group in rows.groupby(["cores", "tool", "file_size"]):
        base = group[group["checksum"] == "none"]
        for checksum in ("adler32", "crc32c", "md5"):
            one = group[group["checksum"] == checksum]
            if one.empty:
                continue
            waits = (short(half["outside_copy"].mean(), 2) for half in (base, one))
            key = (value_text("cores", cores), f"`{tool}`", value_text("file_size", size), checksum)
            yield *key, ratio(one, base, "throughput"), ratio(one, base, "servers"), " → ".join(waits)


def downloads() -> Iterator[Row]:
    """Return the throughput of each client and file size, and its ratios with more streams, distance and both."""
    rows = cells("downloads")
    (one, several), (near, far) = (sorted(rows[axis].unique()) for axis in ("streams", "rtt"))
    more, distance = f"{several} streams", value_text("rtt", far)
    yield "file", "tool", "Gbit/s", "over `davix-get`", more, distance, f"{more}, {distance}"
    for size, group in rows.groupby("file_size"):
        found = dict([*group.groupby(["tool", "streams", "rtt"])])
        for tool in rows["tool"].unique():
            base = found[tool, one, near]
            client = ratio(base, found["davix-get", one, near], "throughput")
            others = (found[tool, *setting] for setting in ((several, near), (one, far), (several, far)))
            key = (value_text("file_size", size), f"`{tool}`", mean(base["throughput"]))
            ratios = (ratio(other, base, "throughput") for other in others)
            yield *key, "1" if tool == "davix-get" else client, *ratios


def blocks(name: str, setting: str) -> Iterator[Row]:
    """Return the effects of a setting inside blocks."""
    yield "cells", "figure", "ratio", "blocks"
    found = block_effects(load(DATASETS / f"{name}.nc"), setting).rows
    for row in (row for row in found if row.measure in ("throughput", "cpu")):
        at = f"{row.axis} {row.at}" if row.axis else "all"
        yield at, MEASURES[row.measure], f"{short(row.ratio)} ({between(row.low, row.high)})", str(row.blocks)


TABLES: Mapping[str, Callable[[], Iterable[Row]]] = {
    "clients": clients,
    "integrity": integrity,
    "mirage": partial(blocks, "mirage", "layer"),
    "scitags": partial(blocks, "scitags", "scitag"),
    "downloads": downloads,
}


def table(rows: Iterable[Row]) -> str:
    head, *rest = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rest])


def made() -> str:
    """Return the text of the page with its tables renewed."""
    text = PAGE.read_text()
    for name, rows in TABLES.items():
        first, rest = text.split(f"<!-- {name}, made by tools.py -->\n")
        text = "".join(
            [
                first,
                f"<!-- {name}, made by tools.py -->\n{table(rows())}\n",
                rest[rest.index("<!-- end -->") :],
            ]
        )
    return text


if __name__ == "__main__":
    PAGE.write_text(made())
