# SPDX-License-Identifier: Apache-2.0
"""Confusion matrix of limits on randomly drawn cells that no threshold was tuned on.

    python -m benchmarks.limits_blind FILE [MINUTES]   as root; 9 minutes, or 6 without easing
    python -m benchmarks.limits_blind table FILE     the matrix of FILE; measures nothing

A fixed seed draws rates, RTTs, files, buffers, losses, queues, quotas, streams, origins, tools, congestion controls and
MTUs from ranges, so that the constructed limit allows at most two fifths of any other limit, by TCP's laws and 5 Gbit/s
for each core. The construction is then verified: each cell is measured again with its limit eased (three times the
bandwidth, no loss, no quota …), and counts as constructed only if its throughput rises by a factor of 1.2. A cell that
is no faster was bound by another limit, on a busy machine usually by the machine.

Prints the matrix of all cells, that of verified cells, and that of verified cells without the flag `machine_saturated`
(except for the limit `machine`). Each cell waits at most three seconds until half of the CPUs are idle.

FILE is a CSV with a row for each cell: its shares of time and the figures behind them. If it exists, missing and
disturbed cells (`machine_saturated`) are measured again, independent of their results; each cell's last row counts.
With MINUTES, no deployment starts after that time, and no cell is eased.
"""

from __future__ import annotations

import contextlib
import csv
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
from scipy.stats import binomtest
from tpcsweep import tcp
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.errors import BrokenError
from tpcsweep.linux import cgroups
from tpcsweep.linux.cgroups import Cgroup
from tpcsweep.paths import PathError
from tpcsweep.paths.plan import SUPER_PACKET
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.variables import BYTES, GBIT_PER_MS, LIMITS, SHARES, SUMMARY

from tests.support.constructions import BLKIO, burning, disk, queue
from tests.support.sites import MIB, cell, site_of

KIB = 1 << 10
SECONDS, EASED_SECONDS = 4.0, 3.0
AT_LEAST = 1.2
"""Throughput with the limit eased, over that without, from which a cell counts as constructed."""
SPARE = 2.5
"""Least factor by which any other limit exceeds the constructed one."""
PER_CORE = 5.0  # Gbit/s, docs/studies.md
MOST = 0.4  # Gbit/s that two CPUs can easily move, including the delay line
Arranged = Callable[[NetnsSite], AbstractContextManager[None]]


@dataclass(frozen=True)
class Built:
    """Cell with a known limit, and the temporary changes to its deployment."""

    limit: str
    parameters: Mapping[str, Any]
    arranged: Arranged = field(default=lambda _: contextlib.nullcontext())
    how: str = ""
    eased: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the same deployment that ease the limit, in addition to omitting `arranged`."""

    @property
    def text(self) -> str:
        return ", ".join(filter(None, (_text(self.parameters), self.how)))


@dataclass(frozen=True)
class Group:
    """Cells of one deployment; `eased` are parameters of another deployment that eases them, if needed."""

    deployment: Mapping[str, Any]
    cells: Sequence[Built]
    eased: Mapping[str, Any] = field(default_factory=dict)


def quota(side: str, cores: float) -> Arranged:
    """Return a quota for `src`, `dst` or `client`, split equally over a side's origins."""

    @contextlib.contextmanager
    def arranged(site: NetnsSite) -> Iterator[None]:
        groups = groups_of(site, side)
        for group in groups:
            group.limit(cgroups.quota(cores / len(groups)))
        try:
            yield
        finally:
            for group in groups:
                group.limit(None)

    return arranged


def groups_of(site: NetnsSite, who: str) -> list[Cgroup]:
    """Return the cgroup of the client, or those of a side's origins."""
    return [site.groups[name] for name in (["client"] if who == "client" else site.sides[who].names)]


