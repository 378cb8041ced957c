# SPDX-License-Identifier: Apache-2.0
"""Formats of other programs' results: JSON documents, which become rows, and CSV tables, which need known settings.

Sources: JSON of iperf3 (--json, --json-stream), of flent (.flent.gz) and of pScheduler's throughput tests; CSV of
k8s-netperf (--csv) and of esnet's testing-harness (statistics.csv).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean
from typing import Any

import pandas as pd  # type: ignore[import-untyped]

Row = dict[str, Any]

VARIABLES = {"throughput": "bit/s", "rtt_loaded": "us", "duration": "s", "retransmits": ""}
"""Keys of rows that are variables, with their units; all others are axes."""


def axis_settings(table: pd.DataFrame, columns: Mapping[str, str]) -> Row:
    """Return `axes` and `fixed` of settings for axes, given with their columns; a single value is fixed.

    `streams` always remains an axis.
    """
    several = [axis for axis, column in columns.items() if axis == "streams" or table[column].nunique() > 1]
    single = [axis for axis in columns if axis not in several and len(table)]
    return {
        "axes": {axis: {"column": columns[axis]} for axis in several},
        "fixed": {axis: str(table[columns[axis]].iloc[0]) for axis in single},
    }


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
    """Yield a row for each sum of parallel series, and for each series without one."""
    about = document["metadata"]
    # Files of the first version contain only the samples.
    means = {
        name: series.get("MEAN_VALUE", document["results"].get(name))
        for name, series in about.get("SERIES_META", {}).items()
        if series.get("UNITS") == "Mbits/s" and not name.endswith((" avg", " totals"))
    }
    if not means:
        raise ValueError("no series in Mbits/s")
    sums = tuple(name.removesuffix(" sum") for name in means if name.endswith(" sum"))
    for name, mean in means.items():
        series = name.removesuffix(" sum")
        if series in sums or not name.startswith(sums):
            samples = [one for one in (mean if isinstance(mean, list) else [mean]) if one is not None]
            yield {
                "test": about["NAME"],
                "title": about.get("TITLE") or None,
                "host": about.get("HOST"),
                "series": series,
                "streams": sum(other.startswith(series) for other in means) - 1 if series in sums else 1,
                "throughput": 1e6 * fmean(samples) if samples else None,
                "duration": about["LENGTH"],
            }


DOCUMENTS: tuple[tuple[str, set[str], Callable[[Row], Iterator[Row]]], ...] = (
    ("iperf3", {"start", "end"}, _iperf3),
    ("pscheduler", {"result"}, _pscheduler),
    ("pscheduler", {"succeeded"}, _pscheduler),
    ("flent", {"metadata", "results"}, _flent),
    ("iperf3", {"start"}, _iperf3),
    ("iperf3", {"error"}, _iperf3),
)
"""Programs, keys that identify their JSON documents, and functions that yield a document's rows.

A row contains a `run` if the program names it, so that a run in several documents counts once.
"""


def _netperf(table: pd.DataFrame) -> tuple[Row, list[str]]:
    """Return settings and notes for a table of k8s-netperf, whose rows have several units."""
    rate, unit = "Avg Throughput", "Throughput Metric"
    words = [name for name in table.columns[: table.columns.get_loc(rate)] if "onfidence" not in name]
    table[words] = table[words].replace("", "none")
    names = {"Driver": "tool", "Parallelism": "streams"}
    axes = {names.get(name, _slug(name)): name for name in words if name not in ("Duration", "# of Samples")}
    bounds = {"": rate, "_low": "Confidence metric - low", "_high": "Confidence metric - high"}
    variables = {
        f"throughput{end}": {"column": column, "unit": "Mbit/s"}
        for end, column in bounds.items()
        if column in table
    }
    in_mbit = table[unit].isin(_MBIT)
    settings = {
        **axis_settings(table[in_mbit], axes),
        "variables": variables,
        "where": f"`{unit}` in {list(_MBIT)}",
    }
    confidence = {"confidence": 0.95} if len(variables) == len(bounds) else {}
    return settings | confidence, [f"rows in {other} are skipped" for other in table[unit][~in_mbit].unique()]


def _harness(table: pd.DataFrame) -> tuple[Row, list[str]]:
    """Return settings and notes for statistics of the testing-harness: throughput of one stream, half an RTT."""
    if (table.get("BYTES (Receiver)", table["UUID"]) == "").all():
        raise ValueError("its rows are intervals of one test")
    table[_HALF_RTT] = (2 * pd.to_numeric(table[_HALF_RTT], errors="coerce")).astype(str).replace("nan", "")
    names = {"STREAMS": "streams", "CONGESTION (Sender)": "congestion_control"}
    words = [name for name in ("HOSTNAME", "ALIAS", "PACING", *names) if name in table]
    axes = {names.get(name, _slug(name)): name for name in words}
    settings = {
        **axis_settings(table[table["STREAMS"] == "1"], axes),
        "variables": {
            "throughput": {"column": _RECEIVED, "unit": "bit/s"},
            "rtt_loaded": {"column": _HALF_RTT, "unit": "us"},
            "retransmits": {"column": "RETRANSMITS", "unit": ""},
        },
        "where": f"STREAMS == 1 and `{_RECEIVED}` <= `{_SENT}`",
    }
    note = "rows of several streams have the throughput of one, and are skipped; RTTs are doubled"
    return settings, [note]


def _slug(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_").lower()


_MBIT = ("10^6bits/s", "Mb/s", "Mbps")
"""Spellings of Mbit/s in tables of k8s-netperf."""
_SENT, _RECEIVED, _HALF_RTT = "THROUGHPUT (Sender)", "THROUGHPUT (Receiver)", "LATENCY (mean)"
"""Columns of the testing-harness."""

TABLES: tuple[tuple[set[str], Callable[[pd.DataFrame], tuple[Row, list[str]]]], ...] = (
    ({"Driver", "Profile", "Parallelism", "Avg Throughput", "Throughput Metric"}, _netperf),
    ({"UUID", "STREAMS", "RETRANSMITS", _SENT, _RECEIVED, _HALF_RTT}, _harness),
)
"""Columns that identify a program's CSV, and functions that complete the table, and return settings and notes.

The functions raise ValueError for a table without results.
"""
