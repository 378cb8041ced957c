"""The delay line, for kernels without sch_netem: compile delayline.c, start it, read it, stop it."""

from __future__ import annotations

import hashlib
import mmap
import os
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as File

from tpcsweep.files import replacing
from tpcsweep.linux.commands import Commands
from tpcsweep.paths.plan import INTERFACE, Path, PathError, burst, memory, queue_bytes, rate_bit, tick_ns

SOURCE = File(__file__).with_name("delayline.c")
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror")
NAME = "tpc-delayline"
START = 5.0  # s to make two devices; takes about 30 ms
_WORDS = 8  # 64-bit words per block of the statistics file: one of settings, then one per direction
_DELAY, _QUEUE = 0, 8  # offsets in bytes of what may be set


@dataclass(frozen=True)
class Direction:
    """What the delay line did so far in one direction: packets (a GSO super-packet is one), bytes and ns.

    held: bytes that it has, on the wire, now. busy: when its bottleneck will have sent all of them, or had, in ns of
    time.monotonic_ns().
    """

    packets: int
    bytes: int
    lost: int
    dropped: int
    late_sum: int
    late_max: int
    held: int
    busy: int


def build(folder: File, commands: Commands) -> File:
    """The compiled delay line in `folder`, compiled unless it is there.

    Its name has a hash of what it is compiled from, as two trees may share an environment. Renamed into place, so
    that two that build at once do no harm. Raises PathError without a C compiler.
    """
    made_of = SOURCE.read_bytes() + " ".join(FLAGS).encode()
    binary = folder / f"{NAME}-{hashlib.sha256(made_of).hexdigest()[:12]}"
    if binary.exists():
        return binary
    try:
        with replacing(binary) as part:
            commands.run(["cc", *FLAGS, "-o", str(part), str(SOURCE)])
    except (RuntimeError, OSError) as error:
        raise PathError(
            f"delay line: {SOURCE.name} could not be compiled into {folder}: {error}; "
            "install a C compiler and Linux headers (Debian: gcc libc6-dev linux-libc-dev)"
        ) from error
    return binary


def cache() -> File:
    """Where the compiled delay line is kept: beside the running Python's own programs."""
    return File(sys.prefix) / "bin"


class DelayLine:
    """A running delay line. It never outlives the process that started it.

    PR_SET_PDEATHSIG is sent when the *thread* that forked ends (prctl(2)), so a thread of its own starts the
    process, stays until it has ended and reaps it: whoever calls may come from a short-lived worker thread.
    """

    def __init__(
        self,
        path: Path,
        delay: int,
        near: str,
        far: str,
        commands: Commands,
        folder: File,
        prefix: Sequence[str],
    ) -> None:
        """Make the two devices and start forwarding with a one-way delay in ns; raises PathError.

        `prefix` is put before the command, to place it in a cgroup, for example; it must exec, not fork.
        """
        self.binary = build(cache(), commands)
        descriptor, name = tempfile.mkstemp(prefix=f"{NAME}.", suffix=".statistics", dir=folder)
        os.truncate(descriptor, 3 * _WORDS * 8)
        os.close(descriptor)
        self._file = File(name)
        gso = path.loss == 0  # else packets of the MTU, so that each is lost or not on its own
        figures = [
            delay,
            tick_ns(path),
            rate_bit(path),
            burst(path),
            queue_bytes(path),
            path.queue_limit or 0,
        ]
        self.argv = [*prefix, str(self.binary), near, far, INTERFACE, str(self._file), *map(str, figures)]
        self.argv += [f"{path.loss:.9g}", str(int(gso)), str(memory(path)), str(os.getpid())]
        commands.note(f"{shlex.join(self.argv[:-1])} $$ &  # stays up with the deployment")
        self._process: subprocess.Popen[str] | None = None
        self._error: OSError | None = None
        started = threading.Event()
        self._keeper = threading.Thread(target=self._keep, args=(started,), name=NAME, daemon=True)
        self._keeper.start()
        started.wait()
        self._map: mmap.mmap | None = None
        try:
            self.pid, self.scheduler = self._greeting()
            with self._file.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), 3 * _WORDS * 8)
        except BaseException:
            self.close()
            raise
        commands.note(f"# {NAME} is process {self.pid}, {self.scheduler}")

    def _keep(self, started: threading.Event) -> None:
        try:
            self._process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        except OSError as error:
            self._error = error
        finally:
            started.set()
        if self._process is not None:
            self._process.wait()

    def _greeting(self) -> tuple[int, str]:
        line = str(self._error or "")
        if self._process is not None and self._process.stdout is not None:
            readable, _, _ = select.select([self._process.stdout], [], [], START)
            line = self._process.stdout.readline() if readable else f"not ready after {START:g} s"
        match line.split():
            case ["ready", pid, scheduler]:
                return int(pid), scheduler
        raise PathError(
            f"delay line: {shlex.join(self.argv)}: {line.strip() or 'ended without a word'}; it needs root, "
            f"/dev/net/tun, and both namespaces without an interface {INTERFACE}"
        )

    @property
    def delay(self) -> int:
        """The one-way delay in ns that is set. Writing it takes effect with the next packet."""
        return int(struct.unpack_from("=Q", self._shared(), _DELAY)[0])

    @delay.setter
    def delay(self, nanoseconds: int) -> None:
        struct.pack_into("=Q", self._shared(), _DELAY, nanoseconds)

    @property
    def queue(self) -> int:
        """The bytes that may wait before the bottleneck. Writing it takes effect with the next packet."""
        return int(struct.unpack_from("=Q", self._shared(), _QUEUE)[0])

    @queue.setter
    def queue(self, size: int) -> None:
        struct.pack_into("=Q", self._shared(), _QUEUE, size)

    def statistics(self) -> tuple[Direction, Direction]:
        """Near to far, and far to near. Costs microseconds. Raises PathError where it has ended."""
        if fault := self.fault():
            raise PathError(fault)
        words = struct.unpack_from(f"={2 * _WORDS}Q", self._shared(), _WORDS * 8)
        return Direction(*words[:_WORDS]), Direction(*words[_WORDS:])

    def fault(self) -> str | None:
        """That it has ended; None while it runs."""
        return None if self.alive() else f"delay line: process {self.pid} has ended; the path is down"

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.returncode is None and self._keeper.is_alive()

    def close(self) -> None:
        """End the process, and with it the devices; idempotent."""
        if self._process is not None:
            if self.alive():
                self._process.send_signal(signal.SIGKILL)  # it has nothing to clean up
            self._keeper.join()
            if self._process.stdout is not None:
                self._process.stdout.close()
        if self._map is not None:
            self._map.close()
            self._map = None
        self._file.unlink(missing_ok=True)

    def _shared(self) -> mmap.mmap:
        if self._map is None:
            raise PathError("delay line: closed")
        return self._map
