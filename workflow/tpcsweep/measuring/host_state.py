# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: UP006, UP035, UP045 (hosts may have Python 3.6)
"""Describe a host, and count its load: a program that is sent to hosts, and imports the standard library alone.

`python3 -c PROGRAM INTERVAL SECONDS [ADDRESS...]` prints a line of JSON with the state of the host. With an interval it
then prints its counters every INTERVAL seconds, until its standard input closes, SECONDS have passed or its output
fails. With addresses of the destination it also counts the connections over which this host sends data there, all of
them: traffic between the same hosts that is not the cell's is included.

Addresses, names of hosts, and sysctls that contain keys are not printed.

Sources: proc(5); Documentation/ABI/testing/sysfs-class-net, sysfs-devices-system-cpu, sysfs-block of Linux; ethtool(8),
tc(8); /etc/tuned/active_profile is where tuned keeps its profile; sock_diag(7), linux/inet_diag.h, linux/tcp.h.
"""

import json
import os
import platform
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence

NET = Path("/sys/class/net")
BLOCK = Path("/sys/block")
SYSCTLS = Path("/proc/sys")
PROGRAMS = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
PATIENCE = 5.0  # seconds for ethtool or tc, which take milliseconds
NO_DISKS = ("loop", "ram", "zram", "sr", "fd", "nbd")
TCP_INFO = {
    "rtt": ("=I", 68),
    "total_retrans": ("=I", 100),
    "bytes_acked": ("=Q", 120),
    "bytes_received": ("=Q", 128),
    "min_rtt": ("=I", 148),
    "data_segs_out": ("=I", 156),
    "busy_time": ("=Q", 168),
    "rwnd_limited": ("=Q", 176),
    "sndbuf_limited": ("=Q", 184),
}
"""Type and place of fields in struct tcp_info (times in µs), whose end older kernels lack."""
TCP_COUNTERS = (
    "bytes_acked",
    "data_segs_out",
    "total_retrans",
    "busy_time",
    "rwnd_limited",
    "sndbuf_limited",
)
UNKNOWN_RTT = (0, 2**32 - 1)


