# SPDX-License-Identifier: Apache-2.0
"""Fold cells into the groups of a dataset over one grid, and write the groups to one file."""

import hashlib
import math
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any

import netCDF4
import numpy as np
import orjson
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.files import note_checksum, replacing_file
from tpcsweep.data import labels, reduction, similar_cells
from tpcsweep.data.cell_result import Provenance, SimulationRecord
from tpcsweep.data.groups import DatasetGroup, Series, TransferTable
from tpcsweep.data.reduction import DatasetError, Line, Reduced, Source, differences
from tpcsweep.data.variables import LIMITS, SUMMARY
from tpcsweep.sweeps.parameters import Parameters, Value, supporting_testbeds

_CHUNK_CACHE = 2**20
"""Bytes for each variable; slabs are whole chunks, and the library's default of 64 MB each would fill the memory."""

PATH = ("rtt", "bandwidth")  # parameters that testbeds of existing storage may declare
_AGAIN = "delete the file and run snakemake again"
_COMPRESSED = {"zlib": True, "complevel": 1, "shuffle": True}
"""Level 4 takes twice as long, and makes measured samples only 2 % smaller."""
_SPREAD = {
    f"throughput_{end}": f"{word} end of the throughput's spread over random parameter sets"
    for end, word in (("low", "lower"), ("high", "upper"))
}
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "status": {
        "long_name": "whether the cell was measured",
        "flag_values": np.arange(len(labels.STATUS), dtype=np.int8),
        "flag_meanings": " ".join(labels.STATUS),
    },
    "flags": labels.about_flags(),
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
"""Attributes of variables that are not figures; each is an attribute of `_Grid`."""


@dataclass(frozen=True)
class Folded:
    """Dataset in three groups with the same axes as coordinates; the two large groups are on disk."""

    summary: xr.Dataset  # group whose dimensions are the axes
    series: Series
    transfer_table: TransferTable

    @property
    def samples(self) -> xr.Dataset:
        """Time series in memory. Dimensions: axes, then `time` in s since the cell's start; NaN after its end."""
        return self.series.load()

    @property
    def transfers(self) -> xr.Dataset:
        """Transfers of all cells in memory, with the dimension `transfer`; every axis is a variable along it."""
        return self.transfer_table.load()


def cell_lines(file: Path, count: int) -> Iterator[Line]:
    """Yield the lines of a file that has one line for each of `count` cells.

    Raises DatasetError if the file has too few or too many lines.
    """
    number = 0
    with file.open("rb") as source:
        for number, text in enumerate(source, 1):
            if number > count:
                more = "of a cell that the grid does not contain"
                raise DatasetError(f"{file}, line {number}: {more}; {_AGAIN}")
            yield Line(file, number, text)
    if number < count:
        raise DatasetError(f"{file}, line {number + 1}: missing; {_AGAIN}")


def fold(
    sources: Iterable[Source],
    axes: Mapping[str, Sequence[Value]],
    wanted: Iterable[Mapping[str, Any]] | None = None,
    processes: int = 1,
    attributes: Mapping[str, Any] = MappingProxyType({}),
    set_aside: Callable[[Path, str], object] | None = None,
) -> Folded:
    """Fold cells into one dataset with one dimension for each axis.

    Points of the grid without a cell become NaN with the status "not_measured".

    `sources` are files of cells, or lines of a file (see `cell_lines`), in any order; `wanted` are their
    specifications. The axes include `repetition`. `processes` read sources if there are more than a few. The summary
    has the additional `attributes`. `set_aside` is called with each unusable file (damaged, or of another specification
    than the wanted one) and the reason, and the dataset marks the cell as not measured. Without `set_aside`, or without
    wanted specifications, an unusable source is an error. Raises DatasetError if a source is unusable, a cell is not in
    the grid, two cells are at one point, cells differ in a parameter that is no axis, there is no source, or a process
    died. The error names the first such source.
    """
    # An iterator, because the wanted specifications of 10⁵ cells would take hundreds of megabytes.
    pairs = zip(sources, repeat(None) if wanted is None else wanted, strict=wanted is not None)
    grid = _Grid(axes)
    with closing(reduction.reduced_cells(pairs, axes, processes)) as reduced:
        for cell in reduced:
            if cell.unusable:
                if set_aside is None:
                    raise DatasetError(f"{cell.source}: {cell.unusable}; {_AGAIN}")
                set_aside(Path(cell.source), cell.unusable)
            grid.add(cell)
    if grid.first is None:
        raise DatasetError("no cell files were given: a dataset needs at least one")
    if not grid.status.any():
        why = next(filter(None, grid.message), "")
        raise DatasetError(f"no cell was measured; reason for {grid.first}: {why}")
    interval = grid.fixed["measurement"]["interval"]
    return grid.folded(grid.fixed["parameters"], {**grid.about(), **attributes}, interval)


