# SPDX-License-Identifier: Apache-2.0
"""What says how far a cell can be trusted: monitoring, first bytes, transfers, fairness, bounded histories."""

import math
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tpcsweep.common.files import creating_folder, note_checksum, replacing_file
from tpcsweep.data import folding, tables
from tpcsweep.deploying.xrootd import monitoring
from tpcsweep.deploying.xrootd.monitoring import Copy, parse_datagram
from tpcsweep.measuring import transfers
from tpcsweep.measuring.readings import sampled_series
from tpcsweep.measuring.rounds import FEWEST_ROUNDS, by_rounds, half_width, independent_rounds
from tpcsweep.measuring.sampler import LocalTargets, Sampler, ThinnedHistory
from tpcsweep.measuring.steady import analyse
from tpcsweep.measuring.transfer_files import Arrival, DestinationFiles, FirstBytes, reserve_memory
from tpcsweep.measuring.transfers import CellTransfers

from tests.support import synthetic
from tests.support.readings import readings
from tests.support.records import RECORD, datagram
from tests.support.workflow import wait_until

Patch = pytest.MonkeyPatch
BEGAN = 100.0


def ended(stream: int, number: int, start: float, end: float, failure: str | None = None) -> dict[str, Any]:
    names = {"stream": stream, "number": number, "name": f"c.{stream}.{number}"}
    return {"event": "end", **names, "start": BEGAN + start, "end": BEGAN + end, "failure": failure}


def copied(name: str, begin: float = 1.0, size: int = 100, code: int = 0) -> Copy:
    return Copy(name, BEGAN + begin, BEGAN + begin + 1, 1, size, code, "pull")


def table(**columns: list[float]) -> dict[str, np.ndarray]:
    return {name: np.array(values, float) for name, values in columns.items()}


NONE = table(stream=[], first_byte=[], end=[], size=[])


def test_a_record_is_read_and_one_of_the_root_protocol_skipped() -> None:
    [copy] = parse_datagram(datagram({**RECORD, "TPC": "xroot", "Size": 0}, RECORD), float)
    assert copy.begin % 60 == pytest.approx(43.060931, abs=1e-5)
    assert copy.end - copy.begin == pytest.approx(1.199069, abs=1e-5)
    assert copy.name == "c7.3.12"  # without its token
    assert (copy.connections, copy.size, copy.code, copy.direction) == (4, 1024, 0, "pull")
    assert len(parse_datagram(datagram(RECORD, RECORD), float)) == 2
    assert parse_datagram(datagram(), float) == []


@pytest.mark.parametrize("wrong", [b"no JSON", datagram({"TPC": "http"}), datagram({**RECORD, "Xeq": None})])
def test_what_is_no_record_is_refused_without_its_tokens(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="not a datagram of XRootD's TPC monitoring") as refused:
        parse_datagram(wrong, float)
    assert "MDAx" not in str(refused.value)


def test_the_clock_of_records_is_that_of_readings() -> None:
    before, told, after = time.monotonic(), monitoring.clock()(time.time()), time.monotonic()
    assert 2 * before - after - 0.01 <= told <= 2 * after - before + 0.01  # however long each of these took


def test_transfers_and_records_are_joined_by_the_name_of_the_file_whichever_comes_first() -> None:
    found = CellTransfers("c", BEGAN, 3)
    found.add_copy(copied("c.0.0"))
    found.add(ended(0, 0, 0.5, 2.5), Arrival(BEGAN + 1.25, 100))
    found.add(ended(1, 0, 0.5, 2.5), Arrival(None, 0))
    found.add_copy(copied("c.1.0", size=90))
    for name, begin in (("c1.2.0", 1.0), ("c.2.0", -1.0)):  # of another cell, and of before this one
        found.add_copy(copied(name, begin))
    found.add(ended(2, 0, 0.5, 2.5))
    listed = found.to_columns()
    assert listed["xrootd_size"] == [100, 90, None]
    assert listed["first_byte"] == [1.25, None, None]
    assert listed["xrootd_begin"] == [1.0, 1.0, None]
    assert listed["xrootd_direction"] == ["pull", "pull", ""]


