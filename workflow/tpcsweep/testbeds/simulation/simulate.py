"""Simulate cells with SimGrid: NDJSON in, NDJSON out, a process of its own under the system's Python.

Standard library and Debian's python3-simgrid only; nothing of the package is imported. Each line is a cell as
`plan.Plan` has it; the answer has what `engine` reads. SimGrid runs once in a process, so that each cell is simulated
in a fork, which ends without SimGrid's own end (it can hang).

Streams are loops of transfers: set-up, slow start in two steps, the rest. Each phase of a stream is a communication
over a FATPIPE link, which caps every stream by itself, and over the links that streams share: one of each origin (the
CPU of either side and the interface), one for all. Sharing is max-min fair. One actor waits for all of them.
"""

import json
import os
import resource
import signal
import sys
import traceback
from typing import Any

import simgrid  # type: ignore[import-not-found]
from simgrid import Actor, Comm, Engine, Link, LinkInRoute, NetZone

SIMULATED = 6
"""Transfers of each stream."""
WARMUP = 2
"""Of those, before throughput counts: starts are staggered, and the cost of a byte finds its value."""
CPU_SECONDS = 120
"""Of one cell: it takes a tenth of a second."""
SAMPLES = 16
TICK = 1e6
"""Bytes a second of the link that stands for waiting: a microsecond each."""
GOLDEN = 0.6180339887498949


def simulate(cell: dict[str, Any]) -> dict[str, Any]:
    """Throughput of a cell in Gbit/s, and its course."""
    gbit = 1e9 / 8
    engine = Engine(
        [
            "simulate",
            "--log=root.thres:critical",
            "--cfg=network/model:CM02",  # without LV08's factors, which multiply latency by 13
            "--cfg=network/TCP-gamma:0",  # windows are in the caps
            "--cfg=network/crosstraffic:0",
        ]
    )
    zone = NetZone.create_full_zone("site")
    phases = cell["phases"]  # the first is the set-up, in which no byte moves
    sinks = [zone.create_host(f"phase{number}", 1) for number in range(len(phases))]
    caps = [zone.create_link(f"cap{number}", 1.0) for number in range(len(phases))]
    shared = zone.create_link("shared", cell["shared"] * gbit)
    origins, pools = [], []
    for cap in caps:
        cap.set_sharing_policy(Link.SharingPolicy.FATPIPE, None)
    for number in range(cell["origins"]):
        origins.append(zone.create_host(f"origin{number}", 1))
        pools.append(zone.create_link(f"pool{number}", 1.0))
        for phase, sink, cap in zip(phases, sinks, caps, strict=True):
            links = [cap, pools[-1], shared] if phase["gbit"] else [cap]
            zone.add_route(
                origins[-1].netpoint, sink.netpoint, None, None, [LinkInRoute(link) for link in links], True
            )
    zone.seal()

    def allow(throughput: float) -> None:
        """Set what depends on the cost of a byte, for a throughput of the whole cell."""
        x = throughput * cell["spill_per_gbit"]
        cost = 1 + cell["spill"] * x / (1 + x)
        rates = [1 / (cost / side["core_rate"] + side["per_gbit"]) for side in cell["sides"]]
        pool = min([cell["interface"], *(rate * cell["cores"] for rate in rates)])
        core = min(side["core_rate"] for side in cell["sides"]) / cost
        stream = min(cell["stream"], core * cell["one"])
        for phase, cap in zip(phases, caps, strict=True):
            if not phase["gbit"]:
                cap.set_bandwidth(TICK)
            else:
                rate = phase["gbit"] / phase["seconds"] if phase["seconds"] else stream
                cap.set_bandwidth(min(rate, stream) * cell["weight"] * gbit)
        for link in pools:
            link.set_bandwidth(pool * gbit)

    pieces: list[tuple[float, float, float]] = []
    ends: list[list[float]] = []

    def run() -> None:
        count = len(cell["streams"])
        allow(cell["guess"])
        at, began, done = [-1] * count, [0.0] * count, [0] * count
        ends.extend([] for _ in range(count))
        host = [origins[origin] for origin in cell["streams"]]

        def start(number: int) -> Any:
            phase = phases[at[number]]
            began[number] = engine.clock
            size = phase["gbit"] * cell["weight"] * gbit if phase["gbit"] else phase["seconds"] * TICK
            return Comm.sendto_async(host[number], sinks[at[number]], max(1, round(size)))

        # Each begins with a wait of its own, over the link of the set-up.
        running = [
            Comm.sendto_async(
                host[number], sinks[0], max(1, round(cell["cycle"] * (number * GOLDEN % 1) * TICK))
            )
            for number in range(count)
        ]
        since, moved, left = 0.0, 0, count
        while left:
            number = Comm.wait_any(running)
            if at[number] >= 0 and phases[at[number]]["gbit"]:
                pieces.append((began[number], engine.clock, phases[at[number]]["gbit"]))
            at[number] += 1
            if at[number] == len(phases):
                at[number] = 0
                done[number] += 1
                moved += 1
                ends[number].append(engine.clock)
                left -= done[number] == SIMULATED
                if moved == count:
                    allow(moved * cell["file"] * cell["weight"] * cell["times"] / (engine.clock - since))
                    since, moved = engine.clock, 0
            running[number] = start(number)
        for one in running:
            one.cancel()

    Actor.create("streams", sinks[0], run)
    engine.run()
    return summarized(cell, pieces, ends)


def summarized(
    cell: dict[str, Any], pieces: list[tuple[float, float, float]], ends: list[list[float]]
) -> dict[str, Any]:
    """What a cell's simulation amounts to: each stream counts with whole transfers, after the warm-up."""
    scale = cell["weight"] * cell["times"]
    rates = [(len(times) - WARMUP) * cell["file"] / (times[-1] - times[WARMUP - 1]) for times in ends]
    warmup, duration = max(times[WARMUP - 1] for times in ends), min(times[-1] for times in ends)
    step = cell["interval"]
    while step * SAMPLES < duration:
        step *= 4
    bins = [0.0] * SAMPLES
    for start, end, gbit in pieces:
        length = max(end - start, 1e-12)
        for place in range(int(start / step), min(int(end / step) + 1, SAMPLES)):
            overlap = min(end, (place + 1) * step) - max(start, place * step)
            bins[place] += gbit * max(overlap, 0.0) / length
    kept = max(1, min(SAMPLES, int(duration / step)))
    return {
        "throughput": sum(rates) * scale,
        "rates": rates,
        "warmup": warmup,
        "duration": duration,
        "average": sum(g for s, e, g in pieces if e <= duration) * scale / duration,
        "transfers": sum(map(len, ends)),
        "step": step,
        "goodput": [value * scale / step for value in bins[:kept]],
    }


def say(what: dict[str, Any]) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def answer(line: str) -> None:
    """Simulate a cell in a fork, whose answer is a line of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            say(simulate(json.loads(line)))
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
        say({"error": why})


if __name__ == "__main__":
    say({"simgrid": simgrid.simgrid_version})
    for one in sys.stdin:
        answer(one)
