# SPDX-License-Identifier: Apache-2.0
"""Data from elsewhere: what becomes of rows, and what is refused."""

import gzip
import hashlib
import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import yaml
from tpcsweep.analysis.models.observations import observe
from tpcsweep.common.files import write_text
from tpcsweep.data import folding, labels
from tpcsweep.data import tables as dataset
from tpcsweep.data.folding import Folded
from tpcsweep.data.importing import table_import
from tpcsweep.data.importing.import_settings import Import, variable_dimension
from tpcsweep.data.importing.programs import read_results
from tpcsweep.data.importing.table_import import import_notes, import_rows, import_table, read_table
from tpcsweep.data.variables import SUMMARY
from tpcsweep.pages import figures
from tpcsweep.pages.dataset_facts import dataset_facts
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.testbeds.loading import load_import

from tests.support.workflow import ROOT, free_port

TABLE = """\
tool,n,ping,rate,state
gridftp,8,0.0101,2,DONE
curl,8,0.0105,3,DONE
curl,8,0.0103,4,DONE
curl,1,0.08,1,DONE
curl,1,0.08,0,LOST
"""
SETTINGS: dict[str, Any] = yaml.safe_load("""
citation: A. Uthor, 2026
axes:
  tool: {column: tool}
  streams: {column: n}
  rtt: {column: ping, unit: s, group: 10 %}
variables:
  throughput: {column: rate, unit: Gibit/s}
  rtt_idle: {column: ping, unit: s}
fixed: {bandwidth: 10 Gbit/s, layer: gridftp}
""")
RATE = {"column": "rate"}


def brought(
    folder: Path,
    content: bytes | str = TABLE,
    name: str = "spring.csv",
    base: dict[str, Any] = SETTINGS,
    **settings: Any,
) -> Folded:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return import_table(Import.model_validate(base | settings), folder / name, "spring")


def refused(folder: Path, content: bytes | str = TABLE, **settings: Any) -> str:
    with pytest.raises(ConfigurationError) as error:
        brought(folder, content, **settings)
    return str(error.value).removeprefix(f"{folder}/")


def test_rows_become_cells_with_repetitions(tmp_path: Path) -> None:
    summary = brought(tmp_path).summary
    assert dict(summary.throughput.sizes) == {"tool": 2, "streams": 2, "rtt": 2, "repetition": 2}
    axes = {name: summary[name].values.tolist() for name in ("tool", "rtt", "streams")}
    assert axes == {"tool": ["gridftp", "curl"], "rtt": [10.3, 80.0], "streams": [1, 8]}
    cell = summary.sel(streams=8, rtt=10.3)
    giga = 1.073741824
    expected = pytest.approx(np.array([[2 * giga, np.nan], [3 * giga, 4 * giga]]), nan_ok=True)
    assert cell.throughput.values == expected
    assert cell.rtt_idle.sel(tool="curl").values.tolist() == [10.5, 10.3]
    assert cell.status.values.tolist() == [[1, 0], [1, 1]]
    assert int((summary.status == 1).sum()) == 5
    pd.read_csv(tmp_path / "spring.csv").to_parquet(tmp_path / "spring.parquet")
    asked = Import.model_validate(SETTINGS)
    parquet = import_table(asked, tmp_path / "spring.parquet", "spring").summary
    xr.testing.assert_equal(*(one.drop_vars("provenance_record") for one in (summary, parquet)))


