# SPDX-License-Identifier: Apache-2.0
"""The file systems of a cluster's own: what its programs write anywhere else is gone with it.

By mount(2) itself: the folders are named by descriptors, which the mount program would turn back into names that
may be hidden by then.
"""

import ctypes
import os
from pathlib import Path

from tests.cluster.local.settings import LOGS, PLUGINS, PROGRAMS, STATE

MS_BIND, MS_REC, MS_SHARED = 0x1000, 0x4000, 1 << 20  # linux/mount.h
PLUGINS_OF_DEBIAN = Path("/usr/lib/cni")
SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What a kubelet insists on, for the whole machine: it gets plain files instead, that say so already.

It writes what it does not find as it wants it, and a node's that reads at that moment finds nothing and ends.
"""

_libc = ctypes.CDLL(None, use_errno=True)


def prepare(folder: Path, programs: Path, plugins: Path | None) -> None:
    """Make them, in a mount namespace that is the caller's own. Volumes of pods need shared propagation."""
    inside = {STATE: _open(folder / "state"), LOGS: _open(folder / "logs")}
    found = {PROGRAMS / file.name: _open(file) for file in programs.iterdir()}
    found |= {PLUGINS / file.name: _open(file) for file in (plugins.iterdir() if plugins else ())}
    mount("none", "/", flags=MS_REC | MS_SHARED)
    mount("tmpfs", "/run", "tmpfs", options="mode=755")
    mount("tmpfs", "/var/log", "tmpfs", options="mode=755")
    for path in map(Path, ("/run/lock", "/run/netns", "/run/lib/upper", "/run/lib/work", "/run/sysctl")):
        path.mkdir(parents=True)
    layers = "lowerdir=/var/lib,upperdir=/run/lib/upper,workdir=/run/lib/work"
    mount("overlay", "/var/lib", "overlay", options=layers)
    for target, descriptor in inside.items():
        target.mkdir()
        mount(f"/proc/self/fd/{descriptor}", target, flags=MS_BIND)
    PROGRAMS.mkdir()
    PLUGINS.mkdir()
    for file, descriptor in found.items():
        file.touch()
        mount(f"/proc/self/fd/{descriptor}", file, flags=MS_BIND)
        os.close(descriptor)
    for plugin in PLUGINS_OF_DEBIAN.iterdir():
        (PLUGINS / plugin.name).symlink_to(plugin)
    for sysctl, wanted in SYSCTLS.items():
        real, plain = Path("/proc/sys", sysctl), Path("/run/sysctl", sysctl.replace("/", "_"))
        plain.write_text(wanted)
        mount(plain, real, flags=MS_BIND)


def mount(source: str | Path, target: str | Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = [str(word).encode() for word in (source, target, kind)]
    if _libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount {source} at {target}: {os.strerror(code)}")


def _open(path: Path) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)
