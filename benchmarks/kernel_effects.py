# SPDX-License-Identifier: Apache-2.0
"""How often `tpcsweep effects` is right on real kernels, whose settings commands change by 0, 5, 10 and 30 %.

python -m benchmarks.kernel_effects [MINUTES]      as root, on an idle machine; 6.5 minutes by default

Real servers in network namespaces, and three settings: the rate of a token bucket (`tbf`) at the source's interface;
the MTU there in front of a token bucket of a fixed rate, of which headers take a part; and the CPU quota of the
source's server by its cgroup. Each is an axis `tuning` of a study with `order: blocks`: commands apply, verify and
restore its values around every cell, as in a sweep. Each setting has a deployment of its own, and the three are
measured at once.

A family is five successive blocks of one setting with one value and the reference. The reference is measured once in a
block, for all values of it: families of different effects share it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr
import yaml
from tpcsweep.data import cell_files, folding
from tpcsweep.data.flags import SETTING_CHANGED
from tpcsweep.measuring.cell import measure
from tpcsweep.running import host_settings
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.sweeps.sweep import REPETITION, Cell
from tpcsweep.testbeds.loading import load
from tpcsweep.testbeds.netns.site import NetnsSite

from benchmarks.block_effects import BLOCKS, Counts, table
from benchmarks.site import site_of

MINUTES = 6.5
RATES, FRAMES, QUOTAS = NAMES = "rate (tbf)", "MTU", "CPU quota"
DATASET = "dataset.nc"
_OWN = "mount -t tmpfs tpcsweep /run/netns && mkdir -p /run/tpcsweep && mount -t tmpfs tpcsweep /run/tpcsweep"
ALONE = [
    "unshare",
    "--net",
    "--mount",
    "sh",
    "-c",
    f'ip link set lo up && mkdir -p /run/netns && {_OWN} && exec "$@"',
    "sh",
]
"""Start of a command that shares neither namespaces nor locks of deployments with others."""
BUILT = {"stock": 0.0, "same": 0.0, "five": 0.05, "ten": 0.1, "thirty": 0.3}
"""Gains of the values over the first one."""
MOST_BLOCKS = 500
CELL = {"tool": "native", "streams": 1, "file_size": "1 GiB", "xrootd": "system"}
SECONDS = 1.0
BANDWIDTH = 2.0  # Gbit/s of the path, more than settings allow
RATE = 500.0  # Mbit/s of the token bucket: servers write pieces of 1 MiB, which are 1 or 2 % of a cell
HEADERS, FRAME = 52, 14  # bytes of IP and TCP with timestamps, and of Ethernet
SMALLEST = 576
"""MTU of the reference. Linux advertises segments of a path of 552 bytes or more (net.ipv4.route.min_pmtu)."""
QUOTA, PERIOD = 3_000, 30_000  # µs of the reference: many periods in a cell


class Setting(NamedTuple):
    apply: Callable[[float], str]  # command that gives a gain over the reference
    verify: str
    restore: str
    most: float = 1.0  # largest possible gain


def settings_of(site: NetnsSite) -> Mapping[str, Setting]:
    """Return settings of the kernel of a site's source."""
    namespace = f"{site.prefix}-src1"
    shown = json.loads(
        subprocess.check_output(["ip", "-j", "-n", namespace, "link", "show", "dev", "tpc-eth"])
    )
    bucket = f"tc -n {namespace} qdisc replace dev tpc-eth root tbf burst 256kb latency 20ms rate"
    link, no_bucket = (
        f"ip -n {namespace} link set dev tpc-eth mtu",
        f"tc -n {namespace} qdisc delete dev tpc-eth root",
    )
    shows_mtu = f"ip -n {namespace} link show dev tpc-eth | grep -o 'mtu [0-9]*'"
    state = f"tc -n {namespace} qdisc show dev tpc-eth && {shows_mtu}"
    group = site.groups["src1"]
    folder = group.tree.cpu / group.name
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if group.tree.version == 1 else ("cpu.max",)

    def cpu(gain: float) -> str:
        time = round(QUOTA * (1 + gain))
        if group.tree.version == 2:
            return f"echo {time} {PERIOD} >{folder}/cpu.max"
        return f"cd {folder} && echo {PERIOD} >cpu.cfs_period_us && echo {time} >cpu.cfs_quota_us"

    free = f"echo max >{folder}/cpu.max" if group.tree.version == 2 else f"echo -1 >{folder}/cpu.cfs_quota_us"
    return {
        RATES: Setting(lambda gain: f"{bucket} {RATE * (1 + gain):.6g}mbit", state, no_bucket),
        FRAMES: Setting(
            lambda gain: f"{bucket} {RATE:g}mbit && {link} {mtu(gain)}",
            state,
            f"{no_bucket}; {link} {shown[0]['mtu']}",
            0.1,
        ),
        QUOTAS: Setting(cpu, f"cd {folder} && cat {' '.join(names)}", free),
    }


def mtu(gain: float) -> int:
    """Return the MTU whose share of payload is higher by a gain than that of SMALLEST, to the nearest byte."""
    share = (1 + gain) * (SMALLEST - HEADERS) / (SMALLEST + FRAME)
    return round((HEADERS + share * FRAME) / (1 - share))


