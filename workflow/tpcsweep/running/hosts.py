# SPDX-License-Identifier: Apache-2.0
"""Hosts of a testbed: their state in the provenance of cells, and their load during cells.

For each deployment one process on each host describes it and counts its load (`measuring.host_state`). It is sent to a
shell there, and its standard input is a pipe of this process: it ends with this process, even by kill -9.

Of endpoints the hosts' kernels also describe the connections to the destination's doors. The doors' addresses are
resolved here, and sent to the hosts alone: no record contains them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import math
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tpcsweep.common import processes
from tpcsweep.common.numbers import BYTES, json_number, short
from tpcsweep.data import flag_rules
from tpcsweep.data.cell_result import NOT_RECORDED, CellResult, Provenance, Summary
from tpcsweep.data.flag_rules import PAYLOAD_SHARE, Evidence
from tpcsweep.data.host_buffers import RECEIVE, SEND, largest_buffer
from tpcsweep.measuring import host_connections, host_state
from tpcsweep.measuring.host_connections import Reading, Sent
from tpcsweep.sweeps.testbed_settings import SavedHost
from tpcsweep.testbeds.interface import Finding

if TYPE_CHECKING:
    from tpcsweep.measuring.steady import Steady

LOCAL = "local"  # the way to this machine
ANSWER = 20.0  # most seconds until a host has described itself
INTERVAL = 1.0  # seconds between readings of the counters
ENDING = 2.0  # most seconds for a host's process to end
DIGITS = 6  # significant digits of figures
SHELL = """command -v {python} >/dev/null 2>&1 || {{ echo '{{"problem": "no {python}"}}'; exit 127; }}
exec {python} -c {program} {interval} {seconds} {addresses}
"""

Ways = Mapping[str, str | SavedHost]
"""The way to each host, as in a testbed's file."""


class Look(NamedTuple):
    when: float  # when the reading arrived, by this machine's monotonic clock
    time: float  # of the host's own clock
    cpu: Sequence[float]  # ticks: busy, waiting for disks, all
    traffic: Mapping[str, Sequence[float]]  # bytes received and sent, by interface
    tcp: Reading | None = None  # None if the host does not know its connections to the destination


class Load(NamedTuple):
    """Load of a host between two looks."""

    cpu: float  # share of its CPU time that was busy
    iowait: float  # share of its CPU time that was idle while something waited for a disk
    received: float  # rate of its interfaces, Gbit/s
    sent: float


class CellClock:
    """Start of a cell's measurement, which is known from the figures that it shows."""

    def __init__(self, show: Callable[[Steady, float], None]) -> None:
        self._show = show
        self.began = time.monotonic()

    def show(self, steady: Steady, spent: float) -> None:
        self.began = time.monotonic() - spent
        self._show(steady, spent)


class Watch:
    """Hosts that are watched during a deployment."""

    def __init__(self, hosts: Mapping[str, _Asked], states: Mapping[str, dict[str, Any]]) -> None:
        self._hosts = hosts
        self.states = {**states, **{name: host.described() for name, host in hosts.items()}}
        """The state of each host for the provenance of cells, or why there is none."""

    @property
    def one_machine(self) -> list[list[str]]:
        """Hosts that are one machine: groups of names, with `LOCAL` for the measuring machine."""
        groups: dict[str, list[str]] = {host_state.boot(): [LOCAL]}
        for name, host in self._hosts.items():
            groups.setdefault(host.boot, []).append(name)
        return [names for boot, names in groups.items() if boot and len(names) > 1]

    @property
    def receivers(self) -> list[str]:
        """The hosts that have an address of the destination's doors."""
        return [name for name, host in self._hosts.items() if host.receives]

    def with_load(self, measured: CellResult, clock: CellClock) -> CellResult:
        """Return a cell with figures of its hosts' load and connections after its warm-up, their limit and flag."""
        summary = measured.summary
        begin, end = (clock.began + (value or 0.0) for value in (summary.warmup, summary.duration))
        windows = {name: looks_between(host.looks, begin, end) for name, host in self._hosts.items()}
        loads = {name: load for name, looks in windows.items() if (load := load_of(looks))}
        sent = {
            name: sent for name, looks in windows.items() if (sent := sent_in(looks)) and sent.connections
        }
        measured = self._with_connections(measured, sent)
        if not loads:
            return measured
        figures = {
            f"host_{name}": max(getattr(load, name) for load in loads.values()) for name in Load._fields
        }
        share = math.nan
        if summary.throughput is not None:
            others = {name: others_rate(load, summary.throughput) for name, load in loads.items()}
            figures["host_others"] = max(others.values())
            shares = (rate / speed for name, rate in others.items() if (speed := self._hosts[name].speed))
            share = max(shares, default=math.nan)
        added = _with_figures(measured.summary, figures)
        evidence = Evidence(status=measured.status, summary=added, bandwidth=math.nan, hosts_used=share)
        flags = [flag_rules.production_load.__name__] if flag_rules.production_load(evidence) else []
        return dataclasses.replace(measured, summary=added, flags=(*measured.flags, *flags))

    def _with_connections(self, measured: CellResult, sent: Mapping[str, Sent]) -> CellResult:
        """Return a cell with the figures of the connections that hosts sent over, and with their windows as a limit."""
        if not (total := host_connections.together([*sent.values()])):
            return measured
        buffers = (
            largest_buffer([self.states[name] for name in names], sysctl)
            for names, sysctl in ((self.receivers, RECEIVE), (sent, SEND))
        )
        share = host_connections.window_share(total, *buffers)
        added = _with_figures(measured.summary, host_connections.figures(total))
        origin: Provenance = {**measured.provenance, "sending_hosts": [*sent]}
        return host_connections.with_window(
            dataclasses.replace(measured, summary=added, provenance=origin), share
        )


