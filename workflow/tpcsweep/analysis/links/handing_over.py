# SPDX-License-Identifier: Apache-2.0
"""Settings of links and storages for transfer services, from the measured links of a mesh. Nothing is sent.

FTS takes a link by `POST /config/links` and storages by `POST /config/se` (github.com/cern-fts/fts-rest-flask,
controllers/config and model/config.py). Rucio's transfer limits are those of its client's `set_transfer_limit`
(rucio-clients, client/requestclient.py); Rucio knows none for links.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from tpcsweep.analysis.links.link_rates import Floats, link_settings, mesh_of, require_mesh
from tpcsweep.analysis.links.verdicts import expected_rates
from tpcsweep.analysis.plans.law import plan_by_law
from tpcsweep.common.numbers import short
from tpcsweep.sweeps.parameters import LINK, Parameters, link_text
from tpcsweep.sweeps.problems import quoted, refused, suggest
from tpcsweep.sweeps.site_tables import read_table

MEASURED, BY_LAW = "measured", "not measured"
_ENOUGH = 0.95  # share of a link's best throughput that the most streams must reach
_FEWEST = 0.5  # share that the fewest streams must reach
_OPTIMIZER = (
    1  # FTS' optimizer changes the transfers of a link between its limits, and no streams inside transfers
)
_OWN_LIMITS = {"inbound": ("cpu_destination", "disk"), "outbound": ("cpu_source", "disk")}
"""Limits of a link that are those of its storage, by direction."""


@dataclass(frozen=True)
class LinkSetting:
    """Concurrent transfers of a link: the fewest with half of its best throughput, and with 95 % of it."""

    source: str
    destination: str
    throughput: float  # Gbit/s, with `max_active` transfers
    min_active: int
    max_active: int
    tcp_streams: int  # TCP connections of a transfer
    limit: str
    origin: str  # MEASURED or BY_LAW


def link_recommendations(
    summary: xr.Dataset, rtt: float | None = None, bandwidth: float | None = None
) -> tuple[list[LinkSetting], list[str]]:
    """Return the settings of a mesh's links, and notes about links without any.

    A link without a measurement gets the throughput that both sites reach on their other links, at most `bandwidth`,
    and the streams by the law of throughput at its own RTT, or at `rtt` (ms). Raises ConfigurationError without a mesh.
    """
    require_mesh(summary)
    settings = link_settings(summary)
    mesh, found = mesh_of(summary, settings), list[LinkSetting]()
    for (source, destination), rows in settings.groupby([*LINK], sort=False):
        if rows["streams"].notna().any():
            found.append(_measured(str(source), str(destination), rows, summary))
    known = {(each.source, each.destination) for each in found}
    expected, rtts = expected_rates(mesh), _declared_rtt(summary, rtt)
    missing = []
    for row, column in np.argwhere(mesh.wanted):
        at = mesh.sources[row], mesh.destinations[column]
        if at in known:
            continue
        rate, far = min(expected[row, column], bandwidth or math.inf), rtts[row, column]
        if math.isfinite(rate) and far > 0:
            found.append(_by_law(*at, rate, float(far), summary))
        else:
            missing.append(link_text(*at))
    notes = [] if not missing else [
        f"left out: {', '.join(missing)}: not measured, and without an RTT or other links of both sites; --rtt helps"
    ]  # fmt: skip
    return sorted(found, key=lambda each: (each.source, each.destination)), notes


def _measured(source: str, destination: str, rows: pd.DataFrame, summary: xr.Dataset) -> LinkSetting:
    rows = rows.dropna(subset="streams").sort_values("streams")
    shares = np.exp(rows["log"] - rows["log"].max())
    most, fewest = (rows[shares >= share].iloc[0] for share in (_ENOUGH, _FEWEST))
    connections = most["tcp_streams"] if "tcp_streams" in rows else summary.get("tcp_streams", 1)
    return LinkSetting(
        source,
        destination,
        float(np.exp(most["log"])),
        int(min(fewest["streams"], most["streams"])),
        int(most["streams"]),
        int(connections),
        str(most["limit"]),
        MEASURED,
    )


def _by_law(source: str, destination: str, rate: float, rtt: float, summary: xr.Dataset) -> LinkSetting:
    question: dict[str, Any] = {"target": rate, "rtt": rtt}
    for name in ("tcp_buffer", "file_size"):
        value = summary.coords.get(name)
        if value is not None and not value.ndim and np.isfinite(float(value)):
            question[name] = int(value)
    most = plan_by_law(question).rows[0].streams
    connections = Parameters().tcp_streams
    return LinkSetting(source, destination, rate, max(1, math.ceil(most / 2)), most, connections, "", BY_LAW)


def _declared_rtt(summary: xr.Dataset, otherwise: float | None) -> Floats:
    """Return the RTT of each link in ms: measured, declared, or `otherwise`."""
    links = summary["throughput"]
    others = [name for name in links.dims if name not in LINK]
    found = xr.full_like(links.isel(dict.fromkeys(others, 0), drop=True), np.nan)
    for values in (summary.get("rtt_idle"), summary.coords.get("rtt")):
        if values is not None and values.dtype.kind in "iuf":
            whole = values.broadcast_like(links).transpose(*links.dims)
            found = found.fillna(whole.where(whole > 0).median(others))
    return np.asarray(found.fillna(np.nan if otherwise is None else otherwise).transpose(*LINK).values, float)


def read_names(file: Path, settings: Sequence[LinkSetting]) -> dict[str, str]:
    """Read the storage of each site from a table with the columns site and storage.

    Raises ConfigurationError with file and line, also for a site of the settings without a storage.
    """
    sites = sorted({site for each in settings for site in (each.source, each.destination)})
    names: dict[str, str] = {}

    def name(_line: int, cells: Mapping[str, str]) -> None:
        site, storage = cells["site"], cells["storage"]
        if site not in sites or site in names or not storage:
            allowed = f"each site once with its storage: {suggest(site, sites, 20)}"
            raise refused("", quoted(f"{site},{storage}"), allowed)
        names[site] = storage

    read_table(file, ("site", "storage"), name)
    if lacking := [site for site in sites if site not in names]:
        raise refused("site", "nothing", f"a line for {', '.join(lacking)}", str(file))
    return names


def fts(settings: Sequence[LinkSetting], storages: Mapping[str, str]) -> dict[str, Any]:
    """Return the bodies of FTS' requests: one of `links` each for `/config/links`, and `se` for `/config/se`."""
    return {
        "links": [
            {
                "symbolicname": _symbolic_name(each),
                "source": storages[each.source],
                "destination": storages[each.destination],
                "min_active": each.min_active,
                "max_active": each.max_active,
                "nostreams": each.tcp_streams,
                "optimizer_mode": _OPTIMIZER,
                "no_delegation": False,
            }
            for each in settings
        ],
        "se": {
            storage: {
                "se_info": {
                    f"{direction}_max_{what}": value
                    for direction in _OWN_LIMITS
                    for what, value in _storage_limits(settings, site, direction).items()
                }
            }
            for site, storage in storages.items()
        },
    }


