"""Measure one cell: keep its streams active, watch, stop when the figure is good enough, say what was found."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from tpcsweep.broken import BROKEN, BrokenError
from tpcsweep.client.handle import Client, Event, RefusedError
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.measure import limits, trust
from tpcsweep.measure.files import Arrival
from tpcsweep.measure.readings import Reading, Readings, Series, goodput, mean, series
from tpcsweep.measure.steady import Steady, analyse, enough
from tpcsweep.measure.transfers import Columns, Transfers, unfinished
from tpcsweep.xrootd.monitoring import Copy

LOOK = 1.0
"""Seconds between looks at whether a cell may stop."""
LOOKS = 300
"""After so many seconds looks become rarer: one each time that the cell has become longer by a 300th."""
POLL = 0.05
BUSY = 0.95
"""Share of the machine's CPU time from which on the machine itself may bind a cell."""
PAYLOAD_SHARE = 0.85
"""Goodput over the rate on the path, at least: headers of packets and of TLS and a few per cent of retransmissions
explain no more."""
SILENCE = 1.0
"""Seconds without a byte at a cell's end after which servers and path must show that they still answer."""
COUNTING = 1.005
"""Two counters that are read a millisecond apart differ by this much."""


class Site(Protocol):
    """What measuring needs of a deployment."""

    rtt_idle: float
    bandwidth_found: float | None
    path_slow: bool
    provenance: Mapping[str, Any]
    folders: tuple[str, str]

    def client_of(self, tool: str, /) -> Client: ...
    def pairs(self, endpoint: str) -> list[tuple[str, str]]: ...
    def add_source(self, size: int, content: str, streams: int, /) -> str: ...
    def sampler(self, interval: float) -> Readings: ...
    def totals(self) -> dict[str, int | None]: ...
    def received(self, event: Event) -> Arrival: ...
    def present(self) -> dict[str, Arrival]: ...
    def copies(self) -> list[Copy]: ...
    def settle(self) -> None: ...
    def check(self) -> None: ...
    def explain(self, error: BrokenError) -> str: ...
    def ready(self) -> None: ...


@dataclass
class Breakage:
    """What of a deployment has broken while a cell was measured: the cell says so, and is data."""

    site: Site
    why: str = ""

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Take note of what breaks, instead of raising it."""
        try:
            yield
        except BrokenError as error:
            self.why = self.site.explain(error)


class Seen(NamedTuple):
    """What a cell has shown, before anything is made of it."""

    readings: list[Reading]
    interval: float
    """Seconds between readings."""
    transfers: Transfers
    rest: Columns
    """Those that had not ended."""
    heard: float
    """Until when XRootD's monitoring was heard, s since the cell's start."""
    totals: Mapping[str, int | None]
    failure: str
    """Why there is no figure, whatever was seen."""
    broken: str
    """What of the deployment has broken."""


def measure(
    site: Site,
    wanted: Parameters,
    how: Measurement,
    prefix: str,
    show: Callable[[Steady, float], None],
) -> dict[str, Any]:
    """Measure a cell in a deployment that is up; returns `status`, `message`, `flags`, `limit`, `evidence`,
    `summary`, `samples`, `transfers` of the cell's file.

    A tool that cannot transfer is data: its cell has `status: failed`. So is a deployment that breaks in the midst of
    the cell; one that breaks afterwards, when transfers are being ended, leaves the figure as it is. Either way the
    cell has the flag BROKEN, and the deployment must be replaced. `prefix` begins the names of the destination files.
    `show` is called at every look with the figures so far and the seconds spent.

    Raises BrokenError where the deployment was broken before anything was measured.
    """
    seen = _gather(site, wanted, how, prefix, show)
    result = _on_path(_result(seen, wanted, how, site.rtt_idle), site)
    return _marked(result, seen.broken) if seen.broken else result


def _gather(
    site: Site,
    wanted: Parameters,
    how: Measurement,
    prefix: str,
    show: Callable[[Steady, float], None],
) -> Seen:
    """Run the transfers of a cell and end them, and see whether the deployment is still whole."""
    name = site.add_source(wanted.file_size, wanted.source_content, wanted.streams)
    client = site.client_of(wanted.tool)
    before = after = site.totals()
    broken = Breakage(site)
    failure = ""
    sampler = site.sampler(how.interval)
    with broken.noted(), sampler:
        began = sampler.readings()[0].time
        transfers = Transfers(prefix, began)
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
                files=how.files,
            )
            _watch(site, client, sampler, how, transfers, show)
            site.check()
        except RefusedError as error:
            failure = str(error)
    readings, interval = sampler.readings(), sampler.interval
    if not readings:
        raise BrokenError(broken.why)
    failure = failure or broken.why
    ended = readings[-1].time
    rest, heard = unfinished({}, prefix, began, ended), ended - began
    if not broken.why:
        with broken.noted():
            for event in client.stop():
                _take(site, transfers, event)
            rest = unfinished(site.present(), prefix, began, ended)
            after = site.totals()
            heard = _hear_out(site, transfers) - began
            site.settle()
            site.check()
    last = goodput(readings, interval)[-math.ceil(SILENCE / interval) :]
    silent = not (transfers.finished or last.any())
    # With more time every stream would have given up.
    transfers.exhausted |= silent and transfers.stuck(wanted.streams)
    # Who lives may yet not answer, nor may the path.
    if (silent or transfers.in_vain(wanted.streams)) and not broken.why:
        with broken.noted():
            site.ready()
    if silent:
        failure = failure or broken.why
    return Seen(readings, interval, transfers, rest, heard, _grown(before, after), failure, broken.why)


def _marked(result: dict[str, Any], broken: str) -> dict[str, Any]:
    """A cell's result, with what of its deployment has broken."""
    said = result["message"]
    message = said if broken in said else "; ".join(text for text in (broken, said) if text)
    return result | {"message": message, "flags": [*result["flags"], BROKEN]}


