# SPDX-License-Identifier: Apache-2.0
"""Ordinary users of this machine, made for the length of a `with`, and what runs in their names."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from tests.support.readable import readable
from tests.support.workflow import wait_until

TUN = """
mknod /mnt/tun c 10 200 && chmod 666 /mnt/tun
[ ! -e /dev/net/tun ] || mount --bind /mnt/tun /dev/net/tun
"""
"""Preparation: the device as udev makes it."""


@dataclass(frozen=True)
class User:
    name: str
    number: int
    home: Path

    def command(self, folder: Path, command: Sequence[str], prepared: str = "", **own: str) -> list[str]:
        """A command line for root, which runs a command in the user's name, with `own` in its environment.

        Lines of a shell prepare it in a namespace of its own for mounts, where /mnt is an empty tmpfs and the user can
        read Python.
        """
        mounts = f"set -e\nmount -t tmpfs tmpfs /mnt\n{prepared}\n{readable(Path(sys.base_prefix))}"
        root = ["unshare", "--mount", "sh", "-c", f'{mounts}cd {folder} && exec "$@"', "sh"]
        become = ["setpriv", f"--reuid={self.name}", f"--regid={self.name}", "--init-groups", "env", "-i"]
        environment = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin", **own}
        return [*root, *become, *(f"{name}={value}" for name, value in environment.items()), *command]

    def processes(self) -> dict[int, list[str]]:
        """The command lines of what runs in the user's name, by pids, in whatever namespaces."""
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.uids().real == self.number and process.status() != psutil.STATUS_ZOMBIE:
                    found[process.pid] = process.cmdline()
        return found

    def kill(self) -> None:
        """Kill everything that runs in the user's name, as the kernel does when memory is short."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


Made = TypeVar("Made", bound=User)


@contextlib.contextmanager
def made(kind: type[Made], prefix: str) -> Iterator[Made]:
    name = f"{prefix}{os.getpid()}"
    subprocess.run(["useradd", "--create-home", "--user-group", "--shell", "/bin/sh", name], check=True)
    user = kind(name, int(subprocess.check_output(["id", "-u", name])), Path(f"~{name}").expanduser())
    try:
        yield user
    finally:
        user.kill()
        wait_until(lambda: not user.processes(), "the user's processes have ended")
        subprocess.run(["userdel", "--remove", name], check=True, capture_output=True)