def state() -> Dict[str, Any]:
    """Return the settings of this host that matter for transfers, without those that it lacks."""
    found = {
        "kernel": platform.release(),
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "memory": memory(),
        "governor": distinct(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")),
        "smt": text(Path("/sys/devices/system/cpu/smt/control")),
        "numa_nodes": len([*Path("/sys/devices/system/node").glob("node[0-9]*")]),
        "tuned": text(Path("/etc/tuned/active_profile")),
        "interfaces": {name: interface(name) for name in interfaces()},
        "disks": {name: disk(name) for name in names_in(BLOCK) if not name.startswith(NO_DISKS)},
        "sysctls": sysctls(),
    }
    return known(found)


def boot() -> str:
    """Return the number of this boot of the kernel, which namespaces and containers of one machine share."""
    return text(SYSCTLS / "kernel/random/boot_id") or ""


def cpu_model() -> str:
    lines = (text(Path("/proc/cpuinfo")) or "").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def memory() -> int:
    """Return the memory of the host in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def interfaces() -> List[str]:
    """Return the interfaces of devices; in a container or a namespace, which has none, all but the loopback."""
    names = [name for name in names_in(NET) if (NET / name / "mtu").exists() and name != "lo"]
    return [name for name in names if (NET / name / "device").exists()] or names


def interface(name: str) -> Dict[str, Any]:
    """Return settings of an interface; its speed is in Mbit/s."""
    place = NET / name
    device = (place / "device").resolve()
    driver = pairs(output("ethtool", "-i", name))
    features = pairs(output("ethtool", "-k", name))
    speed = number(place / "speed")
    return known(
        {
            "driver": driver.get("driver"),
            "driver_version": driver.get("version"),
            "firmware": driver.get("firmware-version"),
            "state": text(place / "operstate"),
            "speed": speed if speed and speed > 0 else None,
            "mtu": number(place / "mtu"),
            "txqueuelen": number(place / "tx_queue_len"),
            "numa_node": number(device / "numa_node"),
            "qdisc": qdisc(output("tc", "qdisc", "show", "dev", name)),
            "rings": current(output("ethtool", "-g", name)),
            "channels": current(output("ethtool", "-l", name)),
            "offloads": {key: value for key, value in features.items() if value in ("on", "off")},
            "irq_affinity": affinity(device),
        }
    )


def qdisc(shown: str) -> str:
    """Return the kinds and options of queueing disciplines, without their handles: each once, with its number."""
    found = {}  # type: Dict[str, int]
    for line in shown.splitlines():
        words = line.split()
        if len(words) < 3 or words[0] != "qdisc":
            continue
        rest = words[3:]
        for key, length in (("root", 1), ("parent", 2), ("refcnt", 2)):
            if key in rest:
                del rest[rest.index(key) : rest.index(key) + length]
        name = " ".join([words[1], *rest])
        found[name] = found.get(name, 0) + 1
    return "; ".join(name + (f" x{count}" if count > 1 else "") for name, count in found.items())


def affinity(device: Path) -> str:
    """Return the CPUs of each interrupt of a device, in the order of their numbers."""
    for folder in (device, device.parent):  # those of a virtio device are its parent's
        numbers = sorted(int(name) for name in names_in(folder / "msi_irqs"))
        if numbers:
            return "; ".join(text(Path(f"/proc/irq/{irq}/smp_affinity_list")) or "?" for irq in numbers)
    return ""


def disk(name: str) -> Dict[str, Any]:
    queue = BLOCK / name / "queue"
    scheduler = text(queue / "scheduler") or ""
    chosen = scheduler.partition("[")[2].partition("]")[0] or scheduler
    return known({"scheduler": chosen, "read_ahead_kb": number(queue / "read_ahead_kb")})


def sysctls() -> Dict[str, str]:
    """Return net.core and net.ipv4.tcp_*, congestion controls among them, without keys."""
    files = sorted([*SYSCTLS.glob("net/core/*"), *SYSCTLS.glob("net/ipv4/tcp_*")])
    found = {".".join(file.relative_to(SYSCTLS).parts): file for file in files}
    values = {name: text(file) for name, file in found.items() if not name.endswith("_key")}
    return {name: " ".join(value.split()) for name, value in values.items() if value is not None}


def counters() -> Dict[str, Any]:
    """Return `time` in s of a clock of its own; `cpu`: busy, waiting for disks and all CPU time; bytes by interface."""
    busy, waiting, total = cpu_times(text(Path("/proc/stat")) or "")
    places = {name: NET / name / "statistics" for name in interfaces()}
    traffic = {
        name: [number(place / f"{way}_bytes") for way in ("rx", "tx")] for name, place in places.items()
    }
    counted = {name: both for name, both in traffic.items() if None not in both}
    return {"time": time.monotonic(), "cpu": [busy, waiting, total], "interfaces": counted}


def cpu_times(stat: str) -> List[int]:
    """Return the ticks of all CPUs that were busy, that waited for disks, and all; guests count as users already."""
    ticks = [int(word) for word in stat.partition("\n")[0].split()[1:9]]
    return [sum(ticks) - ticks[3] - ticks[4], ticks[4], sum(ticks)]


class Senders:
    """Connections to some addresses over which this host sends more than it receives."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = {packed(address) for address in addresses}
        self._last = {}  # type: Dict[bytes, Dict[str, int]]
        self._sums = {}  # type: Dict[str, int]

    def read(self) -> Optional[Dict[str, Any]]:
        """Return their `number`, `sums` of counters with ended connections, smallest `min_rtt` and mean `rtt` in µs.

        Fields that the kernel lacks are omitted. Without addresses or the kernel's answer, and if the kernel does not
        count bytes (before 4.1), return None.
        """
        try:
            now = dict(connections(self._addresses)) if self._addresses else {}
        except OSError:
            return None
        if not self._addresses or not all("bytes_received" in info for info in now.values()):
            return None
        # The first acknowledged byte may be that of the handshake.
        sending = {key: info for key, info in now.items() if info["bytes_acked"] > info["bytes_received"] + 1}
        for key, info in sending.items():
            before = self._last.get(key, {})
            for name in TCP_COUNTERS:
                if name in info:
                    self._sums[name] = self._sums.get(name, 0) + info[name] - before.get(name, 0)
        self._last = now
        rtts, least = (
            [info[name] for info in sending.values() if info.get(name, 0) not in UNKNOWN_RTT]
            for name in ("rtt", "min_rtt")
        )
        return known(
            {
                "number": len(sending),
                "sums": dict(self._sums),
                "min_rtt": min(least) if least else None,
                "rtt": sum(rtts) / len(rtts) if rtts else None,
            }
        )


def connections(addresses: Iterable[bytes]) -> Iterator[Any]:
    """Yield the cookie and the struct tcp_info of each established connection to some addresses. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as asked:  # NETLINK_SOCK_DIAG
        asked.settimeout(PATIENCE)
        for family in (socket.AF_INET, socket.AF_INET6):
            # SOCK_DIAG_BY_FAMILY as a dump, of ESTABLISHED connections with INET_DIAG_INFO
            body = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 1 << 1, 1 << 1)
            asked.send(struct.pack("=IHHII", 16 + len(body), 20, 0x301, family, 0) + body)
            for message in answers(asked):
                remote = message[24:40] if family == socket.AF_INET6 else mapped(message[24:28])
                local = message[8:24] if family == socket.AF_INET6 else mapped(message[8:12])
                if remote in addresses and remote != local:
                    yield message[44:52], tcp_info(message)


def answers(asked: socket.socket) -> Iterator[bytes]:
    """Receive the messages of a dump. Raises OSError."""
    while True:
        data = asked.recv(1 << 17)
        while len(data) >= 16:
            length, kind = struct.unpack_from("=IH", data)
            if kind == 3:  # NLMSG_DONE
                return
            if kind == 2:  # NLMSG_ERROR
                raise OSError(-struct.unpack_from("=i", data, 16)[0], "sock_diag")
            yield data[16:length]
            data = data[(length + 3) & ~3 :]


def tcp_info(message: bytes) -> Dict[str, int]:
    """Return the fields of a struct inet_diag_msg's tcp_info that the kernel has."""
    offset = 72
    while offset + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, offset)
        if kind == 2:  # INET_DIAG_INFO
            info = message[offset + 4 : offset + length]
            return {
                name: struct.unpack_from(form, info, place)[0]
                for name, (form, place) in TCP_INFO.items()
                if place + struct.calcsize(form) <= len(info)
            }
        offset += max(4, (length + 3) & ~3)
    return {}