def test_a_record_is_waited_for_only_as_long_as_it_can_come() -> None:
    found = CellTransfers("c", BEGAN, 3)
    assert found.overdue == -math.inf
    found.add(ended(0, 0, 0, 2.0))
    found.add(ended(1, 0, 0, 1.0, failure="exit code 5"))
    assert found.overdue == BEGAN + 2.0 + monitoring.LATE
    found.add_copy(copied("c.0.0"))
    assert found.overdue == -math.inf  # nobody waits for those of transfers that failed


def test_a_cell_lists_so_many_transfers_and_no_more_and_failures_keep_their_words(monkeypatch: Patch) -> None:
    monkeypatch.setattr(transfers, "MOST_ROWS", 10)
    found = CellTransfers("c", BEGAN, 3)
    for number in range(25):
        found.add(ended(0, number, number, number + 1, "exit code 5" if number > 15 else None))
    listed = found.to_columns()
    assert listed["number"] == list(range(0, 25, 3))
    assert listed["ok"] == [True] * 6 + [False] * 3
    assert listed["message"] == [""] * 6 + ["exit code 5"] * 3
    found.cut(BEGAN + 25)
    assert (figures := found.summary(5.5, files=True))["transfers"] == 16
    assert (figures["transfers_failed"], figures["length_files"]) == (9, 11 / 3)
    assert found.most_frequent_message() == "9 × exit code 5"
    assert not found.exhausted
    found.add({"event": "exhausted"})
    assert found.exhausted


def test_files_that_are_there_are_transfers_that_have_not_ended() -> None:
    present = {"ready": Arrival(None, 1), "c.4.2": Arrival(BEGAN + 1, 50), "c0.1.1": Arrival(None, 7)}
    found = CellTransfers("c", BEGAN, 5)
    found.cut(BEGAN + 5, present)
    assert found.summary(0, files=True)["fairness"] == pytest.approx(1 / 5)  # one of five streams has bytes
    assert found.moving(np.arange(6.0), 0, 0) == pytest.approx(np.array([0, 1, 1, 1, 1]) / 5)


@pytest.mark.parametrize(
    ("streams", "own", "common", "least"), [(1, 0.3, 0, 0.93), (8, 0.2, 0, 0.93), (8, 0.1, 0.2, 0.9)]
)
def test_intervals_of_few_files_hold_the_truth(streams: int, own: float, common: float, least: float) -> None:
    generator = np.random.default_rng(4)
    held, sizes = [], np.ones((streams, 7))
    for _ in range(400):
        scatter = 1 + own * generator.normal(size=(streams, 7)) + common * generator.normal(size=7)
        seconds = np.clip(scatter, 0.2, None)
        half, freedom = half_width(seconds, sizes, 0.95)
        mean = (7 / seconds.sum(axis=1)).sum()
        held.append(abs(mean - streams) <= half * mean)
        assert freedom in (6, 6 * streams)
    assert np.mean(held) >= least


def test_few_files_are_too_few_and_of_many_batches_count() -> None:
    cell = analyse(np.random.default_rng(1).normal(1, 0.01, 400), 0.1, 0.95)
    for files, short, freedom in (
        (7, True, (5, 10)),
        (8, False, (6, 12)),
        (16, False, (7,)),
        (1, False, (7,)),
    ):
        found = CellTransfers("c", BEGAN, 2)
        for number in range(files):
            for stream in range(2):
                event = ended(stream, number, number, number + 1 + 0.1 * math.sin(9 * number + 2 * stream))
                found.add(event, Arrival(None, 100))
        whole = by_rounds(cell, *found.rounds(), 0.95)
        assert (whole.mean, whole.too_short, whole.freedom in freedom) == (cell.mean, short, True)
        assert math.isnan(whole.correlation) == short  # otherwise all cells of a sweep decide


