# SPDX-License-Identifier: Apache-2.0
"""Measure a case on this kernel: its TCP, over the project's path, sent by iperf3, read by sock_diag."""

from __future__ import annotations

import json
import os
import shutil
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cases import Case
from formulas import bdp_packets
from network import RECEIVER, SECOND, SENDER, Network, NetworkError, network
from recovery import Dropper, follow
from tpcsweep.common import signals
from tpcsweep.common.files import write_json
from tpcsweep.common.numbers import GBIT, plain
from tpcsweep.common.processes import CommandError
from tpcsweep.deploying.linux.sockets import Connection, tcp_info
from tpcsweep.deploying.paths.network_path import NetworkPath, PathError
from tpcsweep.measuring.provenance import commit, machine
from tpcsweep.measuring.tools.tool import package_versions
from tpcsweep.testbeds.netns import ownership
from tpcsweep.testbeds.netns.requirements import MachineError, require_machine

CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
INTERVAL = 0.005  # seconds between looks at a window
PATIENCE = 1.0
"""Seconds after a loss until an unchanged window counts as one that losses do not reduce."""
CONNECTING = 30.0  # most seconds for all connections of a test to start
DATA = 10_000
"""Bytes above which a connection carries data, as opposed to iperf3's control connection."""
SERIES_INTERVAL = 0.02  # seconds between the stored points of a window's time series

Repetitions = tuple[list[dict[str, Any]], dict[str, list[float]]]


class MeasurementError(RuntimeError):
    """Connections are missing, or end too early."""


def measure_all(cases: Iterable[Case], folder: Path, say: Callable[[str], None]) -> None:
    """Measure the cases without a file in `folder`, one file for each case.

    A failed case, such as a path on a busy machine, does not stop the others.

    Raises:
        MachineError: If the machine cannot measure.
        TeardownError: If a part of a network cannot be removed.
        MeasurementError: At the end, with the failed cases.
    """
    require_machine()
    if shutil.which("iptables-restore") is None:
        raise MachineError("iptables-restore, which drops single packets, is missing: run `make setup`")
    folder.mkdir(parents=True, exist_ok=True)
    owner = ownership.Owner("terena2005", "", os.getpid(), str(folder))
    failed = []
    with signals.interruptible(), ownership.exclusive(owner, lambda holder: say(f"waiting for {holder}")):
        for case in cases:
            file = folder / f"{case.name}.json"
            if measured(file, case):
                continue
            signals.restore_signals()
            began = time.monotonic()
            try:
                result = measure(case, folder / "logs" / case.name)
            except (PathError, CommandError, NetworkError, MeasurementError) as error:
                failed.append(f"{case.name}: {error}")
                say(failed[-1])
                continue
            write_json(file, result)
            say(f"{case.name}: {time.monotonic() - began:.0f} s")
    if failed:
        raise MeasurementError("some cases were not measured. Run the command again:\n" + "\n".join(failed))


def measured(file: Path, case: Case) -> bool:
    """Return whether a file contains a measurement of exactly this case."""
    if not file.exists():
        return False
    return bool(json.loads(file.read_text())["case"] == json.loads(json.dumps(asdict(case))))


def measure(case: Case, logs: Path) -> dict[str, Any]:
    """Measure all repetitions of a case; return JSON values. The caller holds the machine's lock."""
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    result: dict[str, Any] = {"made": "measured", "case": asdict(case), "repetitions": [], "series": {}}
    result["provenance"] = {"begun": begun, "commit": commit(), "machine": machine()}
    controls = CONTROLS.read_text().split()
    if case.control not in controls:
        result["refused"] = f"this kernel has no {case.control}: it has {', '.join(controls)}"
        return result
    path = NetworkPath(case.rtt, case.bandwidth, case.loss, case.bottleneck_mtu)
    small = min(case.mtus) if len(case.mtus) > 1 else None
    with network(path, case.name, case.control, logs, small) as net:
        result["repetitions"], result["series"] = METHODS[case.kind](net, case)
        result["provenance"] |= {
            "software": package_versions("iperf3", "iproute2", "iptables"),
            "path": net.described,
            "path_measured": net.measured.to_dict(),
        }
    return result


_CARRIED = tcp_info(("bytes_received", "bytes_sent", "bytes_retrans"))
_WINDOW = tcp_info(["snd_cwnd"])


def carried(connection: Connection) -> int:
    """Return the payload in bytes that arrived so far, or that the sending end sent for the first time."""
    received, sent, resent = _CARRIED(connection)
    return max(received, sent - resent)


def largest(connections: Iterable[Connection], count: int) -> list[Connection]:
    """Return the connections with the most payload, which carry data, in the order of their cookies."""
    chosen = sorted(connections, key=carried)[-count:]
    return sorted(chosen, key=lambda connection: connection.cookie)