def tabulate(
    axes: Mapping[str, Sequence[Value]],
    places: Sequence[NDArray[np.int64]],
    figures: Mapping[str, NDArray[np.float64]],
    fixed: Mapping[str, Value],
    record: Mapping[str, Any],
    attributes: Mapping[str, Any],
    flags: Sequence[Iterable[str]] = (),
) -> Folded:
    """Return a dataset of measurements without cell files: one for each row, without samples or transfers.

    `places` has the indices of the rows' values on each axis, including `repetition`; no two rows belong to the same
    cell. `figures` has the rows' values of some of `data.variables.SUMMARY`, in their units. All rows share the `fixed`
    parameters and the provenance `record`. `flags` has the flags of each row, if any.
    """
    grid = _Grid(axes)
    at = np.ravel_multi_index(tuple(places), grid.shape)
    for name, values in figures.items():
        grid.figures[name][at] = values
    grid.status[at] = labels.STATUS.index("ok")
    for place, raised in zip(at, flags, strict=False):
        grid.flags[place] = labels.flag_bits(raised)
    grid.provenance[at] = grid.number(reduction.provenance_json(record))
    return grid.folded(fixed, attributes)


class _Grid:
    """Values of cells in arrays over the flattened grid, without objects per cell, for up to 10⁵ cells."""

    def __init__(self, axes: Mapping[str, Sequence[Value]]) -> None:
        self.axes = {name: tuple(values) for name, values in axes.items()}
        self.shape = tuple(map(len, self.axes.values()))
        self.series = Series(tuple(axes), self.shape)
        self.transfer_table = TransferTable(tuple(axes), self.shape)
        self.fixed: dict[str, Any] = {}  # common part of the specifications of all cells
        self.first: str | None = None
        size = math.prod(self.shape)
        self._all = np.full((len(SUMMARY), size), np.nan)
        self.figures = dict(zip(SUMMARY, self._all, strict=True))
        self.status = np.zeros(size, np.int8)
        self.flags = np.zeros(size, np.int32)
        self.limit, self.limit_second, self.message = (np.full(size, "", dtype=object) for _ in range(3))
        self.started = np.full(size, np.datetime64("NaT", "ns"), dtype="datetime64[ns]")
        self.provenance = np.full(size, -1, np.int32)
        self.records: dict[bytes, int] = {}  # distinct provenance records in JSON, with their numbers

    def add(self, cell: Reduced) -> None:
        at, row = cell.at, cell.row
        if self.first is None:
            self.first, self.fixed = cell.source, cell.fixed
        elif cell.fixed != self.fixed:
            raise DatasetError(
                f"{cell.source}: other settings than {self.first}: {differences(cell.fixed, self.fixed)}"
            )
        if self.status[at]:
            raise DatasetError(f"{cell.source}: another file was measured at the same point of the grid")
        self._all[:, at] = row.figures
        for name in _ATTRIBUTES.keys() - {"provenance"}:
            getattr(self, name)[at] = getattr(row, name)
        if row.provenance is not None:
            self.provenance[at] = self.number(row.provenance)
        if cell.samples is not None and cell.transfers is not None:
            self.series.add(at, cell.samples)
            self.transfer_table.add(at, cell.transfers)

    def number(self, record: bytes) -> int:
        return self.records.setdefault(record, len(self.records))

    def folded(
        self, fixed: Mapping[str, Value], attributes: Mapping[str, Any], interval: float = 1.0
    ) -> Folded:
        """Return the groups; `interval` is the time between samples in s."""
        if (
            attributes.get("testbed_kind") == labels.ENDPOINTS
        ):  # nobody knows how the servers of others are set up
            fixed = {
                name: fixed[name]
                for name in fixed
                if name in PATH
                or name not in Parameters.model_fields
                or labels.ENDPOINTS in supporting_testbeds(name)
            }
        known = labels.coordinates(self.axes, fixed)
        self.series.coordinates = self.transfer_table.coordinates = known
        # Each group is opened separately, so each needs these.
        common = ("title", "source", "testbed_kind", "comment")
        shared = {name: attributes[name] for name in common if name in attributes}
        self.series.attributes = self.transfer_table.attributes = shared
        self.series.interval = interval
        self._pool_lengths(interval)
        return Folded(self._summary(known, attributes), self.series, self.transfer_table)

    def _pool_lengths(self, interval: float) -> None:
        """Judge again by all cells which of them are too short, where the correlation of their batches is known."""
        figures = {name: values.reshape(self.shape) for name, values in self.figures.items()}
        ok = (self.status == labels.STATUS.index("ok")).reshape(self.shape)
        known, reasons = similar_cells.judged(figures, ok, interval)
        short, mask = np.any([*reasons.values()], axis=0).ravel(), labels.MASKS["too_short"]
        self.flags[known.ravel()] = np.where(short, self.flags | mask, self.flags & ~mask)[known.ravel()]

    def _summary(self, coordinates: Mapping[Hashable, Any], attributes: Mapping[str, Any]) -> xr.Dataset:
        axes = tuple(self.axes)
        # Tables of labels alone have no attributes.
        simulated = attributes.get("testbed_kind") == labels.SIMULATED
        about = {
            name: labels.variable_attributes(name, variable, simulated) for name, variable in SUMMARY.items()
        }
        if simulated:
            for name, meaning in _SPREAD.items():
                about[name]["comment"] = meaning
        variables = self.figures | {name: getattr(self, name) for name in _ATTRIBUTES}
        content: dict[str, Any] = {
            name: (axes, values.reshape(self.shape), (about | _ATTRIBUTES)[name])
            for name, values in variables.items()
        }
        nodes = [orjson.loads(record).get("nodes") or {} for record in self.records]
        for side in ("source", "destination"):
            # Index -1 selects the last name, which is empty.
            names = np.array([*(each.get(side, "") for each in nodes), ""], dtype=object)
            words = {"long_name": f"node of the {side}'s origins, or several; empty where it is not known"}
            content[f"{side}_node"] = (axes, names[self.provenance].reshape(self.shape), words)
        content["provenance_record"] = (
            "record",
            np.array([record.decode() for record in self.records], dtype=object),
            {"long_name": "where and with what cells were measured, as found, in JSON"},
        )
        return xr.Dataset(content, coordinates, attributes)

    def about(self) -> dict[str, Any]:
        spec = self.fixed
        testbed = spec["testbed"]
        simulated = testbed["kind"] == labels.SIMULATED
        records: list[Provenance] = [orjson.loads(record) for record in self.records]
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
        begun, until = np.datetime_as_string([started.min(), ended.max()], unit="s", timezone="UTC").tolist()
        # Simulated results have no time of measurement.
        covered = {} if simulated else {"time_coverage_start": begun, "time_coverage_end": until}
        return {
            "title": f"Throughput of XRootD HTTP third-party copies, {made}: sweep {spec['sweep']}",
            **labels.catalogue_attributes(self.axes, f"of third-party copies between XRootD servers, {made}"),
            "source": f"tpcsweep, {made} on testbed {testbed['name']} ({testbed['kind']})",
            "sweep": spec["sweep"],
            "testbed": testbed["name"],
            "testbed_kind": testbed["kind"],
            **{f"measurement_{name}": v for name, v in spec["measurement"].items() if v is not None},
            "measurement_units": labels.measurement_units(),
            "measured_from": begun,
            "measured_until": until,
            **covered,
            "software": ", ".join(f"{n} {' and '.join(sorted(v))}" for n, v in sorted(software.items())),
            **{
                name: ", ".join(sorted({str(record[name]) for record in records if record.get(name)}))
                for name in ("host", "kernel", "cpu", "commit")
            },
            **(_about_simulation([record["simulation"] for record in records]) if simulated else {}),
        }


