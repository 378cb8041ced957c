# SPDX-License-Identifier: Apache-2.0
"""Throughput and client CPU of one cell by tpcsweep and by the papers' bash loop of gfal-copy.

Both run in one deployment, in turn, so that a drift of the machine's speed affects both equally; ratios are computed
for each pair. In the loop, each client starts its next copy when one ends. It runs twice: with a user's environment,
and with that of tpcsweep's tools.

    python benchmarks/bash_loop.py       as root; about 6 minutes
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable

import numpy as np
from tpcsweep.deploying.linux.cgroups import Cgroup, hierarchy
from tpcsweep.measuring.cell import measure
from tpcsweep.measuring.readings import sampled_series
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Credentials
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns import ownership
from tpcsweep.testbeds.netns.site import NetnsSite

from benchmarks.site import site_of

SECONDS = 10.0
WARM_UP = 2.0
PAIRS = 6
CELLS = [Parameters(streams=4, file_size=64 << 20), Parameters(streams=16, file_size=64 << 20)]
HOW = Measurement(min_time=SECONDS, max_time=SECONDS)

LOOP = """
for stream in $(seq "$1"); do
  ( n=0; while :; do
      /usr/bin/gfal-copy --copy-mode pull "$2" "$3/loop.$stream.$n" >/dev/null && rm -f "$4/loop.$stream.$n"
      n=$((n + 1))
    done ) &
done
wait
"""

Found = tuple[float, float]
"""Gbit/s on the wire and client cores."""


def main() -> None:
    print("| streams | by | Gbit/s on the wire | client cores | throughput ratio | client CPU ratio |")
    print("|---|---|---|---|---|---|")
    for wanted in CELLS:
        with site_of(rtt=10.0, bandwidth=1.0) as site:
            compare(site, wanted)


def compare(site: NetnsSite, wanted: Parameters) -> None:
    """Measure one cell in three ways in turn. Ratios are tpcsweep over the other way."""
    credentials = Credentials(ownership.STATE / site.prefix.removeprefix("tpc-") / "credentials")
    trimmed = TOOLS["gfal-copy"].environment(credentials, credentials.folder)
    plain = {k: v for k, v in trimmed.items() if not k.startswith("SSL_CERT")}
    ways: dict[str, Callable[[int], Found]] = {
        "tpcsweep": lambda n: by_tpcsweep(site, wanted, n),
        "bash loop, environment as published": lambda _: by_loop(site, wanted, plain),
        "bash loop, environment of tpcsweep": lambda _: by_loop(site, wanted, trimmed),
    }
    found: dict[str, list[Found]] = {name: [] for name in ways}
    for number in range(PAIRS):
        for name, way in ways.items():
            found[name].append(way(number))
    ours = found["tpcsweep"]
    for name, rows in found.items():
        rate, cores = (statistics.median(column) for column in zip(*rows, strict=True))
        ratios = [statistics.median(a[i] / b[i] for a, b in zip(ours, rows, strict=True)) for i in range(2)]
        print(
            f"| {wanted.streams} | {name} | {rate:.3f} | {cores:.3f} | {ratios[0]:.3f} | {ratios[1]:.3f} |",
            flush=True,
        )


def by_tpcsweep(site: NetnsSite, wanted: Parameters, number: int) -> Found:
    found = measure(site, wanted, HOW, f"c{number}", lambda *_: None)
    assert found.status == "ok", found.message
    return steady({name: np.array(values, dtype=float) for name, values in found.samples.items()})


def by_loop(site: NetnsSite, wanted: Parameters, environment: dict[str, str]) -> Found:
    """Measure the papers' loop with the same sampler."""
    name = site.add_source(wanted.file_size, wanted.source_content, wanted.streams)
    [(source, destination)] = site.pairs("direct")
    group = Cgroup(hierarchy(), f"{site.prefix}-client")
    inside = ["nsenter", f"--net=/run/netns/{site.prefix}-client"]
    arguments = [str(wanted.streams), f"{source}/{name}", destination, str(site.sides["dst"].files)]
    command = [*group.entry(), *inside, "bash", "-c", LOOP, "loop", *arguments]
    with site.sampler(HOW) as sampler:
        loop = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(SECONDS)
    os.killpg(loop.pid, 9)
    loop.wait()
    site.settle()
    return steady(sampled_series(sampler.readings(), sampler.interval))


def steady(found: dict[str, np.ndarray]) -> Found:
    """Return means after the warm-up, which is a constant here, equal for all."""
    kept = found["time"] > WARM_UP
    return float(found["wire_throughput"][kept].mean()), float(found["client_cpu"][kept].mean())


if __name__ == "__main__":
    main()