def test_the_dataset_is_like_that_of_a_sweep_and_says_from_what(tmp_path: Path) -> None:
    folded = brought(tmp_path, where="state == 'DONE' and rate > 0")
    folding.write(folded, tmp_path / "dataset.nc", "imported")
    summary = xr.load_dataset(tmp_path / "dataset.nc")
    assert {*SUMMARY, "status", "flags", "message", "started", "provenance"} <= set(summary.data_vars)
    assert (summary.throughput.units, summary.rtt.units) == ("Gbit/s", "ms")
    assert (summary.bandwidth.item(), summary.layer.item()) == (10, "gridftp")
    assert "tcp_buffer" not in summary.coords
    assert xr.load_dataset(tmp_path / "dataset.nc", group="samples").goodput.sizes["time"] == 0
    dataset.write_table(summary, tmp_path / "cells.csv")
    assert len(pd.read_csv(tmp_path / "cells.csv")) == summary.status.size
    for figure in (figures.heatmap(folded.summary), figures.series(folded.summary, folded.samples)):
        title = " ".join(figure.texts[0].get_text().split())
        assert title.endswith("sweep spring, measured elsewhere, imported from spring.csv")
    record = json.loads(str(summary.provenance_record.values[0]))
    assert record["sha256"] == hashlib.sha256(TABLE.encode()).hexdigest()
    assert (record["file"], record["rows"], record["rows_imported"]) == ("spring.csv", 5, 4)
    assert record["import"]["axes"]["rtt"]["group"] == "10 %"
    assert (summary.references, summary.testbed_kind) == ("A. Uthor, 2026", "imported")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.08,1,", "n/a,1,", "spring.csv: row 4, column ping: given 'n/a', allowed: a number of s, at least 0;"),
        ("curl,8,0.0105,3", "curl,8,0.0105,-3", "row 2, column rate: given '-3', allowed: a number of Gibit/s"),
        ("curl,8", "curl,8.5", "row 2, column n: given '8.5', and 1 more like it, allowed: a whole number"),
        ("gridftp", "", "row 1, column tool: given '', allowed: a word"),
        ("ping", "n", "given the column n twice, allowed: a table with a name for each column"),
        ("ping", "png", "axes.rtt.column: given 'ping', allowed: png? one of tool, n, png, rate, state"),
        (TABLE, "tool,n,ping,rate\n", "given a table without rows"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in refused(tmp_path, TABLE.replace(old, new))
    said = "where: given 'rate.map(print)' (rate.map(print) is none of them), allowed: comparisons"
    assert said in refused(tmp_path, where="rate.map(print)")
    assert "where: given 'rate > 9', which none of 5 rows meets" in refused(tmp_path, where="rate > 9")


SIMPLE: dict[str, Any] = yaml.safe_load("""
axes: {streams: {column: Ströme}}
variables: {throughput: {column: Rate, unit: Mbit/s}}
""")
BOUNDS = {f"throughput{end}": {"column": f"Rate{end}", "unit": "Mbit/s"} for end in ("", "_low", "_high")}
odd = partial(brought, base=SIMPLE)


def throughputs(folded: Folded) -> list[float]:
    return folded.summary.throughput.values.ravel().round(9).tolist()


POINTS = "Ströme,Rate\n1,1623.28\n2,983.36\n"
GERMAN = {"separator": ";", "decimal": ",", "encoding": "cp1252"}


@pytest.mark.parametrize(
    ("name", "content", "how"),
    [
        ("bom.csv", POINTS.encode("utf-8-sig"), {}),
        ("mac.csv", POINTS.replace("\n", "\r").encode(), {}),
        ("small.csv.gz", gzip.compress(POINTS.encode(), mtime=0), {}),
        ("tabs.tsv", POINTS.replace(",", "\t").encode(), {"separator": "\t"}),
        ("utf-16.txt", POINTS.encode("utf-16"), {"encoding": "utf-16"}),
        ("german.csv", "Ströme;Rate\n1;1623,28\n2;983,36\n".encode("cp1252"), GERMAN),
    ],
)
def test_settings_say_how_a_table_is_written(
    tmp_path: Path, name: str, content: bytes, how: dict[str, str]
) -> None:
    folded = odd(tmp_path, content, name, **how)
    assert (throughputs(folded), import_notes(folded)) == ([1.62328, 0.98336], [])


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        (b'A,B\n1,"1,234"\n', {}, "row 1, column B: given '1,234', allowed: a number of Mbit/s"),
        (b"A,B\n1,1.234\n", {"decimal": ","}, "row 1, column B: given '1.234', allowed: a number of Mbit/s"),
        (
            b"A,B\n1,1,5\n",
            {},
            "Expected 2 fields in line 2, saw 3, allowed: a table with a name for each column",
        ),
        (b"A;B\n1;2\n", {}, "axes.streams.column: given 'A', allowed: one of A;B"),
        (b'A,B\n1,"2\n', {}, "EOF inside string"),
        ("A,Ö\n1,2\n".encode("cp1252"), {}, "'utf-8' codec can't decode"),
        (b"A,B\n1,2\n", {"encoding": "none"}, "unknown encoding: none"),
        (b"A,B\n1,\n", {}, "row 1, column B: given '', allowed: a number of Mbit/s, at least 0; `where`"),
        (b"A,B\n1,1e999\n", {}, "row 1, column B: given '1e999'"),
        (b"A,B\n1,2 Mbit/s\n", {}, "row 1, column B: given '2 Mbit/s', allowed: a number of Mbit/s"),
        (b"", {}, "No columns to parse"),
    ],
)
def test_a_refusal_names_row_column_cause_and_a_way_out(
    tmp_path: Path, content: bytes, settings: dict[str, Any], message: str
) -> None:
    throughput = {"throughput": {"column": "B", "unit": "Mbit/s"}}
    plain = {"axes": {"streams": {"column": "A"}}, "variables": throughput}
    assert message in refused(tmp_path, content, base=plain, **settings)


