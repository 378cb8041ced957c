"""What a cell says of its own trustworthiness, on real servers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tpcsweep.measure.monitoring import Copy
from tpcsweep.measure.readings import Sampler
from tpcsweep.sweep import Measurement
from tpcsweep.testbeds.netns.site import Site

from tests.support.sites import MIB, cell, site_of

pytestmark = pytest.mark.real

STREAMS, FILES, SIZE = 2, 3, 8 * MIB
BY_FILES = Measurement(until="files", files=FILES, max_time=60)


@pytest.fixture(scope="module")
def two_origins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two origins on each side, so that four servers tell of copies."""
    with site_of(tmp_path_factory.mktemp("trust"), rtt=4, bandwidth=1, origins=2, tcp_buffer=8 * MIB) as site:
        yield site


@pytest.mark.parametrize(("tool", "copy_mode"), [("gfal-copy", "pull"), ("curl", "push")])
def test_a_cell_until_files_has_each_of_them_and_a_record_of_xrootd_for_each(
    two_origins: Site, tool: str, copy_mode: str
) -> None:
    found = cell(two_origins, BY_FILES, tool=tool, copy_mode=copy_mode, streams=STREAMS, file_size=SIZE)
    assert found["status"] == "ok"
    moved, summary = found["transfers"], found["summary"]
    expected = sorted(itertools.product(range(STREAMS), range(FILES)))
    assert sorted(zip(moved["stream"], moved["number"], strict=True)) == expected
    assert moved["size"] == moved["xrootd_size"] == [SIZE] * STREAMS * FILES
    assert set(moved["xrootd_code"]) == {0}
    assert set(moved["xrootd_direction"]) == {copy_mode}
    assert summary["xrootd_transfers"] == summary["transfers"] == STREAMS * FILES
    assert summary["xrootd_share"] == 1
    assert summary["fairness"] == pytest.approx(1, abs=0.02)  # each stream brings as much, by the rule
    assert not {"files_missing", "monitoring_disagrees", "transfers_failed"} & set(found["flags"])


def test_the_moments_of_a_transfer_are_in_their_order(two_origins: Site) -> None:
    found = cell(two_origins, BY_FILES, tool="curl", streams=STREAMS, file_size=SIZE)["transfers"]
    moments = ("start", "xrootd_begin", "first_byte", "xrootd_end", "end")
    for row in zip(*(found[name] for name in moments), strict=True):
        for before, after in itertools.pairwise(row):
            assert before <= after + 0.01  # clocks are read a little apart


def test_a_cell_of_fixed_time_takes_that_and_counts_what_is_under_way(two_origins: Site) -> None:
    how = Measurement(until="seconds", seconds=3)
    found = cell(two_origins, how, tool="curl", streams=3, file_size=512 * MIB)
    summary = found["summary"]
    assert found["status"] == "ok"
    assert summary["transfers"] == 0  # three files of half a gigabyte take 12 s
    assert summary["xrootd_share"] is None
    assert 2.5 < summary["duration"] < 6
    assert 1 / 3 < summary["fairness"] <= 1
    assert 0 < summary["throughput_average"] <= summary["throughput_max"] < 1.1


def test_a_cell_that_runs_out_of_time_says_that_files_are_missing(two_origins: Site) -> None:
    how = Measurement(until="files", files=1000, max_time=2)
    found = cell(two_origins, how, tool="curl", streams=1, file_size=SIZE)
    assert found["status"] == "ok"
    assert "files_missing" in found["flags"]
    assert 0 < found["summary"]["transfers"] < 1000


def test_a_record_that_is_lost_is_flagged(two_origins: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    original = two_origins.monitor.copies

    def deaf_to_the_fourth() -> list[Copy]:
        return [copy for copy in original() if not copy.name.endswith(".3")]

    monkeypatch.setattr(two_origins.monitor, "copies", deaf_to_the_fourth)
    how = Measurement(until="files", files=6, max_time=60)
    found = cell(two_origins, how, tool="curl", streams=1, file_size=MIB)
    assert "monitoring_disagrees" in found["flags"]
    assert found["summary"]["xrootd_share"] == pytest.approx(5 / 6, abs=1e-5)


def test_a_cell_with_room_for_few_readings_covers_its_time_with_them(
    two_origins: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_origins, "sampler", lambda interval: Sampler(two_origins.read, interval, most=16))
    how = Measurement(until="seconds", seconds=4)
    found = cell(two_origins, how, tool="curl", streams=2, file_size=SIZE)
    times = found["samples"]["time"]
    assert found["status"] == "ok"
    assert len(times) < 16
    assert times[-1] > 3
    arrived = found["summary"]["throughput_average"] * found["summary"]["duration"] / 8e-9
    ended = sum(found["transfers"]["size"])
    assert (
        0.5 * ended < arrived < ended + 3 * SIZE
    )  # what is under way, and what ended after the last reading