def _on_path(result: dict[str, Any], site: Site) -> dict[str, Any]:
    """A cell's result, with what was found of the path's bandwidth before any cell."""
    found = None if site.bandwidth_found is None else _number(site.bandwidth_found)
    slow = ["path_slow"] if site.path_slow and result["status"] == "ok" else []
    summary = result["summary"] | {"bandwidth_found": found}
    return result | {"flags": [*result["flags"], *slow], "summary": summary}


def _watch(
    site: Site,
    client: Client,
    sampler: Readings,
    how: Measurement,
    transfers: Transfers,
    show: Callable[[Steady, float], None],
) -> None:
    """Until the cell's rule says that it is over, time is up, or every stream has given up."""
    began = sampler.readings()[0].time
    shortest, longest = how.bounds
    looks: list[Steady] = []
    due = began + LOOK
    while not (transfers.exhausted or transfers.finished):
        site.check()
        now = time.monotonic()
        for event in client.events():
            _take(site, transfers, event)
        _hear(site, transfers)
        if now >= due:
            due += max(LOOK, (now - began) / LOOKS)
            looks.append(_look(sampler, how.confidence))
            show(looks[-1], now - began)
            if how.until == "steady" and now - began >= shortest and enough(looks, how.precision):
                return
        if now - began >= longest:
            return
        time.sleep(min(how.interval, 0.1))


def _look(sampler: Readings, confidence: float) -> Steady:
    """What is known of the goodput so far."""
    readings, interval = sampler.readings(), sampler.interval
    return analyse(goodput(readings, interval), interval, confidence)


def _take(site: Site, transfers: Transfers, event: Event) -> None:
    """Take an event of the client in. A file that has arrived makes room at once."""
    transfers.add(event, site.received(event) if event["event"] == "end" else None)


def _hear(site: Site, transfers: Transfers) -> None:
    for copy in site.copies():
        transfers.copied(copy)


def _hear_out(site: Site, transfers: Transfers) -> float:
    """Hear what XRootD's monitoring has still to say, before `settle`, which may start servers anew; until when.

    Records are a second or two late. They are waited for where each stream has ended by itself, with the files that
    were wanted; of cells that are cut off the last ones are not worth as much time in each.
    """
    _hear(site, transfers)
    while transfers.finished and time.monotonic() < transfers.overdue:
        time.sleep(POLL)
        _hear(site, transfers)
    return time.monotonic()


