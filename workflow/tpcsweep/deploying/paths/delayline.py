# SPDX-License-Identifier: Apache-2.0
"""Delay line for kernels without sch_netem: compile delayline.c, start, read and stop it."""

from __future__ import annotations

import hashlib
import mmap
import os
import secrets
import select
import shlex
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from tpcsweep.common import processes
from tpcsweep.common.files import replacing_file
from tpcsweep.common.installation import PACKAGE
from tpcsweep.common.processes import Commands
from tpcsweep.deploying.paths.network_path import (
    INTERFACE,
    NetworkPath,
    PathError,
    burst,
    memory,
    queue_bytes,
    rate_bit,
    tick_ns,
)

SOURCE = PACKAGE / "deploying/paths/delayline.c"
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror")
NAME = "tpc-delayline"
DEVICE_QUEUE = 20_000
"""Packets that a device queues for the delay line, so that a scheduling delay loses none.
The program does not set it itself, because ioctl(2) requires root; netlink requires only ownership of the namespace."""
START = 5.0  # s to create two devices; takes about 30 ms
_WORDS = 8  # 64-bit words in each block of the statistics file: one block of settings, then one per direction


class Direction(NamedTuple):
    """Counters of one direction in packets (a GSO super-packet counts as one), bytes and ns."""

    packets: int
    bytes: int
    lost: int
    dropped: int
    late_sum: int
    late_max: int
    held: int  # bytes currently inside, as on the wire
    busy: int  # time.monotonic_ns() at which its bottleneck will have sent, or has sent, all waiting packets


class _Setting:
    """Number at an offset of the statistics file, which the delay line reads for each packet."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def __get__(self, line: DelayLine, _owner: type) -> int:
        return int(struct.unpack_from("=Q", line.shared, self._offset)[0])

    def __set__(self, line: DelayLine, value: int) -> None:
        struct.pack_into("=Q", line.shared, self._offset, value)


def compiled(folder: Path, commands: Commands) -> Path:
    """Compile the delay line into a folder if needed. Raises PathError without a C compiler.

    The file name contains a hash of source and flags, because two trees may share an environment.
    """
    made_of = SOURCE.read_bytes() + " ".join(FLAGS).encode()
    binary = folder / f"{NAME}-{hashlib.sha256(made_of).hexdigest()[:12]}"
    if binary.exists():
        return binary
    try:
        with replacing_file(binary) as part:
            commands.run(["cc", *FLAGS, "-o", str(part), str(SOURCE)])
    except (RuntimeError, OSError) as error:
        raise PathError(
            f"delay line: {SOURCE.name} could not be compiled into {folder}: {error}; "
            "install a C compiler and Linux headers (Debian: gcc libc6-dev linux-libc-dev)"
        ) from error
    return binary


class DelayLine:
    """Running delay line, which never outlives the process that started it.

    PR_SET_PDEATHSIG is sent when the *thread* that forked ends (prctl(2)). Callers may be short-lived worker threads,
    so a dedicated thread starts the process, waits for its end and reaps it.
    """

    def __init__(
        self,
        path: NetworkPath,
        delay: int,
        near: str,
        far: str,
        commands: Commands,
        folder: Path,
        prefix: Sequence[str],
    ) -> None:
        """Create devices in two routers' namespaces and forward between them, with a delay in ns one way.

        `folder` gets the statistics file. The words of `prefix` come before the command, for example to place it in a
        cgroup; they must exec, not fork. Raises PathError.
        """
        beside = Path(sys.prefix) / "bin"
        cache = Path(os.environ.get("TPCSWEEP_CACHE") or Path.home() / ".cache/tpcsweep")
        binary = compiled(beside if os.access(beside, os.W_OK) else cache, commands)
        self._file = folder / f"{NAME}.{secrets.token_hex(4)}.statistics"
        self._file.write_bytes(bytes(3 * _WORDS * 8))
        with self._file.open("r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 0)
        gso = int(path.loss == 0)  # otherwise packets of the MTU, so that each is lost independently
        rate = [delay, tick_ns(path), rate_bit(path), burst(path), queue_bytes(path), path.queue_limit or 0]
        figures = [*rate, f"{path.loss:.9g}", gso, memory(path), os.getpid()]
        self.argv = [*prefix, str(binary), near, far, INTERFACE, str(self._file), *map(str, figures)]
        commands.note(f"{shlex.join(self.argv[:-1])} $$ &  # stays up with the deployment")
        starting: Future[subprocess.Popen[str]] = Future()
        self._keeper = threading.Thread(target=self._keep, args=(starting,), name=NAME, daemon=True)
        self._keeper.start()
        try:
            self._process = starting.result()
        except OSError as error:
            self._file.unlink()
            raise self._refused(str(error)) from error
        try:
            self.pid, self.scheduler = self._greeting()
        except BaseException:
            self.close()
            raise
        commands.note(f"# {NAME} is process {self.pid}, {self.scheduler}")

    def _keep(self, starting: Future[subprocess.Popen[str]]) -> None:
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            process = processes.start(self.argv, processes.system_environment(), text=True, **how)
        except OSError as error:
            starting.set_exception(error)
        else:
            starting.set_result(process)
            process.wait()

    def _greeting(self) -> tuple[int, str]:
        assert self._process.stdout
        readable, _, _ = select.select([self._process.stdout], [], [], START)
        line = self._process.stdout.readline() if readable else f"not ready after {START:.0f} s"
        match line.split():
            case ["ready", pid, scheduler]:
                return int(pid), scheduler
        raise self._refused(line)

    def _refused(self, line: str) -> PathError:
        return PathError(
            f"delay line: {shlex.join(self.argv)}: {line.strip() or 'ended without a message'}; it needs "
            f"/dev/net/tun, and both namespaces without an interface {INTERFACE}"
        )

    delay = _Setting(0)  # one-way delay in ns
    queue = _Setting(8)  # most bytes that may wait before the bottleneck

    def statistics(self) -> tuple[Direction, Direction]:
        """Return the counters of near to far, and far to near, in microseconds. Raises PathError."""
        if fault := self.fault():
            raise PathError(fault)
        words = struct.unpack_from(f"={2 * _WORDS}Q", self.shared, _WORDS * 8)
        return Direction(*words[:_WORDS]), Direction(*words[_WORDS:])

    def fault(self) -> str | None:
        alive = self._process.returncode is None and self._keeper.is_alive()
        return None if alive else f"delay line: process {self.pid} has ended; the path is down"

    def close(self) -> None:
        """End the process, which removes its devices. Idempotent."""
        self._process.kill()  # it has nothing to clean up
        self._keeper.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self.shared.close()
        self._file.unlink(missing_ok=True)