def test_intervals_without_their_mean_are_dropped_and_gaps_stay_gaps(tmp_path: Path) -> None:
    rows = "1,800,0,0,1\n2,900,1000,1100,\n4,700,690,710,3\n8,0,0,0,4\n16,5,,,5\n"
    content = f"Ströme,Rate,Rate_low,Rate_high,ping\n{rows}"
    variables = BOUNDS | {"rtt_idle": {"column": "ping", "unit": "ms"}}
    folded = odd(tmp_path, content, variables=variables, confidence=0.95)
    expected = np.array([np.nan, np.nan, 0.69, 0, np.nan])
    assert folded.summary.throughput_low.values.ravel() == pytest.approx(expected, nan_ok=True)
    rtts = np.array([1, np.nan, 3, 4, 5])
    assert folded.summary.rtt_idle.values.ravel() == pytest.approx(rtts, nan_ok=True)
    assert import_notes(folded) == ["intervals without their mean in them are dropped: row 1, 2"]


@pytest.mark.parametrize(
    ("fixed", "flagged"), [({}, [False, False, True]), ({"bandwidth": "1 Gbit/s"}, [False, True, True])]
)
def test_rates_beyond_paths_are_flagged(tmp_path: Path, fixed: dict[str, str], flagged: list[bool]) -> None:
    folded = odd(tmp_path, "Ströme,Rate\n1,500\n2,9000\n3,1623276822\n", fixed=fixed)
    assert labels.flagged(folded.summary, "implausible").values.ravel().tolist() == flagged
    facts = dataset_facts(folded.summary)
    counts = f"{3 - sum(flagged)} without warnings, {sum(flagged)} invalid"
    assert facts["state"] == f"3 settings × 1 repetition = 3 cells, all measured: {counts}"
    assert "are flagged implausible: row" in import_notes(folded)[0]


def test_rows_alike_and_many_words_and_empty_columns(tmp_path: Path) -> None:
    words = "".join(f"site {n},1,\n" for n in range(5000))
    axes = {"site": {"column": "site"}}
    content = f"site,Rate,note\n{words}site 7,1,\n"
    folded = odd(tmp_path, content, axes=axes, where="note == ''")
    assert (folded.summary.throughput.size, folded.summary.throughput.count()) == (10000, 5001)
    alike = "rows alike with an earlier one in all columns count as repetitions: 1, first row 5001"
    assert import_notes(folded) == [alike]


