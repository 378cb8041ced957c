# SPDX-License-Identifier: Apache-2.0
"""Measure one cell: run its streams, sample, stop when the interval is narrow enough, and summarize."""

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tpcsweep.common.errors import BrokenError
from tpcsweep.common.numbers import json_number
from tpcsweep.data.cell_result import CellResult, Number, Status, Summary
from tpcsweep.data.flag_rules import COUNTING, Counters, Evidence, raised_flags
from tpcsweep.data.variables import SHARES, SUMMARY
from tpcsweep.deploying.xrootd.monitoring import Copy
from tpcsweep.measuring import limits
from tpcsweep.measuring.client.client_process import Client, ClientRun, Event, ToolRefusedError
from tpcsweep.measuring.readings import Series, counters_read, goodput, looked_at, mean, sampled_series
from tpcsweep.measuring.rounds import by_rounds
from tpcsweep.measuring.sampler import Sampler
from tpcsweep.measuring.steady import Course, Steady, analyse, bounded, narrow
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.transfer_files import Arrival
from tpcsweep.measuring.transfers import CellTransfers
from tpcsweep.sweeps.parameters import WITHOUT_FILES, Parameters
from tpcsweep.sweeps.sweep import Measurement

UPDATE_SECONDS = 1.0  # seconds between updates of the displayed figures
DECISION_FACTOR = 1.5
"""Factor on the time until a cell may stop again; frequent looks select luckily narrow intervals."""
RARER_UPDATES_AFTER = 300
"""Seconds after which looks become rarer: each time that the cell is longer by a 300th."""
POLL = 0.05
SILENCE = 1.0  # seconds without a byte at a cell's end after which servers and path are checked for answers
DIGITS = 6  # significant digits of figures in a cell's file
MEANS, COUNTS = (
    tuple(name for name, figure in SUMMARY.items() if figure.source == source) for source in ("mean", "count")
)
"""Samples whose means after the warm-up, or sums, are in the summary."""

Figures = dict[str, Number]


class Site(Protocol):
    """Interface of a deployment for measuring.

    `pairs` returns the base URLs of source and destination, of redirectors or of single origins. `present` returns the
    arrivals of running transfers; `copies` returns the records of XRootD's monitoring since the last call, and
    None where nothing monitors. `flow_tags` returns the SciTags that servers announced since the last call, with the
    numbers of their flows. `bandwidth_declared` is true where the user declares the path's bandwidth and nothing bounds
    it. `client_cores` are the CPUs that the client may use, NaN if nothing limits it.
    """

    rtt_idle: float
    bandwidth_found: float | None
    path_slow: bool
    bandwidth_declared: bool
    client_cores: float

    @property
    def folders(self) -> tuple[str, str]: ...
    def client_of(self, tool: str, /) -> Client: ...
    def pairs(self, endpoint: str) -> list[tuple[str, str]]: ...
    def add_source(self, size: int, content: str, streams: int, /) -> str: ...
    def sampler(self, how: Measurement, /) -> Sampler: ...
    def received(self, event: Event) -> Arrival: ...
    def present(self) -> dict[str, Arrival]: ...
    def copies(self) -> list[Copy] | None: ...
    def flow_tags(self) -> Counter[int]: ...
    def settle(self) -> None: ...
    def check(self) -> None: ...
    def explain(self, error: BrokenError) -> str: ...
    def ready(self) -> None: ...


def measure(
    site: Site,
    wanted: Parameters,
    measurement: Measurement,
    prefix: str,
    show: Callable[[Steady, float], None],
) -> CellResult:
    """Measure a cell in a running deployment.

    A tool that cannot transfer, or a deployment that breaks during the measurement, is a result: the cell has `status:
    failed`. A failure after the measurement, while transfers are being stopped, does not change the result. If the
    deployment broke, the cell carries the flag `data.flags.BROKEN`, and the deployment must be replaced.

    The names of destination files start with `prefix`. `show` is called with figures so far and elapsed seconds.

    Raises BrokenError if the deployment broke before anything was measured.
    """
    cell = _Cell(site, wanted, measurement, prefix)
    cell.transfer(show)
    cell.stop()
    cell.check_silence()
    return cell.result()


