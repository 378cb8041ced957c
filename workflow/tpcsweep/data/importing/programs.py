# SPDX-License-Identifier: Apache-2.0
"""Results of known programs as a table, with the settings that import it."""

import csv
import gzip
import json
import math
import re
import zlib
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.data.importing.formats import DOCUMENTS, TABLES, VARIABLES, Row, axis_settings
from tpcsweep.data.importing.import_settings import Import
from tpcsweep.data.importing.table_import import read_table
from tpcsweep.sweeps.problems import refused

Results = tuple[Import, pd.DataFrame, tuple[str, ...]]
"""Settings, a table with a row for each result, and notes on skipped parts."""

_GZIP = b"\x1f\x8b"
_DOCUMENT = re.compile(r"\{|\[\s*\{")
_NEXT = re.compile(r"\s*(?=[\[{])")
_LATER = re.compile(r'^(?=[\[{])|(?=\{"event")', re.MULTILINE)


def read_results(file: Path) -> Results:
    """Return the results of known programs in a file, whose content identifies the program.

    Documents without a result, of other programs, and of a run that another document has, are skipped. Raises
    ConfigurationError if there is no result.
    """
    text = _text(file)
    rows, skipped = _rows(_documents(text))
    if rows:
        return _settled(rows, skipped)
    columns = {name.strip() for name in next(csv.reader(text.splitlines()[:1]), ())}
    for known, settle in TABLES:
        if known <= columns:
            table = read_table(file)
            try:
                settings, notes = settle(table)
                return Import.model_validate(settings), table, tuple(notes)
            except ValueError as error:
                skipped.append(str(error))
    allowed = (
        "JSON with a result of iperf3, flent or pScheduler, or CSV of k8s-netperf or the testing-harness. "
        f"A table needs settings: tpcsweep import SETTINGS.yaml {file}"
    )
    raise refused("", "; ".join(skipped) or "nothing of a known program", allowed, str(file))


def _text(file: Path) -> str:
    """Return a file's text, uncompressed; "" for a file that is no text."""
    try:
        content = file.read_bytes()
        content = gzip.decompress(content) if content.startswith(_GZIP) else content
        return content.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        return ""


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


def _rows(documents: list[Row]) -> tuple[list[Row], list[str]]:
    """Return a row for each result, and a note for each skipped part of the documents."""
    rows: list[Row] = []
    skipped: list[str] = []
    known: set[tuple[object, object]] = set()
    for number, document in enumerate(documents, 1):
        matches = (one for one in DOCUMENTS if one[1] <= document.keys())
        program, _, read = next(matches, ("JSON", set(), None))
        name = f"{program} document {number} is skipped"
        if read is None:
            skipped.append(f"{name}: {document.get('broken', 'of another program')}")
            continue
        try:
            for row in read(document):
                run = row.pop("run", None), row.get("direction")
                if run[0] and run in known:
                    skipped.append(f"{name}: its run is in an earlier document")
                elif not _is_rate(rate := row["throughput"]):
                    part = row.get("series") or row.get("direction", "throughput")
                    skipped.append(f"{name}: {part}: {rate or 'no rate'}")
                else:
                    known.add(run)
                    rows.append({"tool": program, **row})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            skipped.append(f"{name}: {why}")
    return rows, list(dict.fromkeys(skipped))


def _is_rate(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0  # type: ignore[arg-type,operator]


def _settled(rows: list[Row], skipped: list[str]) -> Results:
    table = pd.DataFrame(rows, pd.RangeIndex(1, len(rows) + 1, name="row"))
    axes = [str(name) for name in table if name not in VARIABLES]
    table[axes] = table[axes].fillna("none")
    variables = {name: {"column": name, "unit": unit} for name, unit in VARIABLES.items() if name in table}
    settings: Row = {**axis_settings(table, dict(zip(axes, axes, strict=True))), "variables": variables}
    return Import.model_validate(settings), table, tuple(skipped)