def _symbolic_name(setting: LinkSetting) -> str:
    marked = "" if setting.origin == MEASURED else "-not-measured"
    return f"tpcsweep-{setting.source}-{setting.destination}{marked}"


def _storage_limits(settings: Sequence[LinkSetting], site: str, direction: str) -> dict[str, float | None]:
    """Return transfers and throughput (MB/s) of a storage in one direction; None for no limit.

    If the storage itself limits its fastest link, that link fills it. Otherwise it can serve all its links at once as
    far as is known.
    """
    end = "destination" if direction == "inbound" else "source"
    links = [each for each in settings if getattr(each, end) == site]
    if not links:
        return {"active": None, "throughput": None}
    fastest = max(links, key=lambda each: each.throughput)
    if fastest.limit in _OWN_LIMITS[direction]:
        return {"active": fastest.max_active, "throughput": float(f"{fastest.throughput * 125:.4g}")}
    return {"active": sum(each.max_active for each in links), "throughput": None}


def rucio(settings: Sequence[LinkSetting], storages: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return arguments of `set_transfer_limit` of Rucio's client, for each storage and direction (D: destination)."""
    return [
        {
            "rse_expression": storage,
            "direction": letter,
            "max_transfers": limits["active"],
            "strategy": "fifo",
        }
        for site, storage in storages.items()
        for direction, letter in (("outbound", "S"), ("inbound", "D"))
        if (limits := _storage_limits(settings, site, direction))["active"] is not None
    ]


def as_csv(settings: Sequence[LinkSetting]) -> str:
    """Return the settings as CSV with a header; throughput in Gbit/s."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*LINK, "Gbit/s", "min_active", "max_active", "tcp_streams", "from"])
    for each in settings:
        table.writerow(
            [
                each.source,
                each.destination,
                short(each.throughput, 6),
                each.min_active,
                each.max_active,
                each.tcp_streams,
                each.origin,
            ]
        )
    return text.getvalue()
