"""Streams in SimGrid: loops of transfers, each a set-up, slow start in two steps, and the rest.

One actor waits for all of them.
"""

import random
from collections.abc import Callable
from typing import Any

from links import BYTES, Site  # type: ignore[import-not-found]  # beside it: `simulate` is run as a file
from simgrid import Actor, Comm, Engine  # type: ignore[import-not-found]

GOLDEN = 0.6180339887498949
CHANCE = (0.5, 1.5)
"""What a set-up takes over its mean where streams would fall into step otherwise; an assumption."""
SEED = 2023
SOON = 1e-9
"""Seconds that count as none."""
MOST_SAMPLES = 10_000
"""Of a cell that ends by the clock; of more every second is kept, as of measured ones (measure.history)."""


def in_turns(site: Site) -> dict[str, Any]:
    """Until every stream has had its transfers: the phases that moved bytes, and when each stream's transfers ended.

    Each begins with a wait of its own, so that streams are out of step; one that is done goes on for the others.
    """
    cell, phases, count = site.cell, site.phases, len(site.hosts)
    pieces: list[tuple[float, float, float]] = []
    ends: list[list[float]] = [[] for _ in range(count)]

    def run() -> None:
        at, began = [-1] * count, [0.0] * count
        site.allow(cell["guess"])
        running = [site.wait(number, cell["cycle"] * (number * GOLDEN % 1)) for number in range(count)]
        since, moved, left = 0.0, 0, count
        while left:
            number = Comm.wait_any(running)
            clock = Engine.clock
            if at[number] >= 0 and phases[at[number]]["gbit"]:
                pieces.append((began[number], clock, phases[at[number]]["gbit"]))
            at[number] += 1
            if at[number] == len(phases):
                at[number] = cell["again"]
                moved += 1
                ends[number].append(clock)
                left -= len(ends[number]) == cell["turns"]
                if moved == count:
                    site.allow(moved * cell["file"] * cell["weight"] * cell["times"] / (clock - since))
                    since, moved = clock, 0
            began[number] = clock
            running[number] = site.begin(number, at[number])
        for one in running:
            one.cancel()

    Actor.create("streams", site.sinks[0], run)
    site.engine.run()
    return {"pieces": pieces, "ends": ends}


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
        self._site, self._number, self._chance = site, number, chance
        self._ended = 0.0  # Gbit of phases that have
        self._gbit = 0.0  # of the present one
        self.at, self.done = 0, 0
        self.start = self.first_byte = 0.0
        self.comm: Any = None
        self.go_on()

    def moved(self) -> float:
        """Gbit that it has moved by now."""
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
        """Begin the next phase."""
        phase = self._site.phases[self.at]
        self._gbit = phase["gbit"]
        if self.at == 0:
            self.start = Engine.clock
            self.comm = self._site.wait(
                self._number, phase["seconds"] * (self._chance() if self.done else 1.0)
            )
        else:
            self.comm = self._site.begin(self._number, self.at)


def by_the_clock(site: Site) -> dict[str, Any]:
    """From the start of all streams at once until time is up, or until each has transferred its files.

    Where time alone decides, set-ups after the first are longer and shorter by chance. Without, streams fall into step
    with each other in time: all move bytes, then all wait.
    """
    cell, phases = site.cell, site.phases
    longest, files = cell["seconds"], cell["files"]
    ramped = 1 + max((at for at, phase in enumerate(phases) if phase["seconds"]), default=0)
    samples, rows = Samples(cell["interval"]), []
    found: dict[str, Any] = {"warmup": None, "warm": []}

    def run() -> None:
        site.allow(cell["guess"])
        chance = random.Random(SEED)
        streams = [
            Stream(site, number, lambda: 1.0 if files else chance.uniform(*CHANCE))
            for number in range(len(site.hosts))
        ]
        active, ramping = list(streams), set(streams)
        since, before, ended = 0.0, 0.0, 0
        while active:
            until = min(samples.due, longest)
            left = until - Engine.clock
            place = Comm.wait_any_for([one.comm for one in active], left) if left > SOON else -1
            if place < 0:
                if until == samples.due:
                    samples.add(sum(one.moved() for one in streams))
                if until >= longest - SOON:
                    break
                continue
            one = active[place]
            start = one.start
            if one.end():
                ended += 1
                if cell["listed"]:
                    rows.append((streams.index(one), one.done - 1, start, one.first_byte, Engine.clock))
            if one in ramping and (one.done or one.at == ramped):
                ramping.discard(one)
                if not ramping:
                    found.update(warmup=Engine.clock, warm=[other.moved() for other in streams])
            if one.done == files:
                active.remove(one)
                continue
            one.go_on()
            if ended == len(streams):
                arrived = sum(other.moved() for other in streams)
                site.allow((arrived - before) * cell["weight"] * cell["times"] / (Engine.clock - since))
                since, before, ended = Engine.clock, arrived, 0
        found.update(
            duration=Engine.clock,
            moved=[one.moved() for one in streams],
            transfers=sum(one.done for one in streams),
            rows=rows,
            step=samples.step,
            arrived=samples.arrived,
        )
        for one in active:
            one.comm.cancel()

    Actor.create("streams", site.sinks[0], run)
    site.engine.run()
    return found