def _with_figures(summary: Summary, figures: Mapping[str, float]) -> Summary:
    rounded = {name: json_number(value, DIGITS) for name, value in figures.items()}
    return Summary({**summary.figures, **rounded})


def looks_between(looks: Sequence[Look], begin: float, end: float) -> list[Look]:
    """Return the looks in a time; none unless they span half of it."""
    inside = [look for look in looks if begin <= look.when <= end]
    return inside if len(inside) > 1 and inside[-1].when - inside[0].when >= (end - begin) / 2 else []


def load_of(looks: Sequence[Look]) -> Load | None:
    """Return the load of a host between the first and the last of some looks; None without any."""
    if not looks:
        return None
    first, last = looks[0], looks[-1]
    busy, waiting, total = (after - before for before, after in zip(first.cpu, last.cpu, strict=True))
    seconds = last.time - first.time
    if min(total, seconds) <= 0:
        return None
    both = first.traffic.keys() & last.traffic.keys()
    rates = [
        sum(last.traffic[name][way] - first.traffic[name][way] for name in both) / seconds / BYTES
        for way in (0, 1)
    ]
    if min(busy, waiting, *rates) < 0:  # a driver that is loaded again counts from zero
        return None
    return Load(busy / total, waiting / total, *rates)


def sent_in(looks: Sequence[Look]) -> Sent | None:
    """Return what a host sent to the destination in some looks; None without two that know it."""
    known = [(look.time, look.tcp) for look in looks if look.tcp is not None]
    if len(known) < 2:
        return None
    return host_connections.sent_between([tcp for _, tcp in known], known[-1][0] - known[0][0])


def others_rate(load: Load, throughput: float) -> float:
    """Return the least traffic of a host in Gbit/s that is not the cell's: a host carries the cell once each way.

    The cell's bytes on an interface are at most its payload over the smallest plausible share of payload.
    """
    return max(0.0, max(load.received, load.sent) - throughput / PAYLOAD_SHARE)


@contextlib.contextmanager
def watched(
    ways: Ways,
    seconds: float,
    stage: Callable[[str], None],
    interval: float = INTERVAL,
    doors: Sequence[str] = (),
) -> Iterator[Watch]:
    """Watch hosts for the length of a `with`, at most `seconds`; `interval` 0 only describes them.

    Connections to `doors`, the names of the destination's, are counted.
    A host that cannot be asked stops nothing: its state is the reason, which `stage` reports with details.
    """
    states = {name: saved_state(way) for name, way in ways.items() if isinstance(way, SavedHost)}
    asked: dict[str, _Asked] = {}
    addresses = _addresses(doors) if len(states) < len(ways) else []
    try:
        for name, way in ways.items():
            if isinstance(way, str):
                asked[name] = _Asked(way, interval, seconds, addresses)
        give_up = time.monotonic() + ANSWER
        for host in asked.values():
            host.wait(give_up)
        watch = Watch(asked, states)
        for name, state in watch.states.items():
            if NOT_RECORDED in state:
                details = asked[name].last_error() if name in asked else ""
                stage(f"host {name}: not recorded: {'; '.join(filter(None, (state[NOT_RECORDED], details)))}")
        yield watch
    finally:
        for host in asked.values():
            host.end()


