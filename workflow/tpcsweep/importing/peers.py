# SPDX-License-Identifier: Apache-2.0
"""Settings of imports derived from tables: known ones for other programs, proposals for the rest."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import yaml

from tpcsweep.configuration import units
from tpcsweep.configuration.imports import TAKEN, axis_dimension, variable_dimension
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.problems import refused
from tpcsweep.variables import SUMMARY

Row = dict[str, Any]

_DOCUMENT = re.compile(r"\{|\[\s*\{")
_NEXT = re.compile(r"\s*(?=[\[{])")
_LATER = re.compile(r'^(?=[\[{])|(?=\{"event")', re.MULTILINE)

_SENT, _RECEIVED, _HALF = "THROUGHPUT (Sender)", "THROUGHPUT (Receiver)", "LATENCY (mean)"
"""Columns of the testing-harness."""
_VARIABLES = {"throughput": "bit/s", "rtt_loaded": "us", "duration": "s", "retransmits": ""}
"""Columns of tables made from documents, with their units; all others are axes."""


def documents(text: str) -> list[Row]:
    """Return JSON documents, concatenated or in a list, ignoring text around them; [] for other text.

    The events of a run of iperf3 --json-stream are one document. A document that breaks off has the key `broken`.
    """
    if re.search(r"^\[ *ID\] Interval", text, re.MULTILINE):
        raise ValueError("text of iperf3, which rounds; --json has the digits")
    found, at = [], 0
    while begin := _NEXT.match(text, at) or _LATER.search(text, at):
        try:
            value, at = json.JSONDecoder().raw_decode(text, begin.end())
        except json.JSONDecodeError as error:
            at = begin.end() + 1
            if _DOCUMENT.match(text, begin.end()):  # otherwise text such as [2026-11-01 10:00:00]
                found.append({"broken": f"JSON that breaks in line {error.lineno}: {error.msg}"})
            continue
        found += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
    if all("broken" in one for one in found) and not _NEXT.match(text):
        return []
    runs: list[Row] = []
    for one in found:
        event = one.get("event")
        if event is None or _begins_run(event, runs):
            runs.append({})
        runs[-1].update(one if event is None else {event: one.get("data")})
    return runs


def _begins_run(event: str, runs: list[Row]) -> bool:
    """Return whether an event belongs to another run than those before: "start", or one after an "end"."""
    return event == "start" or not runs or "broken" in runs[-1] or "end" in runs[-1]


def documents_table(found: list[Row], file: Path) -> pd.DataFrame:
    """Return a table of the results in other programs' documents, with settings in its attributes.

    Documents without a result, of unknown programs, and of a run that another document has, are skipped with a note.
    Raises ConfigurationError if no document has a result.
    """
    rows: list[Row] = []
    skipped: list[tuple[str, str]] = []
    known: set[tuple[object, object]] = set()
    for number, document in enumerate(found, 1):
        name, _, read = next(
            (one for one in _PROGRAMS if one[1] <= document.keys()), ("JSON", set(), _unknown)
        )
        told = f"{name} document {number}"
        try:
            for row in read(document):
                run = row.pop("run", None), row.get("direction")
                if run[0] and run in known:
                    skipped.append((told, "its run is in an earlier document"))
                elif not _is_rate(rate := row["throughput"]):
                    part = row.get("series") or row.get("direction", "throughput")
                    skipped.append((told, f"{part}: {rate or 'no rate'}"))
                else:
                    known.add(run)
                    rows.append({"tool": name, **row})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__} {error}"
            why = f"it has no {error}" if isinstance(error, KeyError) else why
            skipped.append((told, why))
    if not rows:
        allowed = "JSON with a result of iperf3, flent or pScheduler"
        raise refused("", "; ".join(map(": ".join, skipped)), allowed, str(file))
    table = pd.DataFrame(rows, pd.RangeIndex(1, len(rows) + 1, name="row"))
    variables = {name: {"column": name, "unit": unit} for name, unit in _VARIABLES.items() if name in table}
    axes = {str(name): str(name) for name in table if name not in _VARIABLES}
    table[list(axes)] = table[list(axes)].fillna("none")
    notes = [f"{told} is skipped: {why}" for told, why in dict.fromkeys(skipped)]
    table.attrs = {"notes": notes, "settings": _settings(table, axes, variables)}
    return table


def _is_rate(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0  # type: ignore[arg-type,operator]


def _settings(table: pd.DataFrame, axes: Mapping[str, str], variables: Row, **more: object) -> Row:
    """Return settings in which axes with a single value (given with their columns) are fixed."""
    several = {name for name, column in axes.items() if name == "streams" or table[column].nunique() > 1}
    used = {name: {"column": column} for name, column in axes.items() if name in several}
    fixed = {name: str(table[axes[name]].iloc[0]) for name in axes.keys() - used.keys() if len(table)}
    return {"axes": used, "variables": variables, "fixed": fixed, **more}


def _iperf3(document: Row) -> Iterator[Row]:
    if "error" in document:
        raise ValueError(document["error"])
    start, end = document["start"], document["end"]
    test = start["test_start"]
    sent = [one["sender"] for one in end["streams"] if "sender" in one]
    rtts = [one["mean_rtt"] for one in sent if one.get("sender", True) and one.get("mean_rtt")]
    if "sum_received" not in end:  # UDP of versions before 3.8
        raise ValueError("no received rate (sum_received), only the sender's")
    for received in ("sum_received", *({"sum_received_bidir_reverse"} & end.keys())):
        direction = "reverse" if test.get("reverse") or received != "sum_received" else "forward"
        result, sent_sum = end[received], end[received.replace("received", "sent")]
        # A server writes 0 as received where it sends: it does not know the rate at the client.
        unknown = "accepted_connection" in start and not result["bits_per_second"]
        yield {
            "run": start.get("cookie"),
            "streams": test["num_streams"],
            "protocol": test["protocol"],
            "direction": direction,
            "congestion_control": end.get("sender_tcp_congestion"),
            "throughput": "a server does not know the rate at its client"
            if unknown and sent_sum["bits_per_second"]
            else result["bits_per_second"],
            "duration": result["seconds"],
            "retransmits": sent_sum.get("retransmits"),
            "rtt_loaded": fmean(rtts) if rtts and direction == "forward" else None,
        }


def _unknown(document: Row) -> Iterator[Row]:
    programs = ", ".join(sorted({name for name, _, _ in _PROGRAMS}))
    raise ValueError(document.get("broken", f"of none of {programs}"))


def _pscheduler(document: Row) -> Iterator[Row]:
    result = document.get("result", document)
    spec = document.get("test", document).get("spec", {})
    if not result["succeeded"]:
        raise ValueError(result.get("error", "the run failed"))
    summary, tool = result["summary"]["summary"], document.get("tool", "pscheduler")
    received = summary.get("receiver-throughput-bits")
    yield {
        "tool": tool["name"] if isinstance(tool, dict) else tool,
        "streams": spec.get("parallel") or len(result["summary"].get("streams", ())) or 1,
        "protocol": "UDP" if spec.get("udp") else "TCP",
        **{end: spec[end] for end in ("source", "dest") if end in spec},
        "congestion_control": spec.get("congestion"),
        "throughput": summary["throughput-bits"] if received is None else received,
        "retransmits": summary.get("retransmits"),
    }


def _flent(document: Row) -> Iterator[Row]:
    about = document["metadata"]
    means = {
        name: series.get("MEAN_VALUE", document["results"].get(name))
        for name, series in about.get("SERIES_META", {}).items()
        if series.get("UNITS") == "Mbits/s" and not name.endswith((" avg", " totals"))
    }
    sums = tuple(name.removesuffix(" sum") for name in means if name.endswith(" sum"))
    told = {"test": about["NAME"], "title": about.get("TITLE") or None, "host": about.get("HOST")}
    if not means:
        raise ValueError("no series in Mbits/s")
    for name, mean in means.items():
        series = name.removesuffix(" sum")
        if series in sums or not name.startswith(sums):
            streams = sum(other.startswith(series) for other in means) - 1 if series in sums else 1
            # Files of the first version contain only the samples.
            mean = [one for one in mean or () if one is not None] if not _is_rate(mean) else [mean]
            yield {
                **told,
                "series": series,
                "streams": streams,
                "throughput": 1e6 * fmean(mean) if mean else None,
                "duration": about["LENGTH"],
            }


_PROGRAMS: tuple[tuple[str, set[str], Callable[[Row], Iterator[Row]]], ...] = (
    ("iperf3", {"start", "end"}, _iperf3),
    ("pscheduler", {"result"}, _pscheduler),
    ("pscheduler", {"succeeded"}, _pscheduler),
    ("flent", {"metadata", "results"}, _flent),
    ("iperf3", {"start"}, _iperf3),
    ("iperf3", {"error"}, _iperf3),
)
"""Names of programs, keys that identify their documents, and functions that yield a document's rows."""


