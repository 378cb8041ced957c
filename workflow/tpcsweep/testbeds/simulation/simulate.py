# SPDX-License-Identifier: Apache-2.0
"""Simulate cells with SimGrid, in a separate process under the system's Python.

Input and output are NDJSON: each line is a cell from `engine.cell_plan`, and each answer is for `result.course`. The
program uses only the standard library and Debian's python3-simgrid. SimGrid runs once per process, so each cell is
simulated in a fork, which skips SimGrid's shutdown (it can hang).

A stream is a loop of transfers, each with phases: set-up, slow start in two steps, and the rest. A phase is a
communication over a FATPIPE link, which caps every stream separately, and over shared links: one for each origin (CPU
of either side and interface), and one for all. Sharing is max-min fair. One actor waits for all streams.
"""

import json
import os
import random
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import simgrid  # type: ignore[import-not-found]
from simgrid import Comm, Engine, Link, LinkInRoute

BYTES = 125e6  # bytes in a Gbit
TICK = 1e6  # bandwidth of the link for waiting, B/s: each byte takes a microsecond
CHANCE = (0.5, 1.5)
"""Range of the set-up time relative to its mean, an assumption that prevents synchronized streams."""
SEED = 2023
SOON = 1e-9  # seconds that count as zero
MOST_SAMPLES = 10_000
"""The most samples of a cell; beyond that every second one is dropped, as in `ThinnedHistory`."""

DEBIAN_12 = simgrid.simgrid_version.startswith("3.")
"""Whether SimGrid is version 3; version 4.0 of Debian 13 has other names."""

if DEBIAN_12:
    from simgrid import Actor, NetZone
else:
    from simgrid import ActivitySet, TimeoutException


def first_to_end(comms: list[Any], seconds: float) -> int:
    """Wait for a communication. Return its index, or -1 if none ends within the time."""
    if DEBIAN_12:
        return int(Comm.wait_any_for(comms, seconds))
    try:
        return comms.index(ActivitySet(comms).wait_any_for(seconds))
    except TimeoutException:
        return -1


class SimulatedSite:
    """Hosts and links of a cell from `engine.cell_plan`."""

    def __init__(self, cell: dict[str, Any]) -> None:
        self.cell = cell
        self.phases = cell["phases"]  # the first one is the set-up, which moves no bytes
        options = [
            "--log=root.thres:critical",
            "--cfg=network/model:CM02",  # without LV08's factors, which multiply latency by 13
            "--cfg=network/TCP-gamma:0",  # the caps include the windows
            "--cfg=network/crosstraffic:0",
        ]
        self._engine = Engine(["simulate", *options])
        if DEBIAN_12:
            zone = NetZone.create_full_zone("site")
            host, link = zone.create_host, zone.create_link
        else:
            zone = self._engine.netzone_root.add_netzone_full("site")
            host, link = zone.add_host, zone.add_link
        self.sinks = [host(f"phase{number}", 1) for number in range(len(self.phases))]
        self.caps = [link(f"cap{number}", 1.0) for number in range(len(self.phases))]
        shared = link("shared", cell["shared"] * BYTES)
        origins, self.pools = [], []
        for cap in self.caps:
            cap.set_sharing_policy(Link.SharingPolicy.FATPIPE, None)
        for number in range(cell["origins"]):
            origins.append(host(f"origin{number}", 1))
            self.pools.append(link(f"pool{number}", 1.0))
            for phase, sink, cap in zip(self.phases, self.sinks, self.caps, strict=True):
                passed = [cap, self.pools[-1], shared] if phase["gbit"] else [cap]
                at = origins[-1]
                ends = (at.netpoint, sink.netpoint, None, None) if DEBIAN_12 else (at, sink)
                zone.add_route(*ends, [LinkInRoute(each) for each in passed], True)
        zone.seal()
        self.hosts = [origins[origin] for origin in cell["streams"]]

    def run(self) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        start = Actor.create if DEBIAN_12 else self._engine.add_actor
        start("streams", self.sinks[0], lambda: answer.update(course(self)))
        self._engine.run()
        return answer

    def allow(self, throughput: float) -> None:
        """Set the bandwidths that depend on the cost of a byte, at a throughput of the cell in Gbit/s."""
        cell = self.cell
        x = throughput * cell["spill_per_gbit"]
        cost = 1 + cell["spill"] * x / (1 + x)
        rates = [1 / (cost / side["core_rate"] + side["per_gbit"]) for side in cell["sides"]]
        pool = min([cell["interface"], *(rate * cell["cores"] for rate in rates)])
        core = min(side["core_rate"] for side in cell["sides"]) / cost
        stream = min(cell["stream"], core * cell["stream_cores"])
        for phase, cap in zip(self.phases, self.caps, strict=True):
            if not phase["gbit"]:
                cap.set_bandwidth(TICK)
            else:
                rate = phase["gbit"] / phase["seconds"] if phase["seconds"] else stream
                cap.set_bandwidth(min(rate, stream) * cell["weight"] * BYTES)
        for link in self.pools:
            link.set_bandwidth(pool * BYTES)


