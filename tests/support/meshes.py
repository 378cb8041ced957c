# SPDX-License-Identifier: Apache-2.0
"""Meshes of sites whose slow sites and slow links are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from tpcsweep.analysis.links.link_rates import mesh_of
from tpcsweep.analysis.links.verdicts import MeshEffects, mesh_effects
from tpcsweep.data import folding
from tpcsweep.data.labels import flag_masks

from tests.support import synthetic
from tests.support.odd import rewrite

RATE = 2.0  # Gbit/s of a link between sites that nothing slows


def names(count: int) -> list[str]:
    return [f"S{number:02}" for number in range(1, count + 1)]


class Truth(NamedTuple):
    """Logarithms of the throughput of links, and the effects that add up to it."""

    logs: np.ndarray  # sources × destinations, NaN from a site to itself
    sources: np.ndarray
    destinations: np.ndarray
    pairs: np.ndarray


def truth(
    sites: Sequence[str],
    seed: int,
    *,
    sends: Mapping[str, float] | None = None,
    receives: Mapping[str, float] | None = None,
    links: Mapping[tuple[str, str], float] | None = None,
    site_spread: float = 0.1,
    pair_spread: float = 0.05,
) -> Truth:
    """Return a mesh with natural scatter of sites and pairs, and factors of slow sites and links."""
    random, count = np.random.default_rng(seed), len(sites)
    sources, destinations = random.normal(0, site_spread, (2, count))
    pairs = random.normal(0, pair_spread, (count, count))
    for effects, slow in ((sources, sends or {}), (destinations, receives or {})):
        for site, factor in slow.items():
            effects[sites.index(site)] += np.log(factor)
    for (source, destination), factor in (links or {}).items():
        pairs[sites.index(source), sites.index(destination)] += np.log(factor)
    logs = np.log(RATE) + sources[:, None] + destinations + pairs
    np.fill_diagonal(logs, np.nan)
    return Truth(logs, sources, destinations, pairs)


def measured(
    logs: np.ndarray,
    sites: Sequence[str],
    seed: int,
    *,
    streams: Mapping[int, float] = {1: 0.5, 4: 1.0},
    noise: float = 0.03,
    luck: float = 0.02,
    missing: Iterable[tuple[str, str]] = (),
    rtt: np.ndarray | None = None,
    limit: np.ndarray | None = None,
) -> xr.Dataset:
    """Return the dataset of one measurement of each link with each number of streams, which have factors.

    The intervals contain the noise of a cell, and not the luck of its link in this run.
    """
    random = np.random.default_rng([seed, 1])
    axes = {"source": [*sites], "destination": [*sites], "streams": [*streams], "repetition": [1]}
    shape = tuple(map(len, axes.values()))
    logs = logs[..., None, None] + np.log([*streams.values()])[:, None]
    logs = logs + random.normal(0, luck, logs.shape) + random.normal(0, noise, shape)
    for source, destination in missing:
        logs[sites.index(source), sites.index(destination)] = np.nan
    throughput = np.exp(logs)
    made = synthetic.bare(throughput, 1.96 * noise * throughput, axes)
    made["status"] = made["status"].where(np.isfinite(made["throughput"]), 0)
    if rtt is not None:
        made["rtt_idle"] = made["throughput"].dims, np.broadcast_to(rtt[..., None, None], shape).copy()
    limits = np.full(shape[:2], "bandwidth", object) if limit is None else limit
    made["limit"] = made["throughput"].dims, np.broadcast_to(limits[..., None, None], shape).copy()
    return made.assign_attrs(sweep="mesh", testbed="endpoints", testbed_kind="endpoints")


def waited(made: xr.Dataset, source: str, destination: str, rate: float) -> xr.Dataset:
    """The dataset after a link had a rate (Gbit/s) that is made of the pauses that a server asked for."""
    made, at = made.copy(deep=True), {"source": source, "destination": destination}
    for name in ("throughput", "throughput_low", "throughput_high"):
        made[name].loc[at] = rate
    made["flags"].loc[at] = made["flags"].loc[at] | flag_masks(made)["waited"]
    return made


def found_in(made: xr.Dataset) -> MeshEffects:
    return mesh_effects(mesh_of(made))


def named(found: MeshEffects, verdict: str = "slow") -> set[tuple[str, str]]:
    """Sites with their roles, and links, with a verdict."""
    sites = {(site.role, site.site) for site in found.sites if site.verdict == verdict}
    return sites | {(link.source, link.destination) for link in found.links if link.verdict == verdict}


def folded(folder: Path, made: xr.Dataset) -> Path:
    """Fold made-up cells with the throughput of a mesh, and return the file of their dataset."""
    axes = {str(name): made[name].values.tolist() for name in made["throughput"].dims}
    sites = axes["source"]
    outside = [{"source": site, "destination": site} for site in sites]
    lost = np.argwhere(np.isnan(made["throughput"].values).all(axis=(2, 3)))
    failed = [{"source": sites[row], "destination": sites[column]} for row, column in lost if row != column]
    cells = synthetic.write_sweep(folder, axes, kind="endpoints", missing=outside, failed=failed)
    file = folder / "dataset.nc"
    folding.write(folding.fold(cells, axes), file)

    def with_rates(summary: xr.Dataset) -> xr.Dataset:
        figures = [
            name
            for name in ("throughput", "throughput_low", "throughput_high", "limit", "rtt_idle", "flags")
            if name in made
        ]
        dims = made["throughput"].dims  # without the encoding of shorter texts
        return summary.assign({name: (dims, made[name].values, summary[name].attrs) for name in figures})

    rewrite(file, with_rates)
    return file
