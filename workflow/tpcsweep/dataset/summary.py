# SPDX-License-Identifier: Apache-2.0
"""Group of per-cell values over the axes, with attributes that describe the measurement."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import orjson
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.dataset.labels import (
    MASKS,
    SIMULATED,
    STATUS,
    about_flags,
    attributes_of,
    found_by,
    units_of_measurement,
)
from tpcsweep.flags import IMPLAUSIBLE, implausible
from tpcsweep.variables import LIMITS, SUMMARY

_THROUGHPUT = {name for name in SUMMARY if name.startswith("throughput")}
_SPREAD = {
    f"throughput_{end}": f"{word} end of the throughput's spread over random parameter sets"
    for end, word in (("low", "lower"), ("high", "upper"))
}
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "status": {
        "long_name": "whether the cell was measured",
        "flag_values": np.arange(len(STATUS), dtype=np.int8),
        "flag_meanings": " ".join(STATUS),
    },
    "flags": about_flags(),
    "limit": {
        "long_name": "what bound the throughput; empty where there is none or it was not judged",
        "flag_meanings": " ".join(LIMITS),
        "comment": "; ".join(f"{limit}: {meaning}" for limit, meaning in LIMITS.items()),
    },
    "limit_second": {
        "long_name": "another limit whose share of the time is within 0.1 of the largest; empty without one",
    },
    "message": {
        "long_name": "the tool's message in a failed cell, or the reason why a cell was not measured"
    },
    "started": {"long_name": "when the cell was started, UTC"},
    "provenance": {
        "units": "1",
        "long_name": "which of provenance_record the cell was measured under; -1: none",
    },
}
"""Attributes of variables that are not figures; each is an attribute of `Summary`."""


class Row(NamedTuple):
    """Values of a cell that a dataset keeps."""

    status: int
    message: str
    flags: int
    limit: str
    limit_second: str
    figures: NDArray[np.float64]
    """Values of `variables.SUMMARY`, NaN if missing."""
    started: np.datetime64
    provenance: bytes | None
    """JSON without the start time, or None if nothing was measured."""


def hole(message: str) -> Row:
    """Return the row of an unmeasured cell; the message contains the reason."""
    nothing = np.full(len(SUMMARY), np.nan)
    return Row(STATUS.index("not_measured"), message, 0, "", "", nothing, np.datetime64("NaT", "ns"), None)


def row_of(cell: Mapping[str, Any]) -> Row:
    """Return the row of a cell file's content, flagged implausible if its figures are impossible.

    Raises:
        KeyError, TypeError, ValueError: If the content is not a cell.
    """
    figures, flags = cell["summary"], set(cell["flags"])
    if unknown := figures.keys() - SUMMARY.keys():
        raise KeyError(*sorted(unknown))
    if implausible(cell["status"], figures, cell["spec"]["parameters"]["bandwidth"]):
        flags.add(IMPLAUSIBLE)
    if cell["status"] == "failed":
        # Bytes that arrived before a cell failed say nothing about the throughput of its setting.
        figures = {name: value for name, value in figures.items() if name not in _THROUGHPUT}
    provenance = dict(cell["provenance"])
    started = datetime.fromisoformat(provenance.pop("started"))
    return Row(
        {"ok": 1, "failed": 2}[cell["status"]],
        cell["message"],
        sum(MASKS[flag] for flag in flags),
        # Failed cells, and cells measured before limits were judged, have none.
        cell.get("limit") or "",
        cell.get("limit_second") or "",
        np.array([figures.get(name) for name in SUMMARY], float),  # null becomes NaN
        np.datetime64(started.astimezone(UTC).replace(tzinfo=None), "ns"),
        json_of(provenance),
    )


def json_of(provenance: Mapping[str, Any]) -> bytes:
    return orjson.dumps(provenance, option=orjson.OPT_SORT_KEYS)  # equal records have equal bytes


class Summary:
    """Values of cells in arrays over the flattened grid, without objects per cell, for up to 10⁵ cells."""

    def __init__(self, axes: Sequence[str], shape: Sequence[int]) -> None:
        self._axes, self._shape = tuple(axes), tuple(shape)
        size = int(np.prod(shape, dtype=int))
        self._all = np.full((len(SUMMARY), size), np.nan)
        self.figures = dict(zip(SUMMARY, self._all, strict=True))
        self.status = np.zeros(size, np.int8)
        self.flags = np.zeros(size, np.int32)
        self.limit = np.full(size, "", dtype=object)
        self.limit_second = np.full(size, "", dtype=object)
        self.message = np.full(size, "", dtype=object)
        self.started = np.full(size, np.datetime64("NaT", "ns"), dtype="datetime64[ns]")
        self.provenance = np.full(size, -1, np.int32)
        self.records: dict[bytes, int] = {}
        """Distinct provenance records in JSON, with their numbers."""

    def add(self, at: int, row: Row) -> None:
        self._all[:, at] = row.figures
        for name in _ATTRIBUTES.keys() - {"provenance"}:
            getattr(self, name)[at] = getattr(row, name)
        if row.provenance is not None:
            self.provenance[at] = self.number(row.provenance)

    def number(self, record: bytes) -> int:
        """Return the number of a provenance record, adding it if it is new."""
        return self.records.setdefault(record, len(self.records))

    def dataset(self, coordinates: Mapping[Hashable, Any], attributes: Mapping[str, Any]) -> xr.Dataset:
        about = {name: attributes_of(variable) for name, variable in SUMMARY.items()}
        if attributes.get("testbed_kind") == SIMULATED:  # tables of labels alone have no attributes
            for name, words in about.items():
                words["long_name"] = f"simulated: {_SPREAD.get(name, words['long_name'])}"
        variables = self.figures | {name: getattr(self, name) for name in _ATTRIBUTES}
        content: dict[str, Any] = {
            name: (self._axes, values.reshape(self._shape), (about | _ATTRIBUTES)[name])
            for name, values in variables.items()
        }
        nodes = [orjson.loads(record).get("nodes") or {} for record in self.records]
        for side in ("source", "destination"):
            # Index -1 selects the last name, which is empty.
            names = np.array([*(each.get(side, "") for each in nodes), ""], dtype=object)
            words = {"long_name": f"node of the {side}'s origins, or several; empty where it is not known"}
            content[f"{side}_node"] = (self._axes, names[self.provenance].reshape(self._shape), words)
        content["provenance_record"] = (
            "record",
            np.array([record.decode() for record in self.records], dtype=object),
            {"long_name": "where and with what cells were measured, as found, in JSON"},
        )
        return xr.Dataset(content, coordinates, attributes)

    def about(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes that describe the measurement; `spec` is the common part of all specifications."""
        testbed = spec["testbed"]
        simulated = testbed["kind"] == SIMULATED
        records = [orjson.loads(record) for record in self.records]
        known = ~np.isnat(self.started)
        started = self.started[known]
        # Simulated seconds are not elapsed seconds.
        lasted = np.nan_to_num(self.figures["duration"][known]) * (not simulated)
        ended = started + lasted.astype("timedelta64[s]")
        software: dict[str, set[str]] = {}
        for record in records:
            for name, version in (record.get("software") or {}).items():
                software.setdefault(name, set()).add(str(version))
        made = "simulated" if simulated else "measured"
        begun, over = _iso(started.min()), _iso(ended.max())
        # Simulated results have no time of measurement.
        covered = {} if simulated else {"time_coverage_start": begun, "time_coverage_end": over}
        return {
            "title": f"Throughput of XRootD HTTP third-party copies, {made}: sweep {spec['sweep']}",
            **found_by(self._axes, f"of third-party copies between XRootD servers, {made}"),
            "source": f"tpcsweep, {made} on testbed {testbed['name']} ({testbed['kind']})",
            "sweep": spec["sweep"],
            "testbed": testbed["name"],
            "testbed_kind": testbed["kind"],
            **{f"measurement_{name}": v for name, v in spec["measurement"].items() if v is not None},
            "measurement_units": units_of_measurement(),
            "measured_from": begun,
            "measured_until": over,
            **covered,
            "software": ", ".join(f"{n} {' and '.join(sorted(v))}" for n, v in sorted(software.items())),
            **{
                name: ", ".join(sorted({str(record[name]) for record in records if record.get(name)}))
                for name in ("host", "kernel", "cpu", "commit")
            },
            **(_about_simulation([record["simulation"] for record in records]) if simulated else {}),
        }


def _about_simulation(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    inputs = dict.fromkeys(claim for record in records for claim in record["inputs"])
    # Earlier simulated datasets have none.
    assumed = {claim: why for record in records for claim, why in record.get("assumptions", {}).items()}
    return {
        "comment": "Simulated: computed from a model, not measured. throughput_low and throughput_high span "
        "random parameter sets within their stated ranges (variable provenance_record); docs/simulation.md.",
        "claims_used_as_inputs": " ".join(inputs),
        "claims_that_follow_from_assumptions": orjson.dumps(assumed).decode(),
    }


def _iso(moment: np.datetime64) -> str:
    return f"{np.datetime_as_string(moment, unit='s')}Z"
