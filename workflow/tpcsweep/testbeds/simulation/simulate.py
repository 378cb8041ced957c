# SPDX-License-Identifier: Apache-2.0
"""Simulate cells with SimGrid: NDJSON in, NDJSON out, a process of its own under the system's Python.

Standard library and Debian's python3-simgrid only, and nothing of the package. Each line is a cell as `plan.plan` has
it; the answer is what `result.course` reads. SimGrid runs once in a process, so that each cell is simulated in a fork,
which ends without SimGrid's own end (it can hang).

A stream is a loop of transfers, each a set-up, slow start in two steps, and the rest: the phases of a cell. Each phase
is a communication over a FATPIPE link, which caps every stream by itself, and over the links that streams share: one
of each origin (the CPU of either side and the interface), one for all. Sharing is max-min fair. One actor waits for
all streams.
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

BYTES = 125e6
"""Of a Gbit."""
TICK = 1e6
"""Bytes a second of the link that stands for waiting: a microsecond each."""
CHANCE = (0.5, 1.5)
"""What a set-up takes over its mean where streams would fall into step otherwise; an assumption."""
SEED = 2023
SOON = 1e-9
"""Seconds that count as none."""
MOST_SAMPLES = 10_000
"""Of a cell; of more every second is kept, as of measured ones (measure.readings.History)."""


if simgrid.simgrid_version.startswith("3."):  # of Debian 12
    from simgrid import Actor, NetZone

    class Platform:
        """Hosts, links between them, and the actor that uses them."""

        def __init__(self, _engine: Engine) -> None:
            self._zone = NetZone.create_full_zone("site")
            self.seal = self._zone.seal

        def host(self, name: str) -> Any:
            return self._zone.create_host(name, 1)

        def link(self, name: str, bandwidth: float) -> Any:
            return self._zone.create_link(name, bandwidth)

        def route(self, one: Any, other: Any, links: list[Any]) -> None:
            route = [LinkInRoute(link) for link in links]
            self._zone.add_route(one.netpoint, other.netpoint, None, None, route, True)

        def actor(self, host: Any, does: Callable[[], None]) -> None:
            Actor.create("streams", host, does)

    def first_to_end(comms: list[Any], seconds: float = -1.0) -> int:
        """Wait for one of the communications; its place, or -1 where none has ended in that time."""
        place: int = Comm.wait_any_for(comms, seconds)
        return place

else:  # 4.0, of Debian 13, has other names for the same, and sets that forget what has ended
    from simgrid import ActivitySet, TimeoutException

    class Platform:  # type: ignore[no-redef]
        """Hosts, links between them, and the actor that uses them."""

        def __init__(self, engine: Engine) -> None:
            self._engine, self._zone = engine, engine.netzone_root.add_netzone_full("site")
            self.seal = self._zone.seal

        def host(self, name: str) -> Any:
            return self._zone.add_host(name, 1)

        def link(self, name: str, bandwidth: float) -> Any:
            return self._zone.add_link(name, bandwidth)

        def route(self, one: Any, other: Any, links: list[Any]) -> None:
            self._zone.add_route(one, other, [LinkInRoute(link) for link in links], True)

        def actor(self, host: Any, does: Callable[[], None]) -> None:
            self._engine.add_actor("streams", host, does)

    def first_to_end(comms: list[Any], seconds: float = -1.0) -> int:
        """Wait for one of the communications; its place, or -1 where none has ended in that time."""
        try:
            return comms.index(ActivitySet(comms).wait_any_for(seconds))
        except TimeoutException:
            return -1


class Site:
    """Hosts and links of a cell that `plan` has made."""

    def __init__(self, cell: dict[str, Any]) -> None:
        self.cell = cell
        self.phases = cell["phases"]  # the first is the set-up, in which no byte moves
        self.engine = Engine(
            [
                "simulate",
                "--log=root.thres:critical",
                "--cfg=network/model:CM02",  # without LV08's factors, which multiply latency by 13
                "--cfg=network/TCP-gamma:0",  # windows are in the caps
                "--cfg=network/crosstraffic:0",
            ]
        )
        self.platform = Platform(self.engine)
        self.sinks = [self.platform.host(f"phase{number}") for number in range(len(self.phases))]
        self.caps = [self.platform.link(f"cap{number}", 1.0) for number in range(len(self.phases))]
        shared = self.platform.link("shared", cell["shared"] * BYTES)
        origins, self.pools = [], []
        for cap in self.caps:
            cap.set_sharing_policy(Link.SharingPolicy.FATPIPE, None)
        for number in range(cell["origins"]):
            origins.append(self.platform.host(f"origin{number}"))
            self.pools.append(self.platform.link(f"pool{number}", 1.0))
            for phase, sink, cap in zip(self.phases, self.sinks, self.caps, strict=True):
                links = [cap, self.pools[-1], shared] if phase["gbit"] else [cap]
                self.platform.route(origins[-1], sink, links)
        self.platform.seal()
        self.hosts = [origins[origin] for origin in cell["streams"]]

    def allow(self, throughput: float) -> None:
        """Set what depends on the cost of a byte, for a throughput of the whole cell in Gbit/s."""
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

    def wait(self, number: int, seconds: float) -> Any:
        """Let a stream wait, over the link of the set-up."""
        return Comm.sendto_async(self.hosts[number], self.sinks[0], max(1, round(seconds * TICK)))

    def begin(self, number: int, at: int) -> Any:
        """Let a stream begin a phase."""
        phase = self.phases[at]
        if not phase["gbit"]:
            return self.wait(number, phase["seconds"])
        size = phase["gbit"] * self.cell["weight"] * BYTES
        return Comm.sendto_async(self.hosts[number], self.sinks[at], max(1, round(size)))

    def run(self, streams: Callable[[], None]) -> None:
        self.platform.actor(self.sinks[0], streams)
        self.engine.run()


class Samples:
    """What has arrived at multiples of a step: every second one is dropped where there would be too many."""

    def __init__(self, step: float) -> None:
        self.step = step
        self.arrived: list[float] = []
        self.due = step

    def add(self, gbit: float) -> None:
        """Take in what has arrived at the time that was due."""
        self.arrived.append(gbit)
        if len(self.arrived) == MOST_SAMPLES:
            self.arrived = self.arrived[1::2]
            self.step *= 2
        self.due = (len(self.arrived) + 1) * self.step


class Stream:
    """A loop of transfers, and where it is."""

    def __init__(self, site: Site, number: int, chance: Callable[[], float]) -> None:
        self.number, self._site, self._chance = number, site, chance
        self._ended = 0.0  # Gbit of phases that have
        self._gbit = 0.0  # of the present one
        self.at, self.done = 0, 0
        self.start = self.first_byte = 0.0
        self.comm: Any = None
        self.go_on()

    def moved(self) -> float:
        if not self._gbit or self.comm is None:
            return self._ended
        left: float = self.comm.remaining / BYTES / self._site.cell["weight"]
        return self._ended + max(self._gbit - left, 0.0)

    def end(self) -> bool:
        """Take the end of its phase in; whether a transfer has ended with it."""
        self._ended += self._gbit
        self.comm, self._gbit = None, 0.0
        if self.at == 0:
            self.first_byte = Engine.clock
        self.at += 1
        if self.at < len(self._site.phases):
            return False
        self.at = self._site.cell["again"]
        self.done += 1
        return True

    def go_on(self) -> None:
        phase = self._site.phases[self.at]
        self._gbit = phase["gbit"]
        if self.at == 0:
            self.start = Engine.clock
            seconds = phase["seconds"] * (self._chance() if self.done else 1.0)
            self.comm = self._site.wait(self.number, seconds)
        else:
            self.comm = self._site.begin(self.number, self.at)


def run(site: Site) -> dict[str, Any]:
    """Simulate from the start of all streams at once until time is up, or until each has transferred its files.

    Where time alone decides, set-ups after the first are longer and shorter by chance. Without, streams fall into step
    with each other in time: all move bytes, then all wait.
    """
    cell, phases = site.cell, site.phases
    longest, files = cell["seconds"], cell["files"]
    ramped = 1 + max((at for at, phase in enumerate(phases) if phase["seconds"]), default=0)
    samples, rows = Samples(cell["interval"]), []
    answer: dict[str, Any] = {"warmup": None, "warm": []}

    def streams() -> None:
        site.allow(cell["guess"])
        chance = random.Random(SEED)
        every = [
            Stream(site, number, lambda: 1.0 if files else chance.uniform(*CHANCE))
            for number in range(len(site.hosts))
        ]
        active, ramping = list(every), set(every)
        since, before, ended = 0.0, 0.0, 0
        while active:
            until = min(samples.due, longest)
            left = until - Engine.clock
            place = first_to_end([stream.comm for stream in active], left) if left > SOON else -1
            if place < 0:
                if until == samples.due:
                    samples.add(sum(stream.moved() for stream in every))
                if until >= longest - SOON:
                    break
                continue
            stream = active[place]
            start = stream.start
            if stream.end():
                ended += 1
                if cell["listed"]:
                    rows.append((stream.number, stream.done - 1, start, stream.first_byte, Engine.clock))
            if stream in ramping and (stream.done or stream.at == ramped):
                ramping.discard(stream)
                if not ramping:
                    answer.update(warmup=Engine.clock, warm=[other.moved() for other in every])
            if stream.done == files:
                active.remove(stream)
                continue
            stream.go_on()
            if ended == len(every):
                arrived = sum(other.moved() for other in every)
                moved = (arrived - before) * cell["weight"] * cell["times"]  # by all streams that there are
                site.allow(moved / (Engine.clock - since))
                since, before, ended = Engine.clock, arrived, 0
        answer.update(
            duration=Engine.clock,
            moved=[stream.moved() for stream in every],
            transfers=sum(stream.done for stream in every),
            rows=rows,
            step=samples.step,
            arrived=samples.arrived,
        )
        for stream in active:
            stream.comm.cancel()

    site.run(streams)
    return answer


def say(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def simulate(cell: dict[str, Any]) -> None:
    """Simulate a cell in a fork, whose answer is a line of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (cell["cpu_seconds"], cell["cpu_seconds"]))
            say(run(Site(cell)))
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
        simulate(json.loads(line))
