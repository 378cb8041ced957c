# SPDX-License-Identifier: Apache-2.0
"""Results of iperf3 (--json and --json-stream) as a table, with the settings that import it."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.data.importing.import_settings import Import
from tpcsweep.sweeps.problems import refused

Row = dict[str, Any]

_DOCUMENT = re.compile(r"\{|\[\s*\{")
_NEXT = re.compile(r"\s*(?=[\[{])")
_LATER = re.compile(r'^(?=[\[{])|(?=\{"event")', re.MULTILINE)
_VARIABLES = {"throughput": "bit/s", "rtt_loaded": "us", "duration": "s", "retransmits": ""}
"""Columns of the table with their units; all others are axes."""


def read_results(file: Path) -> tuple[Import, pd.DataFrame, tuple[str, ...]]:
    """Return settings, a table with a row for each result in a file, and notes on skipped parts.

    Documents without a result, of other programs, and of a run that another document has, are skipped. Raises
    ConfigurationError if there is no result.
    """
    try:
        documents = _documents(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        documents = []
    rows: list[Row] = []
    skipped: list[str] = []
    known: set[tuple[object, object]] = set()
    for number, document in enumerate(documents, 1):
        try:
            for row in _results(document):
                run = row.pop("run", None), row.get("direction")
                if run[0] and run in known:
                    skipped.append(f"document {number} is skipped: its run is in an earlier document")
                elif not _is_rate(rate := row["throughput"]):
                    skipped.append(f"document {number} is skipped: {row['direction']}: {rate or 'no rate'}")
                else:
                    known.add(run)
                    rows.append(row)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            skipped.append(f"document {number} is skipped: {why}")
    if not rows:
        allowed = (
            f"JSON with a result of iperf3. A table needs settings: tpcsweep import SETTINGS.yaml {file}"
        )
        raise refused("", "; ".join(skipped) or "no JSON", allowed, str(file))
    table = pd.DataFrame(rows, pd.RangeIndex(1, len(rows) + 1, name="row"))
    axes = [str(name) for name in table if name not in _VARIABLES]
    table[axes] = table[axes].fillna("none")
    several = [name for name in axes if name == "streams" or table[name].nunique() > 1]
    settings = Import.model_validate(
        {
            "axes": {name: {"column": name} for name in several},
            "variables": {
                name: {"column": name, "unit": unit} for name, unit in _VARIABLES.items() if name in table
            },
            "fixed": {
                "tool": "iperf3",
                **{name: str(table[name].iloc[0]) for name in axes if name not in several},
            },
        }
    )
    return settings, table, tuple(dict.fromkeys(skipped))


def _documents(text: str) -> list[Row]:
    """Return JSON documents, concatenated or in a list, ignoring text around them; [] for other text.

    The events of a run of iperf3 --json-stream are one document. A document that breaks off has the key `broken`.
    """
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


def _is_rate(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0  # type: ignore[arg-type,operator]


def _results(document: Row) -> Iterator[Row]:
    for why in ("broken", "error"):
        if why in document:
            raise ValueError(document[why])
    if "start" not in document:
        raise ValueError("of another program")
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
