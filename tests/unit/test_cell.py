# SPDX-License-Identifier: Apache-2.0
"""The life of a cell, against a deployment in memory and a clock that only moves when somebody sleeps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partialmethod
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest
from tpcsweep.common.errors import BrokenError
from tpcsweep.data.flags import BROKEN
from tpcsweep.data.variables import SUMMARY
from tpcsweep.deploying.xrootd.monitoring import LATE, Copy
from tpcsweep.measuring import cell
from tpcsweep.measuring.client.client_process import Event, ToolRefusedError
from tpcsweep.measuring.limits import growth_seconds
from tpcsweep.measuring.sampler import Readings
from tpcsweep.measuring.transfer_files import Arrival
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement

from tests.support.readings import readings

Patch = pytest.MonkeyPatch
Measured = Callable[..., tuple[dict[str, Any], "MemorySite"]]
RATE = 125_000_000
"""Bytes per second: 1 Gbit/s, which is the path's."""
WANTED = Parameters(streams=2, file_size=RATE // 10, rtt=10, bandwidth=1.1)
SECONDS = WANTED.file_size * WANTED.streams / RATE
"""That a file takes: both streams share the path."""


class Clock(SimpleNamespace):
    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class MemorySite:
    clock: Clock
    wobble: float = 0.0
    """Seconds of bytes that come early and late by turns."""
    bytes_end: float = math.inf
    """Seconds after which no byte arrives."""
    hang: float = math.inf
    """Seconds after which no transfer ends."""
    well_until: float = math.inf
    """Seconds after which transfers fail."""
    broken: dict[str, float] = field(default_factory=dict)
    """Seconds after which a method finds the deployment broken."""
    refused: str = ""
    path_slow: bool = False
    bandwidth_declared: bool = False
    first_byte: float = 0.0
    """Seconds from a file's start to its first byte."""
    buffered: float = 0.0
    """Seconds of bytes that buffers take in the first two seconds, and give back until the twentieth."""
    files: float = math.inf
    """Files of each stream, after which it is finished."""
    records: bool | None = True
    """Whether records of copies come; None: nothing monitors."""
    silent: float = math.inf
    """Seconds after which neither events nor records come until the cell's end."""
    told: int = 0
    stopped: bool = False
    sampling: bool = False
    interval: float = 0.1
    rtt_idle, bandwidth_found, folders = 10.0, 1.1, ("/source", "/destination")
    client_cores = 2.0

    @property
    def spent(self) -> float:
        return self.clock.now - Clock.now

    def __enter__(self) -> Self:
        self.sampling = True
        return self

    def __exit__(self, *_: object) -> None:
        self.sampling = False

    def _reading(self, spent: float) -> dict[str, Any]:
        payload = round(RATE * (min(spent, self.bytes_end) + self.wobble * math.sin(50 * spent) ** 2))
        bytes_ = {"goodput": payload, "source_throughput": payload, "wire_throughput": round(1.05 * payload)}
        if self.buffered:
            held = np.interp(spent, [0, 2, 20], [0, self.buffered, 0])
            bytes_["wire_throughput"] = payload + round(RATE * held)
        cpu = {"source_cpu": (0.5 * spent, 0.25 * spent), "destination_cpu": spent}
        machine = {"machine_cpu": spent, "machine_total": 2 * spent, "machine_others": 0.0}
        return {"time": Clock.now + spent, **bytes_, **cpu, **machine, "path_drops": 30 * spent}

    def readings(self) -> Readings:
        if self.sampling:
            self._ask("readings")
        count = math.floor(self.spent / self.interval + 1e-6) + 1
        looks = [self.interval * n for n in range(count)]
        if not self.sampling and self.spent > looks[-1] + 1e-6:
            looks.append(self.spent)  # the last look is at the cell's end
        return readings(map(self._reading, looks))

    def run(self, _: object) -> None:
        if self.refused:
            raise ToolRefusedError(self.refused)

    def events(self) -> list[Event]:
        found = []
        if self.spent >= self.silent and not self.stopped:
            return found
        while (end := (self.told + 1) * SECONDS) <= min(self.spent, self.hang):
            number = self.told
            event: Event = {"event": "end", "number": number, "start": Clock.now + number * SECONDS}
            event |= {"end": Clock.now + end, "failure": None if end <= self.well_until else "refused"}
            names = enumerate(f"p.{stream}.{number}" for stream in range(WANTED.streams))
            found += [{**event, "stream": stream, "name": name} for stream, name in names]
            self.told += 1
            if self.told == self.files:
                return [*found, {"event": "finished"}]
        return found

    def stop(self) -> list[Event]:
        self.stopped = True
        return self.events()

    def received(self, event: Event) -> Arrival:
        return Arrival(event["start"] + self.first_byte, 0 if event["failure"] else WANTED.file_size)

    def copies(self) -> list[Copy] | None:
        found = []
        silent = self.spent >= self.silent and not self.stopped
        for n in range(self.told if self.records and not silent else 0):
            start, end = n * SECONDS, (n + 1) * SECONDS
            if end <= self.well_until:
                rest = Clock.now + start, Clock.now + end, 1, WANTED.file_size, 0, "pull"
                found += [Copy(f"p.{stream}.{n}", *rest) for stream in range(WANTED.streams)]
        return None if self.records is None else found

    def flow_tags(self) -> Counter[int]:
        return Counter()

    def _ask(self, name: str) -> None:
        if self.spent >= self.broken.get(name, math.inf):
            raise BrokenError("dst1")

    check = partialmethod(_ask, "check")
    settle = partialmethod(_ask, "settle")
    ready = partialmethod(_ask, "ready")
    explain = staticmethod("{}: xrootd was killed".format)
    present = staticmethod(dict)
    pairs = staticmethod(lambda _: [])
    add_source = staticmethod(lambda *_: "source")

    def client_of(self, _: str) -> Self:
        return self

    sampler = client_of


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    def measure(how: Measurement, **what: Any) -> tuple[dict[str, Any], MemorySite]:
        clock = Clock()
        monkeypatch.setattr(cell, "time", clock)
        site = MemorySite(clock, **what)
        return cell.measure(site, WANTED, how, "p", lambda *_: None).to_json(), site

    return measure


DEAD, KILLED = {"bytes_end": 0, "well_until": 0}, "dst1: xrootd was killed"
TEN = Measurement(until="seconds", seconds=10)


@pytest.mark.parametrize(
    ("how", "seconds"),
    [
        ({"max_time": 60}, 30),
        ({"min_time": 40, "max_time": 60}, 40),
        ({"max_time": 20}, 20),
        ({"max_time": 60, "precision": 1e-5}, 60),
    ],
)
def test_a_cell_that_is_well_known_ends_from_30_s_on(measured: Measured, how: Any, seconds: float) -> None:
    found, _ = measured(Measurement(**how), wobble=0.01)
    assert found["summary"]["duration"] == pytest.approx(seconds, abs=1.1)
    assert ("wide_interval" in found["flags"]) == ("precision" in how)


def test_files_that_all_end_within_one_interval_have_a_throughput(measured: Measured) -> None:
    found, _ = measured(Measurement(until="files", files=1, max_time=9), files=1, interval=0.5)
    assert (found["status"], found["message"]) == ("ok", "")
    assert found["summary"]["throughput"] == pytest.approx(1)
    assert found["summary"]["duration"] == pytest.approx(SECONDS, abs=0.1)
    assert "too_short" in found["flags"]


@pytest.mark.parametrize(("until", "throughput"), [(0, 0), (1, 0.1), (6, 0.5)])
def test_only_a_cell_without_bytes_says_so(measured: Measured, until: float, throughput: float) -> None:
    found, _ = measured(TEN, bytes_end=until, hang=until)
    said = ("ok", "") if throughput else ("failed", "no byte arrived within 10.0 s")
    assert (found["status"], found["message"]) == said
    assert found["summary"]["throughput"] == pytest.approx(throughput, abs=0.01)
    if throughput:
        assert {"not_steady", "wide_interval"} <= set(found["flags"])


def test_the_warmup_begins_at_the_first_byte_and_a_phase_of_files_that_counts_is_flagged(
    measured: Measured, monkeypatch: Patch
) -> None:
    how, found = Measurement(until="seconds", seconds=20), []
    for seconds, first_byte in ((1, 0), (9, 3), (17, 3), (17, 8)):
        monkeypatch.setitem(globals(), "SECONDS", seconds)
        result = measured(how, first_byte=first_byte)[0]
        found.append((result["summary"]["warmup"], result["summary"]["cycle"], result["flags"]))
    growth = growth_seconds(WANTED, MemorySite.rtt_idle)
    assert found == [
        (2, 1, []),
        (pytest.approx(3 + growth, abs=0.11), 9, []),
        (pytest.approx(3 + growth, abs=0.11), 17, ["within_files"]),
        (5, 17, ["not_steady", "within_files"]),
    ]


@pytest.mark.parametrize(("buffered", "flags"), [(0.27, []), (0.9, ["counters_disagree"])])
def test_buffers_that_empty_are_no_throughput(measured: Measured, buffered: float, flags: list[str]) -> None:
    result, _ = measured(Measurement(until="seconds", seconds=20), buffered=buffered)
    summary = result["summary"]
    assert summary["throughput"] == summary["wire_throughput"] == pytest.approx(1 - buffered / 18, rel=1e-3)
    assert summary["throughput_low"] <= summary["throughput"] <= summary["throughput_high"]
    assert (summary["throughput_average"], result["flags"]) == (pytest.approx(1, rel=1e-3), flags)


@pytest.mark.parametrize(("records", "waits"), [(True, False), (None, False), (False, True)])
def test_a_finished_cell_waits_for_records_to_come(measured: Measured, records: Any, waits: bool) -> None:
    _, site = measured(Measurement(until="files", files=3, max_time=60), files=3, records=records)
    late = site.spent - 3 * SECONDS
    assert late > LATE if waits else late < 1


def test_what_comes_at_once_after_a_silence_is_as_what_comes_in_time(measured: Measured) -> None:
    how = Measurement(until="seconds", seconds=30)
    assert 2 * LATE < 30 - 4
    assert measured(how, silent=4)[0] == measured(how)[0]


def test_a_steady_cell_has_every_figure(measured: Measured) -> None:
    found, site = measured(Measurement())
    assert (found["status"], found["message"], found["flags"]) == ("ok", "", [])
    summary = found["summary"]
    assert set(summary) == {
        name for name, figure in SUMMARY.items() if figure.source not in ("import", "hosts", "beside")
    }
    assert summary["duration"] == pytest.approx(20, abs=0.11)
    assert (summary["throughput"], summary["throughput_max"]) == pytest.approx((1, 1))
    assert (summary["fairness"], summary["xrootd_share"]) == (1, 1)
    assert summary["transfers"] == summary["xrootd_transfers"] == 2 * site.told
    assert summary["path_drops"] == pytest.approx(30 * summary["duration"], abs=1)
    assert site.stopped
    assert (summary["source_cpu"], summary["source_cpu_busiest"]) == pytest.approx((0.75, 0.5))
    assert summary["length_rtts"] == pytest.approx((summary["duration"] - summary["warmup"]) / 0.01)
    assert summary["bandwidth_found"] == 1.1
    assert len(found["samples"]["goodput"]) == pytest.approx(summary["duration"] / 0.1, abs=1)


def test_more_than_the_path_carries_is_flagged(measured: Measured, monkeypatch: Patch) -> None:
    monkeypatch.setitem(globals(), "WANTED", WANTED.model_copy(update={"bandwidth": 0.5}))
    found, _ = measured(Measurement())
    assert {"implausible", "beyond_path"} <= set(found["flags"])
    found, _ = measured(Measurement(), bandwidth_declared=True)  # the path has more than its declaration
    assert found["flags"] == ["beyond_declared"]


@pytest.mark.parametrize(
    ("what", "status", "message", "flags"),
    [
        ({"refused": "no such option"}, "failed", "no such option", []),
        (DEAD, "failed", "100 × refused", None),
        ({**DEAD, "broken": {"ready": 0}}, "failed", f"{KILLED}; 100 × refused", [BROKEN]),
        ({**DEAD, "broken": {"settle": 0}}, "failed", f"{KILLED}; 100 × refused", [BROKEN]),
        ({"broken": {"check": 5}}, "failed", KILLED, [BROKEN]),
        ({"broken": {"readings": 5}}, "failed", KILLED, [BROKEN]),
        # Breaks while transfers are being stopped: the measurement is over.
        ({"broken": {"settle": 0}}, "ok", KILLED, [BROKEN]),
        # Every stream fails and no byte arrives in the last second: with more time all would have given up.
        ({"bytes_end": 5, "well_until": 5}, "failed", "50 × refused", None),
        # Failures while bytes arrive leave the figure.
        ({"well_until": 5}, "ok", "50 × refused", None),
        ({"path_slow": True}, "ok", "", ["path_slow"]),
    ],
)
def test_every_failure_has_a_message(
    measured: Measured, what: Any, status: str, message: str, flags: Any
) -> None:
    found, _ = measured(TEN, **what)
    assert (found["status"], found["message"]) == (status, message)
    assert flags is None or found["flags"] == flags
    assert (found["limit"] is None) == (status == "failed")


def test_counters_that_cannot_be_read_break_the_deployment(
    measured: Measured,
) -> None:
    found, _ = measured(Measurement(until="seconds", seconds=10.5), broken={"readings": 10.2})
    assert (found["status"], found["message"]) == ("failed", KILLED)  # figures are shown each second


def test_counters_that_stop_before_the_first_look_leave_nothing_measured(measured: Measured) -> None:
    """On a machine that is too busy there are records, and an error, before the cell begins."""
    with pytest.raises(BrokenError, match=KILLED):
        measured(TEN, broken={"readings": 0})
