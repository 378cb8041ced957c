"""The group of what each cell has one of, over the axes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson
import xarray as xr

from tpcsweep.dataset.labels import MASKS, SIMULATED, STATUS, about_flags, attributes_of
from tpcsweep.variables import LIMITS, SUMMARY

if TYPE_CHECKING:
    from numpy.typing import NDArray

_THROUGHPUT = {
    "throughput",
    "throughput_low",
    "throughput_high",
    "throughput_average",
    "throughput_max",
}
_SPREAD = {
    f"throughput_{end}": f"{word} end of the throughput's spread over random parameter sets"
    for end, word in (("low", "lower"), ("high", "upper"))
}


class Row(NamedTuple):
    """What a cell said, as a dataset keeps it."""

    status: int
    message: str
    flags: int
    limit: str
    figures: NDArray[np.float64]
    """Those of `variables.SUMMARY`, NaN for what the cell has not."""
    started: np.datetime64
    provenance: bytes | None
    """In JSON, without when it was started; None where nothing was measured."""


def hole(message: str) -> Row:
    """Give what a cell that was not measured has: why."""
    nothing = np.full(len(SUMMARY), np.nan)
    return Row(STATUS.index("not_measured"), message, 0, "", nothing, np.datetime64("NaT", "ns"), None)


def row_of(cell: Mapping[str, Any]) -> Row:
    """Give what a cell's file says. Raises KeyError, TypeError or ValueError for what is no cell."""
    found = cell["summary"]
    if unknown := found.keys() - SUMMARY.keys():
        raise KeyError(*sorted(unknown))
    if cell["status"] == "failed":
        # Bytes that arrived before a cell failed are no throughput that its setting reaches.
        found = {name: value for name, value in found.items() if name not in _THROUGHPUT}
    provenance = dict(cell["provenance"])
    started = datetime.fromisoformat(provenance.pop("started"))
    return Row(
        {"ok": 1, "failed": 2}[cell["status"]],
        cell["message"],
        sum(MASKS[flag] for flag in cell["flags"]),
        # Failed cells have none, nor have those that were measured before limits were judged.
        cell.get("limit") or "",
        np.array([found.get(name) for name in SUMMARY], float),  # None: NaN
        np.datetime64(started.astimezone(UTC).replace(tzinfo=None), "ns"),
        _json(provenance),
    )


def _json(provenance: Mapping[str, Any]) -> bytes:
    return orjson.dumps(provenance, option=orjson.OPT_SORT_KEYS)


class Summary:
    """What cells said, in arrays over the flattened grid; no object per cell, as there may be 10⁵ of them."""

    def __init__(self, axes: Sequence[str], shape: Sequence[int]) -> None:
        self._axes, self._shape = tuple(axes), tuple(shape)
        size = int(np.prod(shape, dtype=int))
        self._all = np.full((len(SUMMARY), size), np.nan)
        self.figures = dict(zip(SUMMARY, self._all, strict=True))
        self.status = np.zeros(size, np.int8)
        self.started = np.full(size, np.datetime64("NaT"), dtype="datetime64[ns]")
        self.records: dict[bytes, int] = {}
        """What cells were measured under, each different one once, in JSON."""
        self.provenance = np.full(size, -1, np.int32)
        self._flags = np.zeros(size, np.int32)
        self._limit = np.full(size, "", dtype=object)
        self._message = np.full(size, "", dtype=object)

    def add(self, at: int, row: Row) -> None:
        """Put a cell in its place."""
        self.status[at] = row.status
        self._message[at] = row.message
        self._flags[at] = row.flags
        self._limit[at] = row.limit
        self._all[:, at] = row.figures
        self.started[at] = row.started
        if row.provenance is not None:
            self.provenance[at] = self._number(row.provenance)

    def record(self, provenance: Mapping[str, Any]) -> int:
        """Give the number of a record of provenance, which is kept if it is another than those before."""
        return self._number(_json(provenance))

    def _number(self, record: bytes) -> int:
        return self.records.setdefault(record, len(self.records))

    def dataset(self, coordinates: Mapping[Hashable, Any], attributes: Mapping[str, Any]) -> xr.Dataset:
        """Give the group."""
        content: dict[str, Any] = {
            name: self._over(values, attributes_of(SUMMARY[name])) for name, values in self.figures.items()
        }
        if attributes.get("testbed_kind") == SIMULATED:  # tables of labels alone have no attributes
            content = {
                name: (*head, about | {"long_name": f"simulated: {_SPREAD.get(name, about['long_name'])}"})
                for name, (*head, about) in content.items()
            }
        content["status"] = self._over(
            self.status,
            {
                "long_name": "whether the cell was measured",
                "flag_values": np.arange(len(STATUS), dtype=np.int8),
                "flag_meanings": " ".join(STATUS),
            },
        )
        content["flags"] = self._over(self._flags, about_flags())
        content["limit"] = self._over(
            self._limit,
            {
                "long_name": "what bound the throughput; empty where there is none or it was not judged",
                "flag_meanings": " ".join(LIMITS),
                "comment": "; ".join(f"{limit}: {meaning}" for limit, meaning in LIMITS.items()),
            },
        )
        content["message"] = self._over(
            self._message,
            {"long_name": "what the tool said of a failed cell, or why a cell was not measured"},
        )
        content["started"] = self._over(self.started, {"long_name": "when the cell was started, UTC"})
        content["provenance"] = self._over(
            self.provenance,
            {"long_name": "which of provenance_record the cell was measured under; -1: none"},
        )
        content["provenance_record"] = (
            "record",
            np.array([record.decode() for record in self.records], dtype=object),
            {"long_name": "where and with what cells were measured, as found, in JSON"},
        )
        return xr.Dataset(content, coordinates, attributes)

    def _over(self, values: NDArray[Any], about: Mapping[str, Any]) -> tuple[Any, ...]:
        return self._axes, values.reshape(self._shape), about
