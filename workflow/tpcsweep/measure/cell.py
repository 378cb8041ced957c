"""Measure one cell: keep its streams active, watch, stop when the figure is good enough, say what was found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tpcsweep.measure.readings import Readings, Series, series
from tpcsweep.measure.steady import Steady, analyse, enough
from tpcsweep.parameters import Parameters
from tpcsweep.sweep import Measurement
from tpcsweep.testbeds.clients import Client, ClientError, Event

LOOK = 1.0
"""Seconds between looks at whether a cell may stop."""
BUSY = 0.95
"""Share of the machine's CPU time from which on the machine itself may bind a cell."""
PAYLOAD_SHARE = 0.85
"""Goodput over the rate on the path, at least: headers of packets and of TLS and a few per cent of retransmissions
explain no more."""
COUNTING = 1.005
"""Two counters that are read a millisecond apart differ by this much."""


class Site(Protocol):
    """What measuring needs of a deployment."""

    rtt_idle: float
    provenance: Mapping[str, Any]
    folders: tuple[str, str]

    def client_of(self, tool: str, /) -> Client: ...
    def pairs(self, endpoint: str) -> list[tuple[str, str]]: ...
    def add_source(self, size: int, content: str, streams: int, /) -> str: ...
    def sampler(self, interval: float) -> AbstractContextManager[Readings]: ...
    def totals(self) -> dict[str, int | None]: ...
    def remove(self, name: str) -> None: ...
    def settle(self) -> None: ...


@dataclass
class Transfers:
    """The ends of transfers, as the client tells them."""

    stream: list[int] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    ok: list[bool] = field(default_factory=list)
    messages: dict[str, int] = field(default_factory=dict)
    """Why transfers failed, and how often."""
    exhausted: bool = False

    def add(self, event: Event, began: float) -> None:
        """Take an event in. Times become seconds since the cell began."""
        if event["event"] == "exhausted":
            self.exhausted = True
        elif event["event"] == "end":
            self.stream.append(event["stream"])
            self.start.append(round(event["start"] - began, 4))
            self.end.append(round(event["end"] - began, 4))
            self.ok.append(event["failure"] is None)
            if event["failure"] is not None:
                self.messages[event["failure"]] = self.messages.get(event["failure"], 0) + 1

    @property
    def failed(self) -> int:
        """How many failed."""
        return self.ok.count(False)


def measure(
    site: Site,
    wanted: Parameters,
    how: Measurement,
    prefix: str,
    show: Callable[[Steady, float], None],
) -> dict[str, Any]:
    """Measure a cell in a deployment that is up; returns `status`, `message`, `flags`, `summary`, `samples`,
    `transfers` of the cell's file.

    A tool that cannot transfer is data: its cell has `status: failed`. `prefix` begins the names of the destination
    files. `show` is called at every look with the figures so far and the seconds spent.
    """
    name = site.add_source(wanted.file_size, wanted.source_content, wanted.streams)
    client = site.client_of(wanted.tool)
    transfers = Transfers()
    before = site.totals()
    refusal = ""
    with site.sampler(how.interval) as sampler:
        began = sampler.readings()[0].time
        try:
            client.run(
                tool=wanted.tool,
                streams=wanted.streams,
                pairs=site.pairs(wanted.endpoint),
                file_name=name,
                folders=site.folders,
                prefix=prefix,
                copy_mode=wanted.copy_mode,
                tcp_streams=wanted.tcp_streams,
            )
            _watch(site, client, sampler, how, transfers, show)
        except ClientError as error:
            refusal = str(error)
    readings = sampler.readings()
    for event in client.stop():
        transfers.add(event, began)
    after = site.totals()
    site.settle()
    found = series(readings)
    return _result(site, how, found, _grown(before, after), transfers, refusal)


def _watch(
    site: Site,
    client: Client,
    sampler: Readings,
    how: Measurement,
    transfers: Transfers,
    show: Callable[[Steady, float], None],
) -> None:
    """Until the figure is good enough, time is up, or every stream has given up."""
    began = sampler.readings()[0].time
    looks: list[Steady] = []
    due = began + LOOK
    while not transfers.exhausted:
        now = time.monotonic()
        for event in client.events():
            transfers.add(event, began)
            if event["event"] == "end":
                site.remove(event["name"])
        if now >= due:
            due += LOOK
            looks.append(analyse(series(sampler.readings())["goodput"], how.interval, how.confidence))
            show(looks[-1], now - began)
            if now - began >= how.min_time and enough(looks, how.precision):
                return
        if now - began >= how.max_time:
            return
        time.sleep(min(how.interval, 0.1))