def stopped(who: str, share: float, period: float) -> Arranged:
    """Stop the client or a side's origins for a share of each period: they wait, and use nothing."""

    @contextlib.contextmanager
    def arranged(site: NetnsSite) -> Iterator[None]:
        over = threading.Event()
        groups = groups_of(site, who)

        def tell(number: int) -> None:
            for pid in {pid for group in groups for pid in group.pids()}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

        def stop() -> None:
            while not over.wait((1 - share) * period):
                tell(signal.SIGSTOP)
                over.wait(share * period)
                tell(signal.SIGCONT)

        stopping = threading.Thread(target=stop)
        stopping.start()
        try:
            yield
        finally:
            over.set()
            stopping.join()

    return arranged


def groups() -> Iterator[Group]:
    """Yield all randomly drawn groups."""
    draw = random.Random(271126)

    def ratio(low: float, high: float) -> float:
        return float(f"{low * (high / low) ** draw.random():.3g}")

    def how() -> dict[str, Any]:
        return {"tool": draw.choice(["curl", "native"]), "copy_mode": draw.choice(["pull", "push"])}

    def large() -> dict[str, Any]:
        return {**how(), "file_size": draw.choice([48, 96, 160, 256]) * MIB}

    for mtu, origins in ((1500, 1), (9000, 2), (1500, 2)):
        found = {"rtt": ratio(1, 60), "bandwidth": ratio(0.04, 0.15), "mtu": mtu, "origins": origins}
        control = {"congestion_control": draw.choice(["cubic", "reno"])}
        cells = [Built("bandwidth", {**large(), "streams": draw.randint(1, 8)})]
        # One stream, which fills the path for two seconds between its pauses; one of two origins is idle.
        size = int(2 * found["bandwidth"] * BYTES)
        cells.append(Built("bandwidth", {**how(), "streams": 1, "file_size": size}))
        yield Group({**found, **control}, cells, {"bandwidth": 3 * found["bandwidth"]})

    for buffer, origins in ((512 * KIB, 1), (2 * MIB, 2), (4 * MIB, 1)):
        # The kernel lets 0.6 to 0.75 of a buffer be used. Few of a transfer's round trips precede its data.
        rate = 2 * MOST
        while rate > MOST:
            rtt = ratio(25, 160)
            rate = float(tcp.window_rate(0.75 * buffer, rtt))
        most = min(4, int(MOST / rate))
        cells = [Built("window", {**large(), "streams": draw.choice([1, most])}) for _ in range(2)]
        yield Group(
            {"rtt": rtt, "bandwidth": SPARE * MOST, "tcp_buffer": buffer, "origins": origins},
            cells,
            {"tcp_buffer": 64 * MIB},
        )

    for mtu in (1500, 9000):
        rtt, bandwidth = ratio(50, 200), ratio(0.2, 0.8)
        cells = []
        while len(cells) < 2:
            size, streams = int(ratio(32, 2048)) * KIB, draw.randint(1, 3)
            rounds = 4 + float(tcp.slow_start(size, tcp.first_window(mtu)))
            if rounds * rtt >= SPARE * size * streams * 8e-6 / bandwidth:
                built = {**how(), "file_size": size, "streams": streams}
                cells.append(Built("between_files", built, eased={"file_size": 64 * MIB}))
        yield Group({"rtt": rtt, "bandwidth": bandwidth, "mtu": mtu}, cells)

    for mtu, control in ((1500, "reno"), (9000, "cubic")):
        rate = 1.0
        while rate * 4 > MOST / SPARE:
            rtt, loss = ratio(8, 90), ratio(0.003, 0.03)
            rate = max(float(tcp.mathis(tcp.payload(mtu), rtt, loss)), tcp.cubic(tcp.payload(mtu), rtt, loss))
        cells = [Built("loss", {**large(), "streams": draw.randint(1, 4)}) for _ in range(2)]
        found = {"rtt": rtt, "bandwidth": 0.5, "loss": loss, "mtu": mtu, "congestion_control": control}
        yield Group(found, cells, {"loss": 0.0})

    for mtu in (1500, 9000):
        rtt, bandwidth = ratio(10, 60), ratio(0.3, 0.9)
        cells = []
        for _ in range(2):
            packets = draw.randint(4, 14)
            built = {**large(), "streams": draw.randint(1, 3)}
            cells.append(Built("path_queue", built, queue(packets), f"queues of {packets} packets"))
        yield Group({"rtt": rtt, "bandwidth": bandwidth, "mtu": mtu}, cells)
    # Like netem's default on long paths: packets in flight of any size fill the limit (docs/paths.md).
    rtt = ratio(30, 120)
    limit = int(0.5 / SPARE * rtt / 2 / GBIT_PER_MS / SUPER_PACKET)
    cells = [Built("path_queue", {**large(), "streams": draw.randint(1, 6)}) for _ in range(2)]
    yield Group({"rtt": rtt, "bandwidth": 0.5, "queue_limit": limit}, cells, {"queue_limit": None})

    for origins, mtu in ((1, 1500), (2, 9000)):
        found = {"rtt": ratio(1, 12), "bandwidth": 1.0, "origins": origins, "mtu": mtu}
        cells = []
        for side, limit in (("src", "cpu_source"), ("dst", "cpu_destination")):
            cores = ratio(0.03, MOST / PER_CORE)
            built = {**large(), "streams": draw.randint(1, 10)}
            cells.append(Built(limit, built, quota(side, cores), f"{cores:g} cores for {side}"))
        for tool, low, high in (("gfal-copy", 0.05, 0.2), ("curl", 0.01, 0.03)):
            cores = ratio(low, high)
            built = {"tool": tool, "file_size": draw.randint(1, 8) * MIB, "streams": draw.randint(1, 6)}
            built["copy_mode"] = draw.choice(["pull", "push"])
            cells.append(Built("client", built, quota("client", cores), f"{cores:g} cores for the client"))
        for who in ("client", "src", "dst"):
            share, period = round(draw.uniform(0.6, 0.9), 2), ratio(0.3, 1.0)
            size = draw.randint(2, 16) if who == "client" else 128
            built = {"tool": "curl", "file_size": size * MIB, "streams": draw.randint(1, 3)}
            built["copy_mode"] = draw.choice(["pull", "push"])
            arranged = f"{who} stopped for {share:g} of each {period:g} s"
            limit = "between_files" if who == "client" else "none_found"
            cells.append(Built(limit, built, stopped(who, share, period), arranged))
        yield Group(found, draw.sample(cells, len(cells)))

    cells = [
        Built("machine", {**large(), "streams": draw.randint(1, 2)}, burning, "busy loops on all CPUs")
        for _ in range(2)
    ]
    yield Group({"rtt": ratio(0.5, 10), "bandwidth": ratio(2, 5)}, cells)

    if BLKIO.is_dir():
        cells = []
        for _ in range(2):
            rate = int(ratio(2e6, 15e6))
            built = {**how(), "file_size": draw.choice([16, 48, 96]) * MIB, "streams": draw.randint(1, 4)}
            cells.append(Built("disk", built, disk(rate), f"a disk of {rate / 1e6:.2g} MB/s"))
        yield Group({"rtt": ratio(1, 20), "bandwidth": ratio(0.4, 1)}, cells)