def _addresses(names: Sequence[str]) -> list[str]:
    """Return the addresses of some names; those of unknown names are left out, because transfers report them."""
    found = list[str]()
    for name in names:
        with contextlib.suppress(OSError):
            found += [str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    return list(dict.fromkeys(address.partition("%")[0] for address in found))


def findings(ways: Ways) -> list[Finding]:
    """Ask each host once, for `tpcsweep check`."""
    details: list[str] = []
    with watched(ways, ANSWER, details.append, interval=0.0) as watch:
        states = watch.states
    found = []
    for name, state in states.items():
        reason = next((line for line in details if line.startswith(f"host {name}: ")), "")
        described = f"kernel {state.get('kernel')}, interfaces {', '.join(state.get('interfaces', {}))}"
        status: Any = "warning" if reason else "ok"
        found.append(Finding(f"host {name}", "can be recorded", status, reason or described))
    return found


class _Asked:
    """A process on a host, which describes it and sends its counters."""

    def __init__(self, way: str, interval: float, seconds: float, addresses: Sequence[str]) -> None:
        self._state: dict[str, Any] | None = None
        self.receives = False  # whether the host has one of the addresses
        self.boot = ""  # number of the boot of its kernel
        self._problem = ""
        self.looks: list[Look] = []
        self._answered = threading.Event()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (`end` closes it)
        self._process: subprocess.Popen[bytes] | None = None
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        python = shlex.quote(sys.executable) if way == LOCAL else "python3"
        program = shlex.quote(inspect.getsource(host_state))
        given = {"interval": interval, "seconds": seconds, "addresses": shlex.join(addresses)}
        text = SHELL.format(python=python, program=program, **given)
        try:
            command = [*([] if way == LOCAL else shlex.split(way)), "sh"]
            # A session of its own has no terminal on which ssh could ask for a password.
            self._process = processes.start(
                command, processes.user_environment(), start_new_session=True, **pipes
            )
        except (OSError, ValueError) as error:
            self._problem = f"its command does not start: {getattr(error, 'strerror', None) or error}"
            self._answered.set()
            return
        self._thread = threading.Thread(target=self._read, name="host", daemon=True)
        self._thread.start()
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()

    @property
    def speed(self) -> float:
        """The speed of its interfaces together in Gbit/s; 0 if unknown."""
        interfaces = (self._state or {}).get("interfaces", {}).values()
        return float(sum(each.get("speed", 0) for each in interfaces if each.get("state") != "down")) / 1000

    def _read(self) -> None:
        assert self._process
        assert self._process.stdout
        for line in self._process.stdout:
            when = time.monotonic()
            with contextlib.suppress(ValueError, LookupError, TypeError):  # a greeting of the login shell
                record = json.loads(line)
                if "problem" in record:
                    self._problem = str(record["problem"])
                elif "state" in record:
                    self._state = dict(record["state"])
                    self.receives = bool(record["receives"])
                    self.boot = str(record["boot"])
                    self._answered.set()
                else:
                    counters = (record[key] for key in ("time", "cpu", "interfaces", "tcp"))
                    self.looks.append(Look(when, *counters))
        self._answered.set()

    def wait(self, give_up: float) -> None:
        """Wait until the host has answered or its process has ended."""
        if self._answered.wait(max(0.0, give_up - time.monotonic())) or self._state:
            return
        self._problem = f"no answer within {short(ANSWER)} s"

    def described(self) -> dict[str, Any]:
        """Return the state of the host, or why there is none, without names and addresses that errors contain."""
        if self._state is not None:
            return self._state
        if not self._problem and self._process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._problem = f"exit code {self._process.wait(ENDING)}"
        return {NOT_RECORDED: self._problem or "no answer"}

    def last_error(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read(1 << 16).decode(errors="replace").splitlines()
        return lines[-1] if lines else ""

    def end(self) -> None:
        """End the process on the host, by closing its standard input, and the command that leads there."""
        if process := self._process:
            with contextlib.suppress(OSError):
                assert process.stdin
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDING)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._thread.join(ENDING)
        self._errors.close()


def saved_state(way: SavedHost) -> dict[str, Any]:
    """Return the state of a host that `fasterdata-tuning.sh --save-state` wrote, by the keys of `host_state`."""
    try:
        saved = json.loads(Path(way.saved).read_text(encoding="utf-8"))
        cpu = saved.get("cpu", {})
        return host_state.known(
            {
                "kernel": saved["metadata"].get("kernel"),
                "governor": ", ".join(sorted(set(cpu.get("governors", {}).values()))),
                "smt": cpu.get("smt", {}).get("control"),
                "tuned": saved.get("tuned", {}).get("active_profile"),
                "interfaces": {name: _saved_interface(each) for name, each in saved["interfaces"].items()},
                "sysctls": {name: " ".join(value.split()) for name, value in saved["sysctl"].items()},
                "source": "a saved state",
            }
        )
    except OSError as error:
        return {NOT_RECORDED: f"its file cannot be read: {error.strerror}"}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {NOT_RECORDED: "its file is not a state that fasterdata-tuning.sh saved"}


def _saved_interface(saved: Mapping[str, Any]) -> dict[str, Any]:
    rings = {
        name.upper(): str(saved["ring_buffers"][name])
        for name in ("rx", "tx")
        if name in saved["ring_buffers"]
    }
    return host_state.known(
        {
            "speed": saved["speed"] or None,
            "mtu": saved["mtu"],
            "txqueuelen": saved["txqueuelen"],
            "qdisc": host_state.qdisc(saved["qdisc"]),
            "rings": {
                name: value for name, value in rings.items() if value != "0"
            },  # 0 is its word for unknown
            "offloads": saved["ethtool_features"],
        }
    )