def recognize(table: pd.DataFrame) -> None:
    columns = set(table.columns)
    if {"Driver", "Profile", "Parallelism", "Avg Throughput", "Throughput Metric"} <= columns:
        table.attrs["settings"] = _netperf(table)
    elif {"UUID", "STREAMS", "RETRANSMITS", _SENT, _RECEIVED, _HALF} <= columns and (
        table.get("BYTES (Receiver)", table["UUID"]) != ""  # otherwise rows are intervals of one test
    ).any():
        table.attrs["settings"] = _harness(table)


def _netperf(table: pd.DataFrame) -> Row:
    """Return settings for a table that has a unit for each row, and 0 to 0 around single samples."""
    rate, unit = "Avg Throughput", "Throughput Metric"
    words = [name for name in table.columns[: table.columns.get_loc(rate)] if "onfidence" not in name]
    table[words] = table[words].replace("", "none")
    table[unit] = table[unit].replace("10^6bits/s", "Mbit/s")
    called = {"Driver": "tool", "Parallelism": "streams"}
    axes = {called.get(name, _slug(name)): name for name in words if name not in ("Duration", "# of Samples")}
    ends = {"": rate, "_low": "Confidence metric - low", "_high": "Confidence metric - high"}
    ends = {f"throughput{end}": column for end, column in ends.items() if column in table}
    variables = {name: {"column": column, "unit_column": unit} for name, column in ends.items()}
    more = {"confidence": 0.95} if len(variables) == 3 else {}
    rates = table[table[unit] != "OP/s"]
    where = {"where": f"`{unit}` != 'OP/s'"} if len(rates) < len(table) else {}
    return _settings(rates, axes, variables, **more, **where)


