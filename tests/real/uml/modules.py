"""Load kernel modules by name with what they depend on: user-mode-linux's are not in /lib/modules.

Not modprobe, as kmod need not be installed.
"""

import ctypes
import errno
import os
import sys
from pathlib import Path

FINIT_MODULE = 313  # the system call's number, x86_64

libc = ctypes.CDLL(None, use_errno=True)
folder = Path("/usr/lib/uml/modules", os.uname().release)
needs = {}
for line in (folder / "modules.dep").read_text().splitlines():
    module, _, others = line.partition(":")
    needs[Path(module).stem] = [*reversed(others.split()), module]  # dependencies come last first
for name in sys.argv[1:]:
    for module in needs[name]:
        if libc.syscall(FINIT_MODULE, os.open(folder / module, os.O_RDONLY), b"", 0) != 0:
            code = ctypes.get_errno()
            if code != errno.EEXIST:
                raise OSError(code, f"{module}: {os.strerror(code)}")