def _about_simulation(records: Sequence[SimulationRecord]) -> dict[str, str]:
    inputs = dict.fromkeys(claim for record in records for claim in record["inputs"])
    assumed = {claim: why for record in records for claim, why in record["assumptions"].items()}
    return {
        "comment": "Simulated: computed from a model, not measured. throughput_low and throughput_high span "
        "random parameter sets within their stated ranges (variable provenance_record); docs/simulation.md.",
        "claims_used_as_inputs": " ".join(inputs),
        "claims_that_follow_from_assumptions": orjson.dumps(assumed).decode(),
    }


def write(folded: Folded, path: str | Path, done: str = "folded from cell files") -> None:
    """Write the groups atomically to one NetCDF 4 file, with `done` in the history, and its checksum."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"id": _identity(folded.summary), "date_created": now, "history": f"{now} tpcsweep: {done}"}
    summary = folded.summary.assign_attrs(about)
    with replacing_file(Path(path)) as part:
        summary.to_netcdf(part, mode="w", engine="netcdf4", encoding=netcdf_encoding(summary))
        _append(part, "samples", folded.series)
        _append(part, labels.TRANSFERS_GROUP, folded.transfer_table)
    note_checksum(Path(path))


def _identity(summary: xr.Dataset) -> str:
    """Return a UUID that depends only on the measurements, not on when they were folded."""
    about = [str(text).encode() for text in (summary.attrs["title"], *summary["provenance_record"].values)]
    digest = hashlib.sha256(b"\0".join([*about, summary["started"].values.tobytes()])).hexdigest()
    return uuid.uuid5(uuid.NAMESPACE_OID, digest).urn


def _append(path: Path, name: str, group: DatasetGroup) -> None:
    """Add a group to a file slab by slab, as xarray would write it at once."""
    outline = group.outline()
    bare = outline.drop_vars(outline.data_vars)
    bare.to_netcdf(path, mode="a", engine="netcdf4", group=name, encoding=netcdf_encoding(bare))
    with netCDF4.Dataset(path, "a") as file:
        target = file[name]
        for dimension in outline.sizes.keys() - bare.sizes.keys():
            target.createDimension(str(dimension), outline.sizes[dimension])
        # In a group without variables, xarray lists scalar coordinates in an attribute of the group.
        scalars = {"coordinates": target.coordinates} if "coordinates" in target.ncattrs() else {}
        for key in scalars:
            target.delncattr(key)
        encodings = netcdf_encoding(outline)
        for variable, values in outline.data_vars.items():
            encoding = encodings[variable]
            made = target.createVariable(
                str(variable),
                str if values.dtype == object else values.dtype,
                values.dims,
                chunksizes=values.encoding["chunksizes"],
                chunk_cache=_CHUNK_CACHE,
                fill_value=encoding.pop("_FillValue", None),
                **encoding,
            )
            made.setncatts({**values.attrs, **scalars})
        for changed, where, part in group.slabs():
            target[changed][where] = part


def netcdf_encoding(content: xr.Dataset) -> dict[Hashable, dict[str, Any]]:
    """Return encodings: compressed numbers, and NaN for gaps in floats; the rest has no fill value."""
    encoding: dict[Hashable, dict[str, Any]] = {}
    for name, variable in content.variables.items():
        kind = variable.dtype.kind
        encoding[name] = {}
        if kind == "M":
            encoding[name] = {"units": "seconds since 1970-01-01", "dtype": "float64", "_FillValue": np.nan}
        elif kind in "if":
            gaps = kind == "f" and name in content.data_vars
            compressed = _COMPRESSED if variable.ndim else {}
            encoding[name] = {"_FillValue": np.nan if gaps else None, **compressed}
    return encoding
