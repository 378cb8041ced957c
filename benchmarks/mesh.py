# SPDX-License-Identifier: Apache-2.0
"""A mesh of twelve real XRootD servers, measured by an ordinary user who has the wheel alone: built and found.

python -m benchmarks.mesh FOLDER

The servers run in namespaces with paths of their own. One site and one direction between two others are slow, one site
has a certificate of another authority, one stops in the midst, and one asks for a pause. The run is killed, interrupted
as by Ctrl-C, and then goes to its end. Prints what was built and found, and keeps the results in FOLDER. Needs root and
up to twenty minutes; the rates are small, so that other work on the machine does not matter.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from tpcsweep.analysis.links.link_rates import mesh_of
from tpcsweep.analysis.links.sentences import sentences
from tpcsweep.analysis.links.verdicts import mesh_effects
from tpcsweep.data.labels import STATUS

from tests.support.farm import Farm, Uplink, farm_of
from tests.support.installers import Installer, configure, installed
from tests.support.workflow import started, wait_until

UPLINKS = {
    "A": Uplink("40mbit"),
    "B": Uplink("44mbit", rtt=5),
    "C": Uplink("48mbit", rtt=10),
    "D": Uplink("42mbit", slow_to={"E": "12mbit"}),
    "E": Uplink("46mbit"),
    "F": Uplink("40mbit", rtt=20),
    "G": Uplink("15mbit"),
    "H": Uplink("44mbit", trusted=False),
    "I": Uplink("42mbit"),
    "J": Uplink("48mbit"),
    "K": Uplink("40mbit", rtt=10),
    "L": Uplink("46mbit"),
}
GOALS = """source,destination,Gbit/s
A,B,30 Mbit/s
A,G,20 Mbit/s
D,E,30 Mbit/s
L,K,20 Mbit/s
"""
BUSY, STOPS = "J", "I"
PAUSE = 20  # s that the busy site asks for, once
SWEEP = {
    "parameters": {"tool": "native", "file_size": "2 MiB", "streams": 2},
    "measurement": {"until": "files", "files": 5, "max_time": "30 s", "interval": "0.5 s"},
    "seed": 0,
    "retry_share": 0,
}
STUDY = "links@farm"
RUN = ("snakemake", "--config", "sweep=links", "testbed=farm", "fail_on=all")


class Mesh:
    """The user's sweep."""

    def __init__(self, farm: Farm, user: Installer, folder: Path) -> None:
        self.farm, self.user, self.folder = farm, user, folder
        self.results = user.home / "sweeps/results" / STUDY

    def measured(self) -> dict[str, bytes]:
        """The cells that have been written, by their paths."""
        places = [self.results / name for name in ("cells", "staging")]
        files = {str(file.relative_to(place)): file for place in places for file in place.rglob("*.json")}
        contents = {path: file.read_bytes() for path, file in files.items()}
        return {path: content for path, content in contents.items() if b'"status":"ok"' in content}

    def run(self, name: str, end: Callable[[], object] | None = None, by: int = 0) -> int:
        """Run until something is true, then send a signal; return the exit code."""
        began, log, before = time.monotonic(), self.folder / f"{name}.log", spent_by_children()
        run = started(self.farm.inside(*self.user.asking(*RUN)), log)
        if end:
            wait_until(lambda: end() or run.poll() is not None, name, 1800, pause=0.2)
            assert run.poll() is None, log.read_text()
            # Ctrl-C reaches the whole group of the terminal, kill -9 the one process.
            (os.killpg if by == signal.SIGINT else os.kill)(run.pid, by)
        code = run.wait(1800)
        spent = f"{time.monotonic() - began:.0f} s, {spent_by_children() - before:.0f} CPU-s"
        print(f"{name}: {spent}, exit code {code}, {len(self.measured())} cells so far", flush=True)
        return code