def study_of(name: str, setting: Setting, folder: Path) -> SweepStudy:
    """Write a sweep and a testbed, and return their study."""
    values = {value: setting.apply(gain) for value, gain in BUILT.items() if gain <= setting.most}
    tuning = {"values": values, "verify": setting.verify, "restore": setting.restore}
    sweep = {
        "parameters": {**CELL, "tuning": [*values]},
        "measurement": {"until": "seconds", "seconds": f"{SECONDS:g} s", "interval": "20 ms"},
        "order": "blocks",
        "repetitions": MOST_BLOCKS,
        "seed": 2026,
    }
    word = "".join(filter(str.isalnum, name)).lower()
    files = {
        "sweep": (word, sweep),
        "testbed": (f"{word}-hosts", {"kind": "netns", "settings": {"tuning": tuning}}),
    }
    for stem, content in files.values():
        (folder / f"{stem}.yaml").write_text(yaml.safe_dump(content))
    configured = {key: str(folder / f"{stem}.yaml") for key, (stem, _) in files.items()}
    return load({**configured, "results": str(folder / "results")}, Path.cwd())  # type: ignore[return-value]


def measured(study: SweepStudy, cell: Cell, site: NetnsSite, log: Path) -> None:
    """Measure a cell with its setting in force, and write its file."""
    applied = study.testbed.applied_settings(cell.parameters)
    with host_settings.in_force(applied, log, lambda _: None) as force:
        assert force
        begun = cell_files.utc_timestamp()
        found = measure(
            site, cell.parameters, study.sweep.measurement, f"e{time.monotonic_ns()}", lambda *_: None
        )
        origin: Any = {"started": begun, **site.provenance, "settings": force.provenance}
        flags = (*found.flags, *([SETTING_CHANGED] if force.changed() else ()))
    cell_files.write_cell(
        study.cell_file(cell),
        cell_spec(study, cell),
        dataclasses.replace(found, provenance=origin, flags=flags),
    )


def blocks_of(study: SweepStudy) -> Iterator[list[Cell]]:
    """Yield the cells of each block, in their order."""
    order = sorted(study.grid.deployments, key=study.grid.priorities.__getitem__, reverse=True)
    cells = (cell for path in order for cell in study.grid.deployments[path])
    for _, block in itertools.groupby(cells, lambda cell: cell.repetition):
        yield [*block]


def folded(study: SweepStudy) -> xr.Dataset:
    files = {study.cell_file(cell): cell for cell in study.grid.cells if study.cell_file(cell).exists()}
    specs = (cell_spec(study, cell) for cell in files.values())
    return folding.fold(files, study.grid.axes, specs, 1, study.attributes).summary


def families(summary: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """Yield families of each value and the reference, of successive blocks without a failed cell."""
    throughput = summary["throughput"]
    whole = throughput.notnull().all([name for name in throughput.dims if name != REPETITION])
    blocks = summary[REPETITION].values[whole.values]
    reference, *values = summary["tuning"].values.tolist()
    for value, first in itertools.product(values, range(0, len(blocks) - BLOCKS + 1, BLOCKS)):
        yield value, summary.sel(tuning=[reference, value], repetition=blocks[first : first + BLOCKS])


def report(summaries: Mapping[str, xr.Dataset]) -> str:
    """Return a table for each setting, and one of all families."""
    every: dict[str, Counts] = {f"{gain:.0%}": Counts() for gain in BUILT.values()}
    texts = []
    for name, summary in summaries.items():
        rows = {f"{gain:.0%}": Counts() for gain in BUILT.values()}
        for value, family in families(summary):
            for counts in (rows, every):
                counts[f"{BUILT[value]:.0%}"].add(family, BUILT[value])
        texts.append(f"{name}\n\n{table(rows)}\n")
    return "\n".join([*texts, f"all\n\n{table(every)}"])


def measure_setting(name: str, minutes: float, folder: Path) -> None:
    """Measure blocks of a setting for so long, and write their dataset."""
    give_up = time.monotonic() + 60 * minutes
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    with site_of([str(CELL["tool"])], bandwidth=BANDWIDTH) as site:
        study = study_of(name, settings_of(site)[name], folder)
        for block in blocks_of(study):
            if time.monotonic() > give_up:
                break
            for cell in block:
                measured(study, cell, site, folder / "commands.log")
    folded(study).to_netcdf(folder / DATASET)


def main(minutes: float) -> None:
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as running:
        children = {}
        for number, name in enumerate(NAMES):
            folder = Path(place) / str(number)
            folder.mkdir()
            again = [sys.executable, "-m", "benchmarks.kernel_effects", name, str(minutes), str(folder)]
            children[name] = folder, running.enter_context(subprocess.Popen([*ALONE, *again]))
        if failed := [name for name, (_, child) in children.items() if child.wait()]:
            raise SystemExit(f"not measured: {', '.join(failed)}")
        print(report({name: xr.load_dataset(folder / DATASET) for name, (folder, _) in children.items()}))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        measure_setting(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES)