IPERF3: dict[str, Any] = {
    "start": {"test_start": {"protocol": "TCP", "num_streams": 2, "reverse": 0}},
    "end": {
        "streams": [{"sender": {"mean_rtt": rtt, "sender": True}, "receiver": {}} for rtt in (400, 600)],
        "sum_sent": {"bits_per_second": 3.1e9, "seconds": 3, "retransmits": 4},
        "sum_received": {"bits_per_second": 3e9, "seconds": 3},
        "sender_tcp_congestion": "bbr",
    },
}
REVERSE, UDP = {"direction": "reverse"}, {"series": "UDP", "streams": 1}
BACK = {"sum_received_bidir_reverse": {"bits_per_second": 1e9, "seconds": 3}, "sum_sent_bidir_reverse": {}}
BOTH = {"start": IPERF3["start"], "end": IPERF3["end"] | BACK}
UNREACHED = {"start": {}, "intervals": [], "end": {}, "error": "unable to connect"}
DARK = {"bits_per_second": 0, "seconds": 3}
SERVER = {
    "start": IPERF3["start"] | {"accepted_connection": {}},
    "end": IPERF3["end"] | {"sum_received": DARK, "sum_sent": {"bits_per_second": 1e9}},
}
PSCHEDULER: dict[str, Any] = {
    "test": {"type": "throughput", "spec": {"dest": "b", "parallel": 4, "congestion": "bbr"}},
    "tool": {"name": "iperf3"},
    "result": {
        "succeeded": True,
        "summary": {"summary": {"throughput-bits": 2e9, "receiver-throughput-bits": 1e9}},
    },
}
EVENTS = "".join(json.dumps({"event": key, "data": IPERF3[key]}) + "\n" for key in IPERF3)
SENT = {"succeeded": True, "summary": {"summary": {"throughput-bits": 2e9}}}
MBITS = {
    "TCP upload::1": 10, "TCP upload::2": 20, "TCP upload avg": 15, "TCP upload sum": 30, "TCP totals": 30, "UDP": 5
}  # fmt: skip
FLENT = {
    "metadata": {
        "NAME": "tcp_nup", "TITLE": "", "HOST": "b", "LENGTH": 10,
        "SERIES_META": {name: {"UNITS": "Mbits/s", "MEAN_VALUE": mean} for name, mean in MBITS.items()}
        | {"Ping (ms)": {"UNITS": "ms", "MEAN_VALUE": 1}},
    },
    "results": {}, "version": 3,
}  # fmt: skip
K8S = """\
Driver,Profile,Parallelism,Burst,Confidence metric - low,Confidence metric - high,Avg Throughput,Throughput Metric
netperf,TCP_STREAM,1,0,900,1100,1000.000000,10^6bits/s
uperf,TCP_STREAM,1,0,0,0,2000.000000,Mbps
netperf,TCP_RR,1,0,1,2,15000.5,OP/s
"""
HARNESS = """\
,UUID,ALIAS,TIMESTAMP,STREAMS,PACING,{},LATENCY (mean),RETRANSMITS,CONGESTION (Sender),BYTES (Receiver)
0,a1,hostA,2021-06-28,1,1gbit,1010,1000,30000.5,5,cubic,7
1,a2,hostB,2021-06-28,1,1gbit,2010,2000,,5,cubic,7
2,a3,hostB,2021-06-28,4,1gbit,990,980,31000,5,bbr,7
3,a4,hostB,2021-06-28,1,1gbit,1000,9000,31000,5,bbr,7
""".format("THROUGHPUT (Sender),THROUGHPUT (Receiver)")


def read(folder: Path, content: str | bytes, name: str = "runs.json") -> Folded:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    settings, rows, skipped = read_results(file)
    return import_rows(settings, rows, file, "runs", skipped)


