"""Load kernel modules by name, with their file's whole path found: user-mode-linux's are not in /lib/modules.

Not modprobe, as kmod need not be installed. The modules that are wanted here depend on no others.
"""

import ctypes
import os
import sys
from pathlib import Path

FINIT_MODULE = 313  # the system call's number, x86_64

libc = ctypes.CDLL(None, use_errno=True)
for name in sys.argv[1:]:
    (file,) = Path("/usr/lib/uml/modules", os.uname().release).glob(f"**/{name}.ko")
    if libc.syscall(FINIT_MODULE, os.open(file, os.O_RDONLY), b"", 0) != 0:
        raise OSError(ctypes.get_errno(), f"{file}: {os.strerror(ctypes.get_errno())}")