class Stream:
    def __init__(self, site: SimulatedSite, number: int, chance: Callable[[], float]) -> None:
        self.number, self._site, self._chance = number, site, chance
        self._ended = 0.0  # Gbit of ended phases
        self._gbit = 0.0  # Gbit of the current phase
        self.at, self.done = 0, 0
        self.start = self.first_byte = 0.0
        self.go_on()

    def moved(self) -> float:
        if not self._gbit:
            return self._ended
        left: float = self.comm.remaining / BYTES / self._site.cell["weight"]
        return self._ended + max(self._gbit - left, 0.0)

    def end(self) -> bool:
        """End the current phase. Return whether it ends a transfer."""
        self._ended += self._gbit
        self._gbit = 0.0
        if self.at == 0:
            self.first_byte = Engine.clock
        self.at += 1
        if self.at < len(self._site.phases):
            return False
        self.at = self._site.cell["again"]
        self.done += 1
        return True

    def go_on(self) -> None:
        """Start the current phase; chance scales the duration of a set-up after the first."""
        site, phase = self._site, self._site.phases[self.at]
        self._gbit = phase["gbit"]
        if self.at == 0:
            self.start = Engine.clock
        times = self._chance() if self.at == 0 and self.done else 1.0
        size = self._gbit * site.cell["weight"] * BYTES or phase["seconds"] * times * TICK
        ends = site.hosts[self.number], site.sinks[self.at]
        self.comm: Any = Comm.sendto_async(*ends, max(1, round(size)))


def course(site: SimulatedSite) -> dict[str, Any]:
    """Return the answer of a cell, from the start of all streams to its time limit or the last file of each stream.

    Called in SimGrid's actor. In cells that end after a time, set-ups after the first have random durations. Otherwise
    streams synchronize: all move bytes, then all wait.
    """
    cell = site.cell
    site.allow(cell["guess"])
    chance = random.Random(SEED)
    every = [
        Stream(site, number, lambda: 1.0 if cell["files"] else chance.uniform(*CHANCE))
        for number in range(len(site.hosts))
    ]
    ramped = 1 + max((at for at, phase in enumerate(site.phases) if phase["seconds"]), default=0)
    active, ramping = list(every), set(every)
    step, arrived = cell["interval"], list[float]()  # Gbit at multiples of the step
    rows: list[tuple[int, int, float, float, float]] = []
    answer: dict[str, Any] = {"warmup": None, "warm": [], "rows": rows}
    since, before, ended = 0.0, 0.0, 0
    while active:
        due = (len(arrived) + 1) * step
        until = min(due, cell["seconds"])
        left = until - Engine.clock
        place = first_to_end([stream.comm for stream in active], left) if left > SOON else -1
        if place < 0:
            if until == due:
                arrived.append(sum(stream.moved() for stream in every))
                if len(arrived) == MOST_SAMPLES:
                    step, arrived = 2 * step, arrived[1::2]
            if until >= cell["seconds"] - SOON:
                break
            continue
        stream = active[place]
        start, complete = stream.start, stream.end()
        ended += complete
        if complete and cell["listed"]:
            rows.append((stream.number, stream.done - 1, start, stream.first_byte, Engine.clock))
        if stream in ramping and (stream.done or stream.at == ramped):
            ramping.discard(stream)
            if not ramping:
                answer.update(warmup=Engine.clock, warm=[other.moved() for other in every])
        if stream.done == cell["files"]:
            active.remove(stream)
            continue
        stream.go_on()
        if ended == len(every):
            total = sum(other.moved() for other in every)
            moved = (total - before) * cell["weight"] * cell["times"]  # bytes of all real streams
            site.allow(moved / (Engine.clock - since))
            since, before, ended = Engine.clock, total, 0
    answer.update(
        duration=Engine.clock,
        moved=[stream.moved() for stream in every],
        transfers=sum(stream.done for stream in every),
        step=step,
        arrived=arrived,
    )
    for stream in active:
        stream.comm.cancel()
    return answer


def say(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def answer_in_fork(cell: dict[str, Any]) -> None:
    """Simulate a cell in a fork, which prints its own answer line."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (cell["cpu_seconds"], cell["cpu_seconds"]))
            say(SimulatedSite(cell).run())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        code = os.waitstatus_to_exitcode(status)
        why = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if -code in (signal.SIGXCPU, signal.SIGKILL):
            why += f" (a cell has {cell['cpu_seconds']} s of CPU time: ask for less time, fewer files or larger ones)"
        say({"error": why})


if __name__ == "__main__":
    say({"simgrid": simgrid.simgrid_version})
    for line in sys.stdin:
        answer_in_fork(json.loads(line))