def goodputs(before: Sequence[Connection], after: Sequence[Connection], seconds: float) -> dict[int, float]:
    """Return the payload rate of each connection between two looks, in Gbit/s, by cookie.

    Raises:
        MeasurementError: If a connection has ended.
    """
    then, now = (
        {connection.cookie: carried(connection) for connection in connections}
        for connections in (before, after)
    )
    if gone := then.keys() - now.keys():
        raise MeasurementError(f"{len(gone)} of {len(then)} connections ended while they were measured")
    return {cookie: (now[cookie] - then[cookie]) * GBIT / seconds for cookie in then}


def _loss(net: Network, case: Case) -> Repetitions:
    repetitions = []
    with net.connections(RECEIVER) as look:
        for _ in range(case.repetitions // case.parallel):
            with net.flows(count=case.parallel):
                _wait(look, case.parallel)
                time.sleep(case.warm_up)
                began, before = time.monotonic(), largest(look(), case.parallel)
                time.sleep(case.seconds - case.warm_up)
                ended, after = time.monotonic(), look()
            rates = goodputs(before, after, ended - began).values()
            repetitions += [{"goodputs": [rate]} for rate in rates]
    return repetitions, {}


def _wait(look: Callable[[], list[Connection]], count: int) -> None:
    """Wait until `count` connections carry data; iperf3 opens them one by one, some round trips each."""
    give_up = time.monotonic() + CONNECTING
    while (ready := sum(carried(connection) >= DATA for connection in look())) < count:
        if time.monotonic() > give_up:
            raise MeasurementError(f"{ready} of {count} connections carry data after {plain(CONNECTING)} s")
        time.sleep(0.05)


def _fairness(net: Network, case: Case) -> Repetitions:
    repetitions = []
    small, large = sorted(case.mtus)
    addresses = {small: SECOND, large: RECEIVER.address}
    # At the sender, where the two connections have different remote addresses.
    with net.connections(SENDER) as look:
        for _ in range(case.repetitions):
            with net.flows(addresses[small]), net.flows(addresses[large]):
                time.sleep(case.warm_up)
                began, connections = time.monotonic(), look()
                before = {
                    mtu: largest((end for end in connections if end.remote == address), 1)
                    for mtu, address in addresses.items()
                }
                time.sleep(case.seconds - case.warm_up)
                ended, after = time.monotonic(), look()
            rates = [
                rate for mtu in case.mtus for rate in goodputs(before[mtu], after, ended - began).values()
            ]
            if len(rates) != len(case.mtus):
                raise MeasurementError(f"{len(rates)} of {len(case.mtus)} connections were seen")
            repetitions.append({"goodputs": rates})
    return repetitions, {}


def _recovery(net: Network, case: Case) -> Repetitions:
    full = bdp_packets(case.bandwidth, case.rtt, case.bottleneck_mtu)
    dropper = Dropper(full, case.rtt / 1000, PATIENCE)
    times: list[float] = []
    windows: list[float] = []
    drops: list[float] = []
    with net.connections(SENDER) as look, net.flows():
        began = time.monotonic()
        give_up = began + case.seconds * (case.repetitions + 1)
        # The first drop ends slow start; the one after the last shows that the last has been recovered from.
        while len(drops) < case.repetitions + 2 and time.monotonic() < give_up:
            for connection in largest(look(), 1):
                now = time.monotonic() - began
                times.append(now)
                windows += _WINDOW(connection)
                if dropper.look(now, windows[-1]):
                    net.drop_one()
                    drops.append(now)
            time.sleep(INTERVAL)
    counted = drops[1 : case.repetitions + 1]
    if not counted:
        seen = f"it came to {plain(max(windows, default=0))}" if windows else "no connection was seen"
        raise MeasurementError(
            f"{case.name}: the window never filled the path with {full:.0f} packets: {seen}"
        )
    # Each until the next drop, which belongs to the next.
    ends = [*drops[2:], times[-1] + 1][: len(counted)]
    repetitions = []
    for drop, end in zip(counted, ends, strict=True):
        until = bisect_right(times, end)
        repetitions.append(asdict(follow(times[:until], windows[:until], drop)))
    series: dict[str, list[float]] = {"time": [], "window": [], "drops": drops}
    for now, window in zip(times, windows, strict=True):
        if not series["time"] or now - series["time"][-1] >= SERIES_INTERVAL:
            series["time"].append(now)
            series["window"].append(window)
    return repetitions, series


METHODS: dict[str, Callable[[Network, Case], Repetitions]] = {
    "recovery": _recovery,
    "loss": _loss,
    "mtu_fairness": _fairness,
}