NUMBERS = (*SHARES.values(), *(name for name, figure in SUMMARY.items() if figure.source == "limits"))
COLUMNS = (
    "built", "found", "second", "eased", "throughput", "eased_throughput", "deployment", "cell", "flags", "load",
    "message",
    *NUMBERS,
)  # fmt: skip


def measured(group: Group, ease: bool) -> Iterator[dict[str, Any]]:
    """Measure the cells of a group, plain and eased; yield a row for each."""
    rows = []
    streams = max(built.parameters["streams"] for built in group.cells)
    with (
        tempfile.TemporaryDirectory() as folder,
        site_of(Path(folder), streams=streams, **group.deployment) as site,
    ):
        for built in group.cells:
            wanted = {**group.deployment, **built.parameters}
            calm()
            with built.arranged(site):
                found = _cell(site, SECONDS, wanted)
            row = {
                "built": built.limit,
                "found": found["limit"] or "failed",
                "second": found["limit_second"],
                "throughput": found["summary"]["throughput"],
                "deployment": _text(group.deployment),
                "cell": built.text,
                "flags": " ".join(found["flags"]),
                "load": f"{os.getloadavg()[0]:.1f}",
                "message": found["message"],
                **{number: found["summary"].get(number) for number in NUMBERS},
            }
            rows.append((built, row))
            if ease and not group.eased:
                row |= _eased(site, {**wanted, **built.eased}, row)
    if ease and group.eased:
        others = {**group.deployment, **group.eased}
        with (
            tempfile.TemporaryDirectory() as folder,
            site_of(Path(folder), streams=streams, **others) as site,
        ):
            for built, row in rows:
                row |= _eased(site, {**others, **built.parameters}, row)
    for _, row in rows:
        yield row