@pytest.mark.parametrize(
    ("name", "content", "cells"),
    [
        ("statistics.csv", HARNESS, [({"alias": "hostA"}, 1e-6), ({"alias": "hostB"}, 2e-6)]),
        ("run.json", json.dumps(IPERF3), [({"streams": 2}, 3.0)]),
        ("runs.json", json.dumps([IPERF3, BOTH]), [({"repetition": 2}, 3.0), (REVERSE, 1.0)]),
        ("log.txt", f"{json.dumps(UNREACHED)}{json.dumps(IPERF3)}", [({}, 3.0)]),
        ("stream.json", EVENTS * 2, [({"repetition": 2}, 3.0)]),
        ("src-cmd:10.0.0.1:1", f"Task URL:\n{json.dumps(PSCHEDULER)}\nNo more.", [({"streams": 4}, 1.0)]),
        ("sent.json", json.dumps(SENT), [({}, 2.0)]),
        ("result.json", json.dumps(PSCHEDULER["result"]), [({"streams": 1}, 1.0)]),
        ("up.flent.gz", gzip.compress(json.dumps(FLENT).encode(), mtime=0), [({"streams": 2}, 0.03), (UDP, 0.005)]),
        ("result-1.csv", K8S, [({"tool": "netperf"}, 1.0), ({"tool": "uperf"}, 2.0)]),
    ],
)  # fmt: skip
def test_results_of_other_programs_need_no_settings(
    tmp_path: Path, name: str, content: str | bytes, cells: list[tuple[dict[str, Any], float]]
) -> None:
    summary = read(tmp_path, content, name).summary
    for place, throughput in cells:
        at = {axis: place.get(axis, summary[axis].values[0]) for axis in summary.throughput.dims}
        assert float(summary.throughput.sel(at)) == pytest.approx(throughput)
    assert int((summary.status == 1).sum()) == len(cells) + (name in ("runs.json", "stream.json"))
    if name == "statistics.csv":  # of one stream, with latencies of half an RTT
        assert summary.streams == 1 and summary.rtt_loaded.max() == 60.001
    if name == "run.json":
        figures = summary.squeeze()[["rtt_loaded", "retransmits", "duration"]]
        assert [float(figure) for figure in figures.values()] == [0.5, 4, 3]
        assert summary.congestion_control == "bbr"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(IPERF3)[:-9], "JSON that breaks in line 1"),
        ('{"a": 1}', "JSON document 1 is skipped: of another program"),
        (
            json.dumps(UNREACHED),
            "given iperf3 document 1 is skipped: unable to connect, allowed: JSON with a res",
        ),
        (
            json.dumps(FLENT | {"metadata": {"NAME": "ping"}}),
            "flent document 1 is skipped: no series in Mbits",
        ),
        (json.dumps(SERVER), "a server does not know the rate at its client"),
        (json.dumps(IPERF3 | {"end": {"streams": [], "sum": {}}}), "no received rate"),
        (HARNESS.replace(",7\n", ",\n"), "its rows are intervals of one test"),
        (
            TABLE,
            "given nothing of a known program, allowed: .* A table needs settings: tpcsweep import SETTINGS.yaml",
        ),
    ],
)
def test_results_that_are_none_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read(tmp_path, content)


BUSY = "".join(f'{{"event":"{name}","data":{data}}}\n' for name, data in (("error", '"busy"'), ("end", "{}")))
SERVERS_BOTH = {
    "start": SERVER["start"],
    "end": BOTH["end"]
    | {"sum_received_bidir_reverse": DARK, "sum_sent_bidir_reverse": {"bits_per_second": 1e9}},
}
NAMED = IPERF3 | {"start": IPERF3["start"] | {"cookie": "abc"}}
NAMED_EVENTS = "".join(json.dumps({"event": key, "data": NAMED[key]}) + "\n" for key in NAMED)
RATELESS = IPERF3 | {"end": IPERF3["end"] | {"sum_received": {"bits_per_second": None, "seconds": 3}}}
HALF_FLENT = FLENT | {"metadata": FLENT["metadata"] | {"SERIES_META": {
    "UDP": {"UNITS": "Mbits/s", "MEAN_VALUE": 5}, "TCP": {"UNITS": "Mbits/s", "MEAN_VALUE": None},
}}}  # fmt: skip
FIRST_EVENT = EVENTS.splitlines()[0]


