# SPDX-License-Identifier: Apache-2.0
"""What a cell says of its own trustworthiness, on real servers."""

import itertools
import sys

import pytest
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.measure.readings import Sampler
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.xrootd.monitoring import Copy

from tests.support.sites import MIB, cell, files, seconds, whole
from tests.support.workflow import background

STREAMS, FILES, SIZE = 2, 3, 2 * MIB


@pytest.mark.parametrize(("tool", "copy_mode"), [("gfal-copy", "pull"), ("curl", "push")])
def test_a_cell_until_files_has_each_of_them_with_its_moments_and_a_record_of_xrootd(
    clusters: NetnsSite, monkeypatch: pytest.MonkeyPatch, tool: str, copy_mode: str
) -> None:
    monkeypatch.setattr("tpcsweep.measure.transfers.LATE", 120.0)  # a busy machine delays records
    found = whole(clusters, files(FILES), tool=tool, copy_mode=copy_mode, streams=STREAMS, file_size=SIZE)
    moved, summary = found["transfers"], found["summary"]
    expected = sorted(itertools.product(range(STREAMS), range(FILES)))
    assert sorted(zip(moved["stream"], moved["number"], strict=True)) == expected
    assert moved["size"] == moved["xrootd_size"] == [SIZE] * STREAMS * FILES
    assert set(moved["xrootd_code"]) == {0}
    assert set(moved["xrootd_direction"]) == {copy_mode}
    assert summary["xrootd_transfers"] == summary["transfers"] == STREAMS * FILES
    assert summary["xrootd_share"] == 1
    assert summary["fairness"] == pytest.approx(1, abs=0.02)  # each stream brings as much, by the rule
    assert not {"files_missing", "monitoring_disagrees"} & set(found["flags"])
    # On a busy machine a first byte may be noticed after the last one, and a server may have answered its client
    # before it notes that it has ended.
    later = (("xrootd_begin", name) for name in ("xrootd_end", "end", "first_byte"))
    for first, second in (("start", "xrootd_begin"), *later):
        for before, after in zip(moved[first], moved[second], strict=True):
            assert before <= after + 0.01, (first, second)  # clocks are read a little apart


def test_a_cell_of_fixed_time_takes_that_and_counts_what_is_under_way(clusters: NetnsSite) -> None:
    found = whole(clusters, seconds(5), tool="curl", streams=3, file_size=512 * MIB)
    summary = found["summary"]
    assert summary["transfers"] == 0  # three files of half a gigabyte take a minute
    assert summary["xrootd_share"] is None
    assert 4.7 < summary["duration"] < 15  # and no other rule's time
    assert 1 / 3 < summary["fairness"] <= 1
    # Of 0.2 Gbit/s, and what was buffered.
    assert 0 < summary["throughput_average"] <= summary["throughput_max"] < 1


def test_a_cell_that_runs_out_of_time_says_that_files_are_missing(clusters: NetnsSite) -> None:
    how = Measurement(until="files", files=1000, max_time=5)  # for a first file on a busy machine
    found = cell(clusters, how, tool="curl", streams=1, file_size=SIZE)
    assert found["status"] == "ok", found["message"]
    assert "files_missing" in found["flags"]
    assert 0 < found["summary"]["transfers"] < 1000


def test_a_record_that_is_lost_is_flagged(clusters: NetnsSite, monkeypatch: pytest.MonkeyPatch) -> None:
    original = clusters.monitor.copies

    def deaf_to_the_fourth() -> list[Copy]:
        return [copy for copy in original() if not copy.name.endswith(".3")]

    monkeypatch.setattr(clusters.monitor, "copies", deaf_to_the_fourth)
    found = whole(clusters, files(6), tool="curl", streams=1, file_size=MIB)
    assert "monitoring_disagrees" in found["flags"]
    assert found["summary"]["xrootd_share"] == pytest.approx(5 / 6, abs=1e-5)


def test_few_readings_cover_the_time_of_a_cell(clusters: NetnsSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "sampler", lambda interval: Sampler(clusters.read, interval, most=8))
    found = whole(clusters, seconds(2), tool="curl", streams=2, file_size=SIZE)
    times = found["samples"]["time"]
    assert len(times) < 8
    assert times[-1] > 1.2
    arrived = found["summary"]["throughput_average"] * found["summary"]["duration"] / 8e-9
    ended = sum(found["transfers"]["size"])
    # There is what is under way, and what ended after the last reading.
    assert 0.5 * ended < arrived < ended + 3 * SIZE


def test_a_cell_beside_busy_processes_is_disturbed(clusters: NetnsSite) -> None:
    loop = [sys.executable, "-c", "while True: pass"]
    with background(loop), background(loop):
        found = whole(clusters, seconds(3), tool="curl", streams=2, file_size=SIZE)
    summary = found["summary"]
    assert "disturbed" in found["flags"]
    assert 0.1 < summary["machine_others"] <= summary["machine_cpu"]
    assert summary["machine_work"] > 0
