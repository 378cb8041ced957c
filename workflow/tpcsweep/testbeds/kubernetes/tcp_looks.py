# SPDX-License-Identifier: Apache-2.0
"""Look at the path between pods: their agents measure it by TCP alone (`deploying.paths.tcp_probes`)."""

import contextlib
import secrets
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from tpcsweep.deploying.paths import tcp_rates as rates
from tpcsweep.deploying.paths.link import Rtt
from tpcsweep.deploying.paths.network_path import PathError
from tpcsweep.deploying.paths.tcp_rates import Flow, RequestedPath, Window
from tpcsweep.deploying.paths.verification import FoundPath, FoundRate, allowed_rtt, calm_rtt, verify
from tpcsweep.deploying.xrootd.server_config import Server
from tpcsweep.testbeds.kubernetes.session import Session

COUNT = 17
WARM_UP = (0.3, 10)  # seconds, or RTTs if longer, until slow start is over
WINDOWS = 10  # windows of a look
LOOKS = 3  # looks before a rate counts as unknown
EMPTY_SECONDS = 5.0  # seconds after which a path that is not empty has other users, and is measured as it is

Ends = tuple[Server, Server]  # a source and a destination origin


def verify_pods(session: Session, wanted: RequestedPath, ends: list[Ends], *, strict: bool) -> FoundPath:
    """Compare the path with the requested one, as `verify` does.

    Raises PathError, and SessionError if no agent answers.
    """
    with probed(session, ends):
        return verify(wanted, "the path", lambda _: _measure(session, wanted, ends), strict=strict)


@contextlib.contextmanager
def probed(session: Session, ends: list[Ends]) -> Iterator[None]:
    """Open the origins' ports for probes for the length of a `with`."""
    names = [server.name for pair in ends for server in pair]
    session.tell(names, "open_probes", word=secrets.token_hex(16))
    try:
        yield
    except PathError:  # after other errors no agent answers
        session.tell(names, "close_probes")
        raise
    session.tell(names, "close_probes")


def _measure(session: Session, wanted: RequestedPath, ends: list[Ends]) -> FoundPath:
    rtts: list[float] = []
    mtus = []
    for source, destination in ends:
        asked = {**_place(destination), "count": max(3, COUNT // len(ends))}
        [(rtts_of_pair, mtu)] = session.tell([source.name], "round_trips", **asked).values()
        rtts += rtts_of_pair
        mtus.append(mtu)
    rtt = Rtt(min(rtts), statistics.median(rtts), max(rtts), len(rtts))
    near_to_far = _rate(session, wanted, ends, rtt.median)
    far_to_near = _rate(session, wanted, [pair[::-1] for pair in ends], rtt.median)
    mtu = max(mtus, key=lambda each: abs(each - wanted.mtu))  # that of the pair that differs
    return FoundPath(rtt, mtu, near_to_far, far_to_near, calm_rtt(wanted.rtt, rtt))


def _rate(session: Session, wanted: RequestedPath, ends: list[Ends], rtt: float) -> FoundRate:
    looked_at: list[Window] = []
    for _ in range(LOOKS if rates.fillable(wanted, len(ends)) else 1):
        looked_at += _look(session, wanted, ends, rtt)
        rate = rates.path_rate(looked_at, wanted.bandwidth)
        if rate.known:
            break
    return rate


def _place(server: Server) -> dict[str, Any]:
    return {"address": server.address, "port": server.ports.probe}


def _look(session: Session, wanted: RequestedPath, ends: list[Ends], rtt: float) -> list[Window]:
    """Load all pairs at once, as they share the path."""
    warm_up = max(WARM_UP[0], WARM_UP[1] * wanted.rtt / 1000)
    # The source begins later, after it has connected.
    seconds = warm_up + 2 * wanted.rtt / 1000 + (WINDOWS + 1) * rates.WINDOW
    number = rates.probe_connections(wanted, len(ends))
    behind = session.ask("synchronise")

    def begin(agent: Server, verb: str, **arguments: object) -> Callable[[], Any]:
        arguments["seconds"] = seconds
        return session.start("tell", to=[agent.name], verb=verb, arguments=arguments)

    answers = []
    for source, destination in ends:
        pouring = begin(source, "pour", **_place(destination), connections=number)
        answers.append((pouring, begin(destination, "arriving", address=source.address)))
    flows = []
    for (source, destination), both in zip(ends, answers, strict=True):
        [sent], [received] = (answer().values() for answer in both)
        looks = [(at + behind[source.name], segments) for at, segments in sent["looks"]]
        counts = [(at + behind[destination.name], *counted) for at, *counted in received["counts"]]
        flows.append(Flow(looks, counts, number, sent["mss"], sent["header"], received["interface"]))
    empty = {"rtt": rtt + allowed_rtt(rtt), "seconds": EMPTY_SECONDS}
    for source, destination in ends:
        session.tell([source.name], "emptied", **_place(destination), **empty)
    return rates.windows(flows, rtt, warm_up)