def _harness(table: pd.DataFrame) -> Row:
    """Return settings for a table whose throughput is the first stream's, and whose latency is half an RTT."""
    table[_HALF] = (2 * pd.to_numeric(table[_HALF], errors="coerce")).astype(str).replace("nan", "")
    table.attrs["notes"].append(
        "rows of several streams have the throughput of one, and are skipped; RTTs are doubled"
    )
    variables = {
        "throughput": {"column": _RECEIVED, "unit": "bit/s"},
        "rtt_loaded": {"column": _HALF, "unit": "us"},
        "retransmits": {"column": "RETRANSMITS", "unit": ""},
    }
    called = {"STREAMS": "streams", "CONGESTION (Sender)": "congestion_control"}
    words = [name for name in ("HOSTNAME", "ALIAS", "PACING", *called) if name in table]
    axes = {called.get(name, _slug(name)): name for name in words}
    where = f"STREAMS == 1 and `{_RECEIVED}` <= `{_SENT}`"
    return _settings(table[table["STREAMS"] == "1"], axes, variables, where=where)


# --- proposals

_ALIASES = {
    alias: name
    for name, aliases in {
        "throughput": "rate goodput speed bitrate",
        "throughput_low": "low lower",
        "throughput_high": "high upper",
        "streams": "stream nostreams parallel parallelism num_streams flows connections",
        "rtt": "ping latency delay",
        "tool": "client driver program",
        "bandwidth": "capacity link",
        "file_size": "filesize size",
        "congestion_control": "congestion cc",
        "cores": "cpus",
    }.items()
    for alias in aliases.split()
}
_LOOSE = {
    "bps": "bit/s", "kbps": "kbit/s", "mbps": "Mbit/s", "gbps": "Gbit/s",
    "seconds": "s", "percent": "%",
}  # fmt: skip
"""Probable units in names of columns: settings reject them, but people check a proposal."""
_DIMENSIONS = (units.RATE, units.RTT, units.SIZE, units.FRACTION)


