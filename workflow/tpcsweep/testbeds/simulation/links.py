"""The site of a cell in SimGrid: its hosts, and the links that cap each phase of a transfer or are shared.

Each phase of a stream is a communication over a FATPIPE link, which caps every stream by itself, and over the links
that streams share: one of each origin (the CPU of either side and the interface), one for all. Sharing is max-min fair.
"""

from typing import Any

from simgrid import Comm, Engine, Link, LinkInRoute, NetZone  # type: ignore[import-not-found]

BYTES = 125e6
"""Of a Gbit."""
TICK = 1e6
"""Bytes a second of the link that stands for waiting: a microsecond each."""


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
        zone = NetZone.create_full_zone("site")
        self.sinks = [zone.create_host(f"phase{number}", 1) for number in range(len(self.phases))]
        self.caps = [zone.create_link(f"cap{number}", 1.0) for number in range(len(self.phases))]
        shared = zone.create_link("shared", cell["shared"] * BYTES)
        origins, self.pools = [], []
        for cap in self.caps:
            cap.set_sharing_policy(Link.SharingPolicy.FATPIPE, None)
        for number in range(cell["origins"]):
            origins.append(zone.create_host(f"origin{number}", 1))
            self.pools.append(zone.create_link(f"pool{number}", 1.0))
            for phase, sink, cap in zip(self.phases, self.sinks, self.caps, strict=True):
                links = [cap, self.pools[-1], shared] if phase["gbit"] else [cap]
                zone.add_route(
                    origins[-1].netpoint,
                    sink.netpoint,
                    None,
                    None,
                    [LinkInRoute(link) for link in links],
                    True,
                )
        zone.seal()
        self.hosts = [origins[origin] for origin in cell["streams"]]

    def allow(self, throughput: float) -> None:
        """Set what depends on the cost of a byte, for a throughput of the whole cell."""
        cell = self.cell
        x = throughput * cell["spill_per_gbit"]
        cost = 1 + cell["spill"] * x / (1 + x)
        rates = [1 / (cost / side["core_rate"] + side["per_gbit"]) for side in cell["sides"]]
        pool = min([cell["interface"], *(rate * cell["cores"] for rate in rates)])
        core = min(side["core_rate"] for side in cell["sides"]) / cost
        stream = min(cell["stream"], core * cell["one"])
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