@pytest.mark.parametrize(("streams", "files"), [(1, 40), (4, 8), (4, 32), (16, 8)])
def test_files_that_say_too_little_about_common_scatter_are_flagged(streams: int, files: int) -> None:
    """Slow scatter of 20 % that all streams share, and 10 % of each file: their intervals are too narrow."""
    generator, flagged = np.random.default_rng(5), {0.0: list[bool](), 0.2: list[bool]()}
    for _ in range(100):
        common = generator.normal(size=files + 20)
        for step in range(1, common.size):
            common[step] = 0.8 * common[step - 1] + 0.6 * common[step]
        for slow, found in flagged.items():
            seconds = np.exp(slow * common[21:] + 0.1 * generator.normal(size=(streams, files - 1)))
            found.append(independent_rounds(seconds, np.ones(seconds.shape)) < FEWEST_ROUNDS)
    assert np.mean(flagged[0.0]) <= 0.2
    assert np.mean(flagged[0.2]) >= 0.7
    few = np.exp(0.1 * generator.normal(size=(1, 7)))
    assert independent_rounds(few, np.ones(few.shape)) < FEWEST_ROUNDS, (
        "a single stream, as many as there are"
    )


@given(st.lists(st.floats(1e-3, 1e15), min_size=1, max_size=50), st.integers(0, 100))
def test_fairness_is_between_one_share_and_all(rates: list[float], idle: int) -> None:
    nothing, count = [0.0] * idle, len(rates) + idle
    assert 1 / count - 1e-9 <= transfers.fairness(rates + nothing) <= 1 + 1e-9
    assert transfers.fairness(rates[:1] * len(rates) + nothing) == pytest.approx(len(rates) / count)
    assert math.isnan(transfers.fairness(nothing))


ROWS = st.tuples(st.integers(0, 4), st.floats(0, 50), st.floats(0.001, 50), st.integers(0, 10**9))


@given(st.lists(ROWS, max_size=30), st.floats(0, 100))
def test_bytes_of_streams_add_up(rows: list[tuple[int, float, float, int]], middle: float) -> None:
    stream, start, took, size = np.array(rows, float).reshape(-1, 4).T
    moved = {"stream": stream, "start": start, "first_byte": start, "end": start + took, "size": size}
    spans = (0, 100), (0, middle), (middle, 100)
    whole, before, after = (transfers.stream_bytes(moved, NONE, 5, *span) for span in spans)
    assert whole.sum() == pytest.approx(size.sum())
    assert np.allclose(whole, before + after)


def test_a_transfer_whose_first_byte_nobody_saw_counts_from_its_start() -> None:
    moved = table(stream=[0], start=[2], first_byte=[math.nan], end=[4], size=[100])
    rest = table(stream=[1], first_byte=[math.nan], end=[4], size=[60])
    assert transfers.stream_bytes(moved, rest, 2, 3, 4).tolist() == [50, 60]


def test_files_move_from_their_first_bytes_to_their_ends_but_for_the_time_in_which_windows_grow() -> None:
    # The last one failed.
    moved = table(first_byte=[1, math.nan, math.nan], start=[0.5, 2, 1], end=[3, 4, 3], size=[9, 9, 0])
    rest = table(first_byte=[3.5, math.nan, math.nan], end=[5, 5, 5], size=[9, 9, 0])
    how = {"times": np.arange(6.0), "growth": 0.5, "ramp": 1.5}
    # Seconds in which each moves: 1.5 to 3, 3.5 to 4, 4 to 5, and 0 to 5.
    found = transfers.moving_share(moved, rest, 4, **how)
    assert found == pytest.approx(np.array([1, 1.5, 2, 1.5, 2]) / 4)
    # The client may hear late that XRootD is done.
    moved |= table(xrootd_end=[2.5, 3.8, math.nan])
    found = transfers.moving_share(moved, rest, 4, **how)
    assert found == pytest.approx(np.array([1, 1.5, 1.5, 1.3, 2]) / 4)
    short = table(first_byte=[1], start=[1], end=[1.2], size=[9])
    assert not transfers.moving_share(short, NONE, 1, **how).any()