def spent_by_children() -> float:
    """CPU time of all children that have ended, s, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def testbed(farm: Farm, urls: Mapping[str, str]) -> dict[str, Any]:
    made = farm.testbed(ca="~/ca", max_streams=2, goals="config/goals.csv")
    for site in made["sites"]:
        name = site["name"]
        site["urls"] = [urls.get(name, farm.url(name))]
        own = UPLINKS[name].rtt
        site["rtt"] = {
            other: f"{own + uplink.rtt + 0.3} ms" for other, uplink in UPLINKS.items() if other != name
        }
    return made


def measure(farm: Farm, user: Installer, folder: Path) -> Path:
    """Measure all links with a kill, a stop, Ctrl-C and a pause between; return the results."""
    mesh, count = Mesh(farm, user, folder), len
    with farm.front(BUSY) as front:
        urls = {BUSY: f"{front.url.replace('https', 'davs')}/data/test"}
        configure(user.home / "sweeps/config", {"sweeps/links": SWEEP, "testbeds/farm": testbed(farm, urls)})
        (user.home / "sweeps/config/goals.csv").write_text(GOALS)
        print(user.run("tpcsweep", "grid", "--sweep", "links", "--testbed", "farm"))
        mesh.run("until kill -9", lambda: count(mesh.measured()) >= 20, signal.SIGKILL)
        killed = mesh.measured()

        def far_enough() -> bool:
            done = count(mesh.measured())
            if done >= 30 and not front.retry_after:
                front.only, front.retry_after, front.refusals = "COPY", str(PAUSE), 1
            if done >= 45 and farm.processes[STOPS].poll() is None:
                farm.stop(STOPS)
            return done >= 60

        mesh.run("until Ctrl-C", far_enough, signal.SIGINT)
        interrupted = mesh.measured()
        mesh.run("to the end")
    last = mesh.measured()
    for when, cells in (("kill", killed), ("Ctrl-C", interrupted)):
        print(
            f"of {len(cells)} cells before {when}: {sum(last.get(path) == text for path, text in cells.items())} kept"
        )
    asked = ["--sweep", "links", "--testbed", "farm"]
    print(user.run("tpcsweep", "status", *asked))
    for refused in front.refused:
        pause = Counter(
            "its own" if f"={BUSY}/" in path else "other"
            for path, content in last.items()
            if 0 < began(content) - refused < PAUSE
        )
        print(f"{BUSY} asked for a pause of {PAUSE} s; cells that were started meanwhile: {dict(pause)}")
    index, by_hand = mesh.results / "index.html", user.home / "sweeps/by-hand.html"
    user.run("tpcsweep", "page", f"results/{STUDY}", "-o", by_hand.name)
    goals = [re.findall(r"\d+ goals: [^.]*\.", page.read_text())[:1] for page in (index, by_hand)]
    print(f"goals on the page of the run and on one made by hand: {goals}")
    left = {name: farm.files(name) for name in UPLINKS if name != STOPS}
    print(f"files left at the sites: {sum(map(len, left.values()))}; in the ledger: {len(user.ledger)}")
    return mesh.results


def began(cell: bytes) -> float:
    """When a cell was started, s since the epoch."""
    return datetime.fromisoformat(json.loads(cell)["provenance"]["started"]).timestamp()


def report(results: Path) -> None:
    with xr.open_dataset(results / "dataset.nc") as file:
        summary = file.load()
    status = summary["status"].squeeze()
    links = [*itertools.permutations(UPLINKS, 2)]
    counts = Counter(STATUS[int(status.sel(source=one, destination=other))] for one, other in links)
    print(f"{len(links)} links: {dict(counts)}")
    seconds = summary["duration"].squeeze().values
    print(f"a cell measures {np.nanmedian(seconds):.1f} s (median), {np.nanmax(seconds):.1f} s at most")
    for text in sentences(mesh_effects(mesh_of(summary))):
        print(f"- {text}")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with (
        farm_of(UPLINKS) as farm,
        tempfile.TemporaryDirectory() as work,
        installed(farm.pki, Path(work), "measure", "history") as user,
    ):
        print(f"servers and wheel: {time.monotonic() - began:.0f} s", flush=True)
        try:
            report(measure(farm, user, folder))
        finally:
            shutil.copytree(user.home / "sweeps", folder / "sweeps", dirs_exist_ok=True, symlinks=True)


if __name__ == "__main__":
    main()