@pytest.mark.parametrize(
    ("content", "rates", "notes"),
    [
        (EVENTS + BUSY + EVENTS, [3, 3], ["iperf3 document 2 is skipped: busy"]),
        (BUSY + EVENTS, [3], ["iperf3 document 1 is skipped: busy"]),
        (f"{FIRST_EVENT}\n{EVENTS}", [3], ["iperf3 document 1 is skipped: it has no 'end'"]),
        (f"{FIRST_EVENT[:30]}\n{EVENTS}", [3], ["JSON document 1 is skipped: JSON that breaks in line 1: "]),
        (f"{FIRST_EVENT[:30]}{EVENTS}", [3], ["JSON document 1 is skipped: JSON that breaks in line 1: "]),
        (json.dumps(IPERF3) + json.dumps(IPERF3)[:-9], [3], ["JSON document 2 is skipped: JSON that breaks"]),
        ("[2026-11-01 10:00:00] begin\n" + json.dumps(IPERF3, indent=1), [3], []),
        (json.dumps([{"a": 1}, IPERF3]), [3], ["JSON document 1 is skipped: of another program"]),
        (json.dumps([RATELESS, IPERF3]), [3], ["iperf3 document 1 is skipped: forward: no rate"]),
        (json.dumps(HALF_FLENT), [0.005], ["flent document 1 is skipped: TCP: no rate"]),
        (json.dumps(SERVERS_BOTH), [3], ["iperf3 document 1 is skipped: reverse: a server does not know"]),
        (NAMED_EVENTS + json.dumps(NAMED), [3], ["iperf3 document 2 is skipped: its run is in an earlier doc"]),
    ],
)  # fmt: skip
def test_results_beside_failed_cut_and_repeated_ones_are_kept(
    tmp_path: Path, content: str, rates: list[float], notes: list[str]
) -> None:
    folded = read(tmp_path, content)
    found = folded.summary.throughput.values.ravel()
    assert found[np.isfinite(found)] == pytest.approx(rates)
    told = [note for note in import_notes(folded) if not note.startswith("rows alike")]
    assert [one[: len(other)] for one, other in zip(told, notes, strict=True)] == notes


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="needs iperf3")
def test_a_real_run_of_iperf3_is_read(tmp_path: Path) -> None:
    port = str(free_port())
    server = ["iperf3", "-s", "-p", port, "--forceflush"]
    client = ["iperf3", "-c", "127.0.0.1", "-p", port, "-t", "1", "-P", "2", "--json"]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as running:
        assert any("listening" in line for line in running.stdout)
        done = subprocess.run(client, capture_output=True, check=True, text=True, timeout=300)
        running.kill()
    summary = read(tmp_path, done.stdout).summary
    end = json.loads(done.stdout)["end"]
    assert summary.throughput.values.ravel() == pytest.approx(end["sum_received"]["bits_per_second"] / 1e9)
    assert summary.streams.values.tolist() == [2]


def test_every_figure_can_be_imported_with_the_run_of_each_measurement(tmp_path: Path) -> None:
    rows = TABLE.splitlines()
    table = "\n".join(f"{row},{'run' if not at else at % 2 + 1}" for at, row in enumerate(rows))
    units = {name: variable_dimension(name).base for name in SUMMARY}
    rates = dict.fromkeys(("throughput", "throughput_low", "throughput_high"), "Gbit/s")
    variables = {name: {"column": "rate", "unit": unit} for name, unit in (units | rates).items()}
    variables["run"] = {"column": "run"}
    axes = {"site": {"column": "n"}}  # no parameter: it has words
    summary = brought(tmp_path, table, axes=axes, variables=variables, confidence=0.95).summary
    assert summary.site.values.tolist() == ["8", "1"]
    assert sorted(observe(summary).frame["run"]) == [0, 0, 1, 1, 1]
    assert all(summary[name].notnull().sum() == 5 for name in SUMMARY)


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    for name in ("a.parquet", "folder.csv/within"):
        write_text(tmp_path / name, "nothing of the kind")
    for name in ("a.parquet", "folder.csv"):
        with pytest.raises(ConfigurationError, match="allowed: a table with a name for each column"):
            read_table(tmp_path / name)