def _eased(site: NetnsSite, wanted: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    calm()
    throughput = _cell(site, EASED_SECONDS, wanted)["summary"]["throughput"]
    known = throughput and row["throughput"]
    return {
        "eased_throughput": throughput,
        "eased": f"{throughput / row['throughput']:.3g}" if known else "",
    }


def calm() -> None:
    """Wait briefly for half of the CPUs to be idle for a second."""
    for _ in range(3):
        before = psutil.cpu_times()
        time.sleep(1.0)
        now = psutil.cpu_times()
        if (now.idle - before.idle) / (sum(now[:8]) - sum(before[:8])) >= 0.5:
            return


def _cell(site: NetnsSite, seconds: float, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a cell, for longer if nothing arrived."""
    for length in (seconds, 4 * seconds):
        found = cell(site, Measurement(min_time=length, max_time=length), **wanted)
        if not found["message"].startswith("no byte arrived"):
            break
    return found


def _text(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def read(path: Path) -> pd.DataFrame:
    """Return the last row of each cell, by deployment and cell."""
    rows = pd.read_csv(path).drop_duplicates(["deployment", "cell"], keep="last")
    return rows.set_index(["deployment", "cell"])


def disturbed(rows: pd.DataFrame) -> pd.Series:
    """Return the cells during which other processes kept the machine busy."""
    return rows["flags"].fillna("").str.contains("machine_saturated") & (rows["built"] != "machine")


def table(path: Path) -> None:
    """Print the matrices, and the share of correctly judged cells with Wilson's interval of 95 %."""
    rows = read(path)
    as_built = rows[rows["eased"] >= AT_LEAST]
    for about, some in (
        ("all cells", rows),
        (f"cells {AT_LEAST:g} times as fast or more when eased", as_built),
        ("those of them on a machine with CPU to spare", as_built[~disturbed(as_built)]),
    ):
        if some.empty:
            print(f"\n{about}: none")
            continue
        columns = [name for name in (*LIMITS, "failed") if (some["found"] == name).any()]
        print(f"\n{about}\n\n| built \\ found | " + " | ".join(columns) + " | right |")
        print("|---" * (len(columns) + 2) + "|")
        for name in (name for name in LIMITS if (some["built"] == name).any()):
            found = some[some["built"] == name]["found"]
            counts = " | ".join(str((found == column).sum() or "") for column in columns)
            print(f"| `{name}` | {counts} | {_share(found == name)} |")
        print(f"\nright: {_share(some['found'] == some['built'])}")


def _share(right: pd.Series) -> str:
    test = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    return f"{right.sum()} of {len(right)}: {100 * right.mean():.0f} % ({100 * test.low:.0f} to {100 * test.high:.0f})"


def main() -> None:
    if sys.argv[1] == "table":
        table(Path(sys.argv[2]))
        return
    path, until = Path(sys.argv[1]), time.monotonic() + 60 * float((*sys.argv, "60")[2])
    ease = len(sys.argv) < 3
    done = set()
    if path.exists():
        rows = read(path)
        done = set(rows[~disturbed(rows)].index)
    else:
        path.write_text(",".join(COLUMNS) + "\n")
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        for group in groups():
            if time.monotonic() > until:
                break
            left = [built for built in group.cells if (_text(group.deployment), built.text) not in done]
            try:
                for row in measured(replace(group, cells=left), ease) if left else ():
                    writer.writerow(row)
            except (BrokenError, PathError) as error:
                print(f"not measured: {_text(group.deployment)}: {error}", file=sys.stderr)
            file.flush()
    table(path)


if __name__ == "__main__":
    main()