def proposal(table: pd.DataFrame, file: Path) -> str:
    """Return proposed settings for a table as YAML with comments, by the names of its columns."""
    axes, variables, unused = {}, {}, []
    for column in table.columns:
        base, unit = _parted(column)
        unit = table.attrs.get("units", {}).get(column, unit)
        name = _slug(base) or ("throughput" if units.RATE.size(unit) else "rtt")
        name = _ALIASES.get(name, name)
        cells = table[column].astype(str)
        words = pd.to_numeric(cells.str.replace(",", "."), errors="coerce").isna().all()
        several = 2 <= table[column].nunique() <= max(2, len(table) // 2)
        kind = variable_dimension(name) if name in SUMMARY else axis_dimension(name)
        entry = {"column": column} | ({"unit": unit or "?"} if kind and kind.base else {})
        if name in SUMMARY and name not in variables:
            variables[name] = entry
        elif name in Parameters.model_fields and name not in axes:
            axes[name] = entry
        elif words and several and name not in {*TAKEN, *axes} and re.fullmatch(r"[a-z][a-z0-9_]*", name):
            axes[name] = {"column": column}
        else:
            unused.append(f"# not used: {column}, such as {next(iter(cells), '')!r}")
    variables.setdefault("throughput", {"column": "?", "unit": "?"})
    more = {"confidence": 0.95} if {"throughput_low", "throughput_high"} <= variables.keys() else {}
    settings = {"axes": axes, "variables": variables, **more}
    content = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=1000)
    head = (
        f"# Proposed for {file.name}. Nothing was written. Check names and units, replace each ?, then:",
        f"#   tpcsweep import {file} > {file.stem}.yaml",
        f"#   tpcsweep import {file.stem}.yaml {file}",
        *(f"# note: {note}" for note in table.attrs.get("notes", ())),
    )
    return "\n".join([*head, content.rstrip(), *unused])


def _parted(name: str) -> tuple[str, str]:
    """Split a column's name into quantity and unit: `rtt_ms`, `throughput [Mbit/s]`, `gbit_per_s`."""
    if match := re.fullmatch(r"(.*?)[\s_]*[\[(]\s*(.+?)\s*[\])]", name):
        return match[1], _unit(match[2])
    words = re.split(r"[\s_]+", name)
    for at in range(len(words)):
        if unit := _unit("_".join(words[at:])):
            return "_".join(words[:at]), unit
    return name, ""


def _unit(text: str) -> str:
    text = re.sub(r"_per_s(ec|econd)?$", "/s", text).replace("bits", "bit").replace("bytes", "B")
    for unit in (text, text.lower(), _LOOSE.get(text.lower(), "")):
        # rtt_min means the smallest RTT, not an RTT in minutes.
        if unit not in ("", "min", "h", "B") and any(dimension.size(unit) for dimension in _DIMENSIONS):
            return unit
    return ""


def _slug(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_").lower()