def test_a_grid_of_values_that_never_repeat_is_refused(tmp_path: Path) -> None:
    rows = "\n".join(f"curl,{n},{n / 1000},1,DONE" for n in range(1, 1200))
    axes = {name: {**axis, "group": ()} for name, axis in SETTINGS["axes"].items()}
    message = refused(tmp_path, f"tool,n,ping,rate,state\n{rows}\n", axes=axes)
    assert "1437601 cells (1 tool × 1199 streams × 1199 rtt × 1 repetition) for 1199 rows" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axes": {"rtt": {"column": "ping"}}}, "axes.rtt.unit: given nothing, allowed: one of ns, us, ms, s"),
        ({"axes": {"rtt": {"colum": "p"}}}, "axes.rtt.colum: given an unknown key, allowed: column? one of column"),
        ({"axes": {"tool": {"column": "t", "unit": "s"}}}, "axes.tool.unit: given 's', allowed: one of none"),
        ({"axes": {"tool": {"column": "t", "group": "5 %"}}}, "axes.tool.group: given '5 %', allowed: none"),
        ({"axes": {"rtt": {"column": "p", "unit": "s", "group": "5 MB"}}}, "axes.rtt.group: given '5 MB'"),
        ({"axes": {"rtt": {"column": "p", "unit": "s", "group": ["5 %", "6 %"]}}}, "one share, one distance"),
        ({"axes": {"throughput": RATE}}, "axes.throughput: given 'throughput', allowed: one of pair, source"),
        ({"variables": {"speed": RATE}}, "variables.throughput: given nothing"),
        ({"variables": SETTINGS["variables"] | {"speed": RATE}}, "given an unknown variable"),
        ({"variables": SETTINGS["variables"] | {"throughput_low": RATE | {"unit": "Gbit/s"}}}, "both or none of them"),
        ({"fixed": {"bandwidth": "10 ms"}}, "fixed.bandwidth: given '10 ms', allowed: a rate such as"),
        ({"fixed": {"streams": 4}}, "fixed.streams: given a parameter that is an axis"),
    ],
)  # fmt: skip
def test_a_wrong_mapping_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (tmp_path / "mine.yaml").write_text(json.dumps(SETTINGS | change))
    with pytest.raises(ConfigurationError) as error:
        load_import(f"{tmp_path}/mine.yaml", ROOT)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{tmp_path}/mine.yaml: ")
    (tmp_path / "demo.yaml").write_text(json.dumps(SETTINGS | {"file": "x.csv"}))
    with pytest.raises(ConfigurationError, match=r"import: given .*, allowed: a name that no sweep has"):
        load_import(f"{tmp_path}/demo.yaml", ROOT)


def test_a_grid_that_is_too_large_names_its_largest_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_import, "MOST_CELLS", 20)
    axes = {"site": {"column": "site"}, "rtt": {"column": "rtt", "unit": "ms"}}
    alike = "site,rtt,Rate\n" + "a,1,1\n" * 17 + "b,2,1\n"
    for content, told in (
        (alike, "largest axis is repetition .*Use fewer axes, or fewer rows"),
        ("site,rtt,Rate\n" + "".join(f"a,{n},1\nb,{n},1\n" for n in range(10)) + "c,1,1\n",
         "largest axis is rtt"),
        ("site,rtt,Rate\n" + "".join(f"{n % 5},{n},1\n" for n in range(9)),
         r"45 cells \(5 site × 9 rtt.*largest axis is rtt. Use fewer axes, `group` for its values, or fewer rows"),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=told):
            odd(tmp_path, content, axes=axes)