class _Cell:
    def __init__(self, site: Site, wanted: Parameters, measurement: Measurement, prefix: str) -> None:
        self._site, self._wanted, self._measurement, self._prefix = site, wanted, measurement, prefix
        self._source = site.add_source(wanted.file_size, wanted.source_content, wanted.streams)
        self._client = site.client_of(wanted.tool)
        self._sampler = site.sampler(measurement)
        self._began = math.nan  # by CLOCK_MONOTONIC; NaN until all targets have a record
        self._refused = ""  # the tool's reason for refusing the cell
        self._broken = ""  # description of the part of the deployment that broke
        self._flows: Counter[int] = Counter()  # SciTags of ended flows
        self._spoiled = False  # whether it broke while the throughput was measured

    @contextlib.contextmanager
    def _breakage_noted(self) -> Iterator[None]:
        try:
            yield
        except BrokenError as error:
            self._broken = self._site.explain(error)

    def transfer(self, show: Callable[[Steady, float], None]) -> None:
        wanted = self._wanted
        self._site.flow_tags()  # those of earlier cells
        with self._breakage_noted(), self._sampler:
            self._began = self._sampler.readings().began
            self._transfers = CellTransfers(self._prefix, self._began, wanted.streams)
            try:
                request = ClientRun(
                    tool=wanted.tool,
                    streams=wanted.streams,
                    pairs=self._site.pairs(wanted.endpoint),
                    file_name=self._source,
                    folders=self._site.folders,
                    prefix=self._prefix,
                    copy_mode=wanted.copy_mode,
                    tcp_streams=wanted.tcp_streams,
                    encryption=wanted.encryption,
                    authorization=wanted.authorization,
                    checksum=wanted.checksum,
                    scitag=wanted.scitag,
                    # An hour or more longer than the cell.
                    macaroon_hours=2 + int(self._measurement.bounds[1] / 3600),
                    files=self._measurement.files,
                    longest_pause=self._measurement.bounds[1],
                )
                self._client.run(request)
                self._watch(show)
                self._site.check()
                self._sampler.readings()  # raises the error that ended reading since the last look
            except ToolRefusedError as error:
                self._refused = str(error)
        self._readings = self._sampler.readings()
        if math.isnan(self._began) or not self._readings:
            raise BrokenError(self._broken)
        # A cell whose files all end within one interval has one shorter sample.
        length = self._readings.ended - self._readings.began
        self._interval = min(self._sampler.interval, length or math.inf)
        self._spoiled = bool(self._broken)

    def _watch(self, show: Callable[[Steady, float], None]) -> None:
        measurement = self._measurement
        decide_at, longest = measurement.bounds
        due = self._began + UPDATE_SECONDS
        while not (self._transfers.exhausted or self._transfers.finished):
            self._site.check()
            now = time.monotonic()
            self._record(self._client.events())
            spent = now - self._began
            if now >= due:
                due += max(UPDATE_SECONDS, spent / RARER_UPDATES_AFTER)
                readings, interval = self._sampler.readings(), self._sampler.interval
                steady = self._analysed(looked_at(readings, interval), interval)
                show(steady, spent)
                if measurement.until == "steady" and spent >= decide_at:
                    if narrow(steady, measurement.precision):
                        return
                    decide_at = DECISION_FACTOR * spent
            if spent >= longest:
                return
            time.sleep(min(measurement.interval, 0.1))

    def _analysed(self, samples: Series, interval: float) -> Steady:
        rtt, goodput = self._site.rtt_idle, samples["goodput"]
        # Nobody sees the first bytes of streams without files.
        begun = float(np.fmax(self._transfers.first_byte, interval * np.flatnonzero([*goodput, 1])[0]))
        growth = limits.growth_seconds(self._wanted, 0.0 if math.isnan(rtt) else rtt)
        course = Course(begun + growth, self._transfers.cycle, samples["cwnd"])
        found = analyse(goodput, interval, self._measurement.confidence, rtt / 1000, course)
        if self._transfers.whole_files and self._wanted.layer not in WITHOUT_FILES:
            return by_rounds(found, *self._transfers.rounds(), self._measurement.confidence)
        return found

    def _record(self, events: Iterable[Event]) -> None:
        """Record events of the client; the file of an ended transfer is removed at once.

        Copies that XRootD has reported meanwhile come first, as events of many seconds may come at once.
        """
        self._record_copies()
        for event in events:
            self._transfers.add(event, self._site.received(event) if event["event"] == "end" else None)

    def _record_copies(self) -> bool:
        """Record copies that XRootD's monitoring has reported; return whether it reports those of this cell."""
        copies = self._site.copies()
        for copy in copies or ():
            self._transfers.add_copy(copy)
        return copies is not None and TOOLS[self._wanted.tool].http_tpc

    def stop(self) -> None:
        ended = self._readings.ended
        self._transfers.cut(ended)
        if self._broken:
            return
        with self._breakage_noted(), counters_read():
            self._record(self._client.stop())
            self._transfers.cut(ended, self._site.present())
            self._await_last_copies()
            self._flows = self._site.flow_tags()
            self._site.settle()
            self._site.check()

    def _await_last_copies(self) -> None:
        """Wait for the last records of XRootD's monitoring, a second or two late, before servers may restart."""
        monitored = self._record_copies()
        # Only a cell whose streams have all transferred their files waits.
        while monitored and self._transfers.finished and time.monotonic() < self._transfers.overdue:
            time.sleep(POLL)
            self._record_copies()
        self._transfers.end_monitoring(time.monotonic())

    def check_silence(self) -> None:
        """If nothing arrived, check that servers and path answer, because a running process may hang."""
        last = goodput(self._readings, self._interval)[-math.ceil(SILENCE / self._interval) :]
        silent = not (self._transfers.finished or last.any())
        # With more time every stream would have given up.
        self._transfers.exhausted |= silent and self._transfers.last_failed
        if (silent or self._transfers.all_failed) and not self._broken:
            with self._breakage_noted():
                self._site.ready()
        self._spoiled |= silent and bool(self._broken)

    def result(self) -> CellResult:
        samples = sampled_series(self._readings, self._interval)
        free = self._analysed(samples, self._interval)
        means = limits.means(samples, free.weights)
        counted = samples["goodput"].sum() <= COUNTING * samples["wire_throughput"].sum()
        steady = bounded(free, means["wire_throughput"] if counted else math.nan)
        means |= {"rtt_idle": self._site.rtt_idle, "client_cores": self._site.client_cores}
        figures = self._figures(samples, steady, means)
        nothing = not samples["goodput"].any()
        words = self._transfers.most_frequent_message()
        worthless = bool(self._refused) or self._spoiled  # regardless of the samples
        if nothing and not (worthless or words):
            words = f"no byte arrived within {_duration(samples):.1f} s"
        failed = worthless or self._transfers.all_failed or nothing
        shares = {} if failed else self._attributed(samples, steady, figures)
        figures |= {name: json_number(shares.get(limit, math.nan), DIGITS) for limit, name in SHARES.items()}
        found = self._site.bandwidth_found
        summary = Summary(figures | {"bandwidth_found": found and json_number(found, DIGITS)})
        status: Status = "failed" if failed else "ok"
        return CellResult(
            status=status,
            message="; ".join(filter(None, [self._broken, self._refused or words])),
            flags=raised_flags(self._evidence(status, summary, samples, free)),
            limit=limits.binding(shares) if shares else None,
            summary=summary,
            samples={name: _rounded(values) for name, values in samples.items()},
            transfers=self._transfers.to_columns(),
        )

    def _evidence(self, status: Status, summary: Summary, samples: Series, steady: Steady) -> Evidence:
        begun = (summary.transfers or 0) + (summary.transfers_failed or 0) + self._wanted.streams
        sums = float(samples["goodput"].sum()), float(samples["wire_throughput"].sum())
        return Evidence(
            status=status,
            summary=summary,
            bandwidth=self._wanted.bandwidth,
            declared=self._site.bandwidth_declared,
            precision=self._measurement.precision,
            files=(self._measurement.files or 0) * self._wanted.streams,
            counters=Counters(*sums, int(begun), steady.mean),
            steady=steady.steady,
            short=steady.too_short,
            cycles=steady.cycles,
            slow_path=self._site.path_slow,
            broken=bool(self._broken),
            outside=TOOLS[self._wanted.tool].place == "client" and not limits.servers_seen(samples),
            usable=not (self._refused or self._spoiled),
        )

    def _figures(self, samples: Series, steady: Steady, means: Mapping[str, float]) -> Figures:
        duration = _duration(samples)
        round_trips = (duration - steady.warmup) / (self._site.rtt_idle / 1000 or math.nan)
        figures = {
            "throughput": steady.mean,
            "throughput_low": steady.low,
            "throughput_high": steady.high,
            "throughput_freedom": steady.freedom,
            "throughput_average": mean(samples["goodput"]),
            "throughput_max": _largest_mean(samples["goodput"], max(1, round(1 / self._interval))),
            "duration": duration,
            "warmup": steady.warmup,
            "cycle": self._transfers.cycle,
            "tagged_share": self._tagged_share(),
            "length_correlations": steady.length,
            "batch_correlation": steady.correlation,
            "length_rtts": round_trips,
            **{name: means[name] for name in ("rtt_idle", *MEANS)},
            # The machine counts in clock ticks, which may lag behind the deployment's usage.
            "machine_others": float(np.maximum(means["machine_others"], 0.0)),
        }
        for side in ("source", "destination"):
            origins = (mean(used, steady.weights) for used in samples[f"{side}_origin_cpu"])
            figures[f"{side}_cpu_busiest"] = max(origins, default=math.nan)
            figures[f"{side}_throttled"] = limits.throttled(samples, side)
        counts: Figures = {}
        for name in COUNTS:
            count = float(samples[name].sum())
            counts[name] = None if math.isnan(count) else round(count)
        of_transfers = self._transfers.summary(steady.warmup, files=self._wanted.layer not in WITHOUT_FILES)
        summary: Figures = _numbers(figures) | counts | _numbers(of_transfers)
        signs = limits.evidence(self._wanted, summary, means, samples, self._transfers.seconds())
        return summary | _numbers(signs)

    def _tagged_share(self) -> float:
        wanted = self._wanted.scitag
        return self._flows[wanted] / self._flows.total() if wanted and self._flows else math.nan

    def _attributed(self, samples: Series, steady: Steady, figures: Figures) -> dict[str, float]:
        """Attribute the time after the warm-up to limits; without samples no share is known."""
        after = {name: values[..., steady.warmup_samples :] for name, values in samples.items()}
        times = np.concatenate([[steady.warmup], after["time"]])
        rtt = 0.0 if math.isnan(self._site.rtt_idle) else self._site.rtt_idle
        seconds = median(self._transfers.seconds() or [math.nan])
        growth, ramp = (
            each(self._wanted, rtt, seconds) for each in (limits.growth_seconds, limits.ramp_seconds)
        )
        moving = np.ones(after["time"].size)
        if self._wanted.layer not in WITHOUT_FILES:
            moving = self._transfers.moving(times, growth, ramp)
        known = {name: math.nan if value is None else value for name, value in figures.items()}
        return limits.attribute(self._wanted, after, moving, known)


def _duration(samples: Series) -> float:
    return float(samples["time"][-1]) if samples["time"].size else 0.0


def _largest_mean(values: NDArray[np.float64], length: int) -> float:
    if values.size == 0:
        return math.nan
    return float(sliding_window_view(values, min(length, values.size)).mean(axis=-1).max())


def _numbers(values: Mapping[str, float]) -> Figures:
    """Round figures; counts remain exact."""
    return {n: value if isinstance(value, int) else json_number(value, DIGITS) for n, value in values.items()}


def _rounded(values: NDArray[np.float64]) -> list[Any]:
    if values.ndim > 1:
        return [_rounded(row) for row in values]
    return [json_number(value, DIGITS) for value in values.tolist()]