def test_monitoring_agrees_when_each_byte_is_in_both_and_a_lost_record_shows() -> None:
    moved = table(ok=[1, 1, 0], end=[1, 9, 2], size=[100, 100, 30])
    for first, last, heard, share in (
        (100, 100, 10, 1),
        (math.nan, 100, 10, 0.5),
        (100, math.nan, 10, 1),  # the record may still come
        (100, math.nan, 9 + monitoring.LATE, 0.5),
    ):
        seen = table(xrootd_size=[first, last, math.nan])
        assert transfers.monitored_share(moved | seen, until=heard) == share
    by_client = table(ok=[1], end=[1], size=[100], xrootd_size=[math.nan])  # no third-party copy
    assert math.isnan(transfers.monitored_share(by_client, until=10))


@given(st.integers(0, 500), st.integers(2, 40))
@example(8, 8)
def test_a_history_is_bounded_even_and_keeps_the_first_and_rates_stay_the_same(count: int, most: int) -> None:
    history: ThinnedHistory[int] = ThinnedHistory(most)
    for number in range(count):
        history.add(number)
    kept = history.entries()
    assert len(kept) <= most
    assert kept == list(range(0, count, history.stride))
    assert len(kept) >= most // 2 if count > most else history.stride == 1
    if kept:
        read = readings({"time": 0.1 * n, "goodput": n * 12_500_000} for n in kept)
        found = sampled_series(read, 0.1 * history.stride)
        assert np.allclose(found["goodput"], 1.0)
        assert np.allclose(np.diff(found["time"]), 0.1 * history.stride)


def test_a_sampler_that_is_full_says_what_its_interval_has_become() -> None:
    targets = LocalTargets({"dst1": lambda: {"time": time.monotonic()}})
    with Sampler([targets], 0.002, most=8) as sampler:
        wait_until(lambda: sampler.interval >= 0.004, "it keeps every other reading")
    assert len(sampler.readings().tables["dst1"].rows) <= 8


def test_the_first_byte_of_a_file_is_noticed_and_not_its_making(tmp_path: Path) -> None:
    def noticed(name: str) -> None:
        wait_until(lambda: first.times.get(name) is not None, "its first byte is noticed")

    first = FirstBytes(tmp_path)
    files = DestinationFiles(tmp_path, first)
    with (tmp_path / "a").open("wb") as file:
        time.sleep(0.2)
        assert first.times.get("a") is None
        before = time.monotonic()
        file.write(b"x" * 10)
        file.flush()
        noticed("a")
        file.write(b"y" * 10)
    (tmp_path / "at once").write_bytes(b"x")
    noticed("at once")
    when, size = files.remove("a")
    assert when is not None and when >= before
    assert size == 20
    assert first.times.get("a") is None
    assert files.present() == {}  # it shows what was sampled
    files.arrived()
    assert files.present()["at once"].size == 1
    first.close()


def test_a_later_write_does_not_delay_the_first_byte_of_a_file_that_was_made_with_it(tmp_path: Path) -> None:
    folder, made = tmp_path / "watched", tmp_path / "made"
    folder.mkdir()
    made.write_bytes(b"x")
    first = FirstBytes(folder)
    times = []
    for name in ("a", "b"):  # events come in order: that of b after the write to a
        (folder / name).hardlink_to(made)
        wait_until(lambda name=name: first.times.get(name) is not None, "its first byte is noticed")
        times.append(first.times.get("a"))
        with (folder / "a").open("ab") as file:
            file.write(b"y")
    first.close()
    assert times[0] == times[1] == first.times.get("a")


AXES = {"streams": [1, 2], "repetition": [1]}


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> folding.Folded:
    return folding.fold(synthetic.write_sweep(tmp_path_factory.mktemp("sweep"), AXES), AXES)


