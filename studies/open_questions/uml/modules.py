# SPDX-License-Identifier: Apache-2.0
"""Load kernel modules with their dependencies; user-mode-linux's are not in /lib/modules.

Run inside: python modules.py NAME… It replaces modprobe, because kmod may not be installed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

FINIT_MODULE = 313  # number of the system call, x86_64


def load(names: Sequence[str]) -> None:
    """Load modules unless they are already loaded. Raises OSError if the kernel refuses one."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = Path("/usr/lib/uml/modules", os.uname().release)
    needs: dict[str, list[str]] = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        module, _, others = line.partition(":")
        needs[Path(module).stem] = [*reversed(others.split()), module]  # dependencies are listed last first
    for name in names:
        for module in needs[name]:
            if libc.syscall(FINIT_MODULE, os.open(folder / module, os.O_RDONLY), b"", 0) != 0:
                code = ctypes.get_errno()
                if code != errno.EEXIST:
                    raise OSError(code, f"{module}: {os.strerror(code)}")


if __name__ == "__main__":
    load(sys.argv[1:])