def _grown(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> dict[str, int | None]:
    """Counters over a cell; None where a testbed cannot count something."""
    pairs = ((name, before[name], value) for name, value in after.items())
    return {name: None if old is None or new is None else new - old for name, old, new in pairs}


def _result(
    site: Site,
    how: Measurement,
    found: Series,
    totals: Mapping[str, int | None],
    transfers: Transfers,
    refusal: str,
) -> dict[str, Any]:
    steady = analyse(found["goodput"], how.interval, how.confidence)
    message = refusal or _most_frequent(transfers.messages)
    nothing = steady.mean == 0 or not math.isfinite(steady.mean)
    if nothing and not message:
        message = f"no byte arrived within {found['time'][-1] if found['time'].size else 0:.1f} s"
    failed = bool(refusal) or transfers.exhausted or nothing
    return {
        "status": "failed" if failed else "ok",
        "message": message,
        "flags": [] if refusal else _flags(how, found, steady, transfers),
        "summary": _summary(site, how, found, steady, totals, transfers),
        "samples": {name: _rounded(values) for name, values in found.items()},
        "transfers": {
            "stream": transfers.stream,
            "start": transfers.start,
            "end": transfers.end,
            "ok": transfers.ok,
        },
    }


def _summary(
    site: Site,
    how: Measurement,
    found: Series,
    steady: Steady,
    totals: Mapping[str, int | None],
    transfers: Transfers,
) -> dict[str, float | int | None]:
    kept = {name: values[..., steady.warmup_samples :] for name, values in found.items()}
    second = max(1, round(1 / how.interval))
    rates = {
        "throughput": steady.mean,
        "throughput_low": steady.low,
        "throughput_high": steady.high,
        "throughput_max": _largest_mean(found["goodput"], second),
        "duration": found["time"][-1] if found["time"].size else 0.0,
        "warmup": steady.warmup,
        "rtt_idle": site.rtt_idle,
    }
    means = (
        "wire_throughput",
        "source_cpu",
        "destination_cpu",
        "client_cpu",
        "path_cpu",
        "machine_cpu",
        "machine_steal",
        "rtt_loaded",
    )
    rates |= {name: _mean(kept[name]) for name in means}
    for side in ("source", "destination"):
        rates[f"{side}_cpu_busiest"] = max(
            (_mean(each) for each in kept[f"{side}_origin_cpu"]), default=math.nan
        )
        periods, throttled = totals[f"{side}_periods"], totals[f"{side}_throttled"]
        rates[f"{side}_throttled"] = throttled / periods if periods and throttled else 0.0
    counts = {
        "retransmits": int(found["retransmits"].sum()),
        "path_drops": totals["path_drops"],
        "transfers": transfers.ok.count(True),
        "transfers_failed": transfers.failed,
    }
    return {name: _number(value) for name, value in rates.items()} | counts


def _flags(how: Measurement, found: Series, steady: Steady, transfers: Transfers) -> list[str]:
    kept = {name: values[..., steady.warmup_samples :] for name, values in found.items()}
    half_width = (steady.high - steady.low) / 2
    flags = {
        "not_steady": not steady.steady,
        "wide_interval": not half_width <= how.precision * steady.mean,  # NaN is wide
        "autocorrelated": steady.autocorrelated,
        "transfers_failed": transfers.failed > 0,
        "counters_disagree": _disagree(found, kept),
        "machine_saturated": _mean(kept["machine_cpu"]) + _mean(kept["machine_steal"]) >= BUSY,
    }
    return [name for name, raised in flags.items() if raised]


def _disagree(found: Series, kept: Series) -> bool:
    """Whether more arrived in files than crossed the path, or much less.

    The first is asked of the whole cell: after the warm-up more may be written than arrives, from the buffers that
    filled before.
    """
    more = found["goodput"].sum() > found["wire_throughput"].sum() * COUNTING
    return bool(more or _mean(kept["goodput"]) < PAYLOAD_SHARE * _mean(kept["wire_throughput"]))


def _most_frequent(messages: Mapping[str, int]) -> str:
    if not messages:
        return ""
    message, times = max(messages.items(), key=lambda item: item[1])
    return f"{times} × {message}" if times > 1 else message


def _largest_mean(values: np.ndarray[Any, np.dtype[np.float64]], length: int) -> float:
    """The largest mean of `length` values in a row; of all of them where there are fewer."""
    if values.size == 0:
        return math.nan
    length = min(length, values.size)
    sums = np.cumsum(np.concatenate(([0.0], values)))
    return float((sums[length:] - sums[:-length]).max() / length)


def _mean(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The mean without NaN; NaN of nothing."""
    kept = values[np.isfinite(values)]
    return float(kept.mean()) if kept.size else math.nan


def _number(value: float) -> float | None:
    """JSON knows no NaN."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _rounded(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[Any]:
    if values.ndim > 1:
        return [_rounded(row) for row in values]
    return [_number(value) for value in values.tolist()]