def mapped(address: bytes) -> bytes:
    """Return an address of IPv4 mapped into IPv6."""
    return b"\0" * 10 + b"\xff\xff" + address


def packed(address: str) -> bytes:
    if ":" in address:
        return socket.inet_pton(socket.AF_INET6, address)
    return mapped(socket.inet_pton(socket.AF_INET, address))


def receives(addresses: Sequence[str]) -> bool:
    """Return whether one of the addresses is this host's."""
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as tried:
                tried.bind((address, 0))
                return True
        except OSError:  # another host's address, or a kernel without IPv6
            continue
    return False


def text(file: Path) -> Optional[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def number(file: Path) -> Optional[int]:
    try:
        return int(text(file) or "")
    except ValueError:
        return None


def distinct(files: Iterable[Path]) -> str:
    return ", ".join(sorted({text(file) or "?" for file in files}))


def names_in(folder: Path) -> List[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def output(*command: str) -> str:
    """Return the output of a program, "" if it is missing, fails or hangs."""
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        done = subprocess.run(command, env=PROGRAMS, timeout=PATIENCE, check=False, **how)  # type: ignore[call-overload]
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def pairs(shown: str) -> Dict[str, str]:
    split = (line.partition(":") for line in shown.splitlines())
    return {name.strip(): value.strip() for name, _, value in split if value.strip()}


def current(shown: str) -> Dict[str, str]:
    """Return the current values that `ethtool -g` and `-l` print after the largest possible ones."""
    found = pairs(shown.partition("Current hardware settings:")[2])
    return {name: value for name, value in found.items() if value.isdigit()}


def known(values: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", {})}


def show(record: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def main(interval: float, seconds: float, addresses: Sequence[str]) -> None:
    end = time.monotonic() + seconds
    senders = Senders(addresses)
    show({"state": state(), "receives": receives(addresses), "boot": boot()})
    while interval and time.monotonic() < end:
        show({**counters(), "tcp": senders.read()})
        if select.select([0], [], [], interval)[0] and not os.read(0, 4096):
            return


if __name__ == "__main__":
    try:
        main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
    except (OSError, KeyboardInterrupt):  # whoever reads is gone
        os._exit(1)  # without an attempt to write what is buffered