def _grown(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> dict[str, int | None]:
    """Counters over a cell; None where a testbed cannot count something."""
    pairs = ((name, before[name], value) for name, value in after.items())
    return {name: None if old is None or new is None else new - old for name, old, new in pairs}


def _result(seen: Seen, wanted: Parameters, how: Measurement, rtt_idle: float) -> dict[str, Any]:
    """What the cell's file has of what was seen. Pure."""
    transfers, streams, failure = seen.transfers, wanted.streams, seen.failure
    found = series(seen.readings, seen.interval)
    steady = analyse(found["goodput"], seen.interval, how.confidence)
    duration = seen.readings[-1].time - seen.readings[0].time
    summary = _summary(rtt_idle, seen.interval, found, steady, seen.totals)
    summary |= _of_transfers(transfers.columns(), seen.rest, streams, steady.warmup, duration, seen.heard)
    sampled = limits.means(found, steady.warmup_samples) | {"rtt_idle": rtt_idle}
    signs = limits.numbers(wanted, summary, sampled, seen.totals, transfers.seconds())
    summary |= {name: _number(value) for name, value in signs.items()}
    message = failure or _most_frequent(transfers.messages())
    nothing = steady.mean == 0 or not math.isfinite(steady.mean)
    if nothing and not message:
        message = f"no byte arrived within {found['time'][-1] if found['time'].size else 0:.1f} s"
    failed = bool(failure) or transfers.in_vain(streams) or nothing
    limit, evidence = (None, {}) if failed else limits.judge(summary)
    return {
        "status": "failed" if failed else "ok",
        "message": message,
        "flags": [] if failure else _flags(how, streams, found, steady, summary),
        "limit": limit,
        "evidence": evidence,
        "summary": summary,
        "samples": {name: _rounded(values) for name, values in found.items()},
        "transfers": transfers.listed(),
    }


def _of_transfers(
    ended: Columns, rest: Columns, streams: int, warmup: float, duration: float, heard: float
) -> dict[str, float | int | None]:
    """What the summary has of transfers; times in s since the cell's start."""
    ok = ended["ok"] > 0
    shares = trust.stream_bytes(ended, rest, streams, warmup, duration)
    return {
        "fairness": _number(trust.fairness(shares)),
        "transfers": int(ok.sum()),
        "transfers_failed": int((~ok).sum()),
        "xrootd_transfers": int((ended["xrootd_code"] == 0).sum()),
        "xrootd_share": _number(trust.monitored_share(ended, heard)),
    }


def _summary(
    rtt_idle: float,
    interval: float,
    found: Series,
    steady: Steady,
    totals: Mapping[str, int | None],
) -> dict[str, float | int | None]:
    kept = {name: values[..., steady.warmup_samples :] for name, values in found.items()}
    second = max(1, round(1 / interval))
    rates = {
        "throughput": steady.mean,
        "throughput_low": steady.low,
        "throughput_high": steady.high,
        "throughput_average": mean(found["goodput"]),
        "throughput_max": _largest_mean(found["goodput"], second),
        "duration": found["time"][-1] if found["time"].size else 0.0,
        "warmup": steady.warmup,
        "rtt_idle": rtt_idle,
    }
    means = (
        "wire_throughput",
        "source_cpu",
        "destination_cpu",
        "client_cpu",
        "path_cpu",
        "machine_cpu",
        "machine_steal",
        "machine_pressure",
        "machine_work",
        "machine_slowed",
        "rtt_loaded",
    )
    rates |= {name: mean(kept[name]) for name in means}
    # Clock ticks, by which the machine counts, may lag behind what the deployment used.
    rates["machine_others"] = float(np.maximum(mean(kept["machine_others"]), 0.0))
    for side in ("source", "destination"):
        rates[f"{side}_cpu_busiest"] = max(
            (mean(each) for each in kept[f"{side}_origin_cpu"]), default=math.nan
        )
        periods, throttled = totals[f"{side}_periods"], totals[f"{side}_throttled"]
        rates[f"{side}_throttled"] = throttled / periods if periods and throttled else 0.0
    counts = {
        "retransmits": round(found["retransmits"].sum()),
        "path_drops": totals["path_drops"],
    }
    return {name: _number(value) for name, value in rates.items()} | counts


def _flags(
    how: Measurement,
    streams: int,
    found: Series,
    steady: Steady,
    summary: Mapping[str, float | int | None],
) -> list[str]:
    kept = {name: values[..., steady.warmup_samples :] for name, values in found.items()}
    half_width = (steady.high - steady.low) / 2
    flags = {
        "not_steady": not steady.steady,
        "wide_interval": not half_width <= how.precision * steady.mean,  # NaN is wide
        "autocorrelated": steady.autocorrelated,
        "transfers_failed": summary["transfers_failed"] != 0,
        "files_missing": how.files is not None and (summary["transfers"] or 0) < how.files * streams,
        "counters_disagree": _disagree(found, kept),
        "monitoring_disagrees": trust.disagrees(summary["xrootd_share"]),
        "machine_saturated": mean(kept["machine_cpu"]) + mean(kept["machine_steal"]) >= BUSY,
        "disturbed": trust.disturbed(*(summary[f"machine_{name}"] for name in ("others", "steal", "slowed"))),
    }
    return [name for name, raised in flags.items() if raised]


def _disagree(found: Series, kept: Series) -> bool:
    """Whether more arrived in files than crossed the path, or much less.

    The first is asked of the whole cell: after the warm-up more may be written than arrives, from the buffers that
    filled before.
    """
    more = found["goodput"].sum() > found["wire_throughput"].sum() * COUNTING
    return bool(more or mean(kept["goodput"]) < PAYLOAD_SHARE * mean(kept["wire_throughput"]))


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


def _number(value: float) -> float | None:
    """JSON knows no NaN."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _rounded(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[Any]:
    if values.ndim > 1:
        return [_rounded(row) for row in values]
    return [_number(value) for value in values.tolist()]