def test_a_table_of_transfers_ends_with_sum_and_mean(groups: folding.Folded) -> None:
    cell = tables.fastest(groups.summary, groups.transfers)
    found = tables.transfers_of_cell(groups.transfers, cell)
    assert list(found.index) == ["1", "2", "sum", "mean"]
    assert found.loc["sum", "size (B)"] == 2**28
    assert found.loc["sum", "rate (Gbit/s)"] == pytest.approx(2**28 * 8e-9 / 4)
    assert found.loc["mean", "total (s)"] == pytest.approx((4 + 4.9) / 2)
    assert found.loc["1", ["startup (s)", "sending (s)"]].tolist() == [0.5, 3.5]
    assert found.loc["2", "message"] == "exit code 5" and np.isnan(found.loc["2", "startup (s)"])
    nothing = groups.transfers.isel(transfer=[])
    assert tables.fastest(groups.summary, nothing) is None and tables.transfer_means(nothing).empty
    means = tables.transfer_means(groups.transfers)
    assert means[["streams", "transfers"]].values.tolist() == [[1, 1], [2, 1]]


def test_the_sum_of_rates_is_that_of_streams_which_ran_at_a_time(groups: folding.Folded) -> None:
    columns = {"stream": [0, 0, 1], "start": [0, 1, 0], "total": [1, 1, 2], "size": [10**9] * 3}
    three = groups.transfers.isel(transfer=[0, 0, 0])
    made = three.assign({name: ("transfer", values) for name, values in columns.items()})
    assert tables.transfers_of_cell(made, 0).loc["sum", "rate (Gbit/s)"] == pytest.approx(8 + 4)


def test_bytes_that_arrived_never_become_fewer_and_a_file_that_servers_need_is_kept(tmp_path: Path) -> None:
    files = DestinationFiles(tmp_path)
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert files.arrived() == 100
    (tmp_path / "a").write_bytes(b"")  # a server that starts again
    assert files.arrived() == 100
    (tmp_path / "a").unlink()  # a server that removes what failed
    (tmp_path / "b").write_bytes(b"x" * 10)
    assert files.arrived() == 110
    (tmp_path / "unseen").write_bytes(b"x" * 7)
    for name in ("b", "unseen", "never written"):
        files.remove(name)
    assert files.arrived() == 117
    for name in ("ready", "c"):
        (tmp_path / name).write_bytes(b"x")
    files.clear(keep="ready")
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]
    assert files.arrived() == 119


def test_memory_that_is_held_is_free_but_for_a_page_in_each_mebibyte() -> None:
    memory = [disk.mountpoint for disk in psutil.disk_partitions(all=True) if disk.fstype == "tmpfs"]
    free = (path for path in memory if os.access(path, os.W_OK))
    at = next(path for path in free if psutil.disk_usage(path).free > 64 << 20)
    with tempfile.TemporaryDirectory(dir=at) as folder:
        held = Path(folder) / "held"
        reserve_memory(held, (32 << 20) - 1)
        assert held.stat().st_blocks * 512 == 32 * os.sysconf("SC_PAGE_SIZE")


def test_the_checksum_of_a_file_is_one_that_sha256sum_reads(tmp_path: Path) -> None:
    path = tmp_path / "dataset.nc"
    path.write_bytes(b"whole")
    note_checksum(path)
    subprocess.run(["sha256sum", "--check", "dataset.nc.sha256"], cwd=tmp_path, check=True)


def test_a_folder_is_there_once_it_is_whole(tmp_path: Path) -> None:
    made = tmp_path / "in/made"
    with creating_folder(made) as part:
        (part / "a").write_text("whole")
        assert not made.exists()
    assert (made / "a").read_text() == "whole"
    assert [*made.parent.iterdir()] == [made]


def test_a_full_disk_is_reported_for_every_library(tmp_path: Path) -> None:
    path = tmp_path / "dataset.nc"
    path.write_text("old")
    with pytest.raises(OSError, match=r"No space left.*nc"), replacing_file(path) as part:
        part.symlink_to("/dev/full")
        raise RuntimeError("NetCDF: HDF error")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["dataset.nc"]
