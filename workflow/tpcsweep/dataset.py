"""Cell files folded into one labelled dataset, after the CF conventions where they have a word for it.

`docs/dataset.md` describes the result for those who read it.
"""

from __future__ import annotations

import itertools
import math
import os
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import xarray as xr

from tpcsweep.parameters import Parameters, Value, quantity
from tpcsweep.variables import FLAGS, LIMITS, ORIGIN_SAMPLES, SAMPLES, SUMMARY, TRANSFERS, Variable

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from numpy.typing import NDArray

FORMAT = 1
"""The version of cell files that this reads."""

STATUS = ("missing", "ok", "failed")
"""Meanings of the values of the variable `status`, from 0."""

SIMULATED = "simulation"
"""The kind of testbed in datasets that no measurement is in: their files, figures and tables all say so."""

IMPORTED = "imported"
"""The kind of testbed in datasets of measurements from elsewhere; see `outside`."""

TRANSFERS_GROUP = "transfer_times"
"""The group of single transfers; "transfers" is a figure, and NetCDF has one name for both."""

_DEFAULT = "default"  # stands for null on an axis of words: NetCDF has no null text
_REPETITION = "repetition"
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
_DERIVED = ("cell", "startup", "sending", "total", "rate")
"""Of `variables.TRANSFERS` those that cells' files have not: the others tell them."""
_LISTED = tuple(name for name in TRANSFERS if name not in _DERIVED)


class DatasetError(ValueError):
    """Cell files that do not fold into one dataset; the text names the file and what to do."""


@dataclass(frozen=True)
class Folded:
    """One dataset in three groups, all with the same axes as coordinates."""

    summary: xr.Dataset
    """Dimensions: the axes."""
    samples: xr.Dataset
    """Dimensions: the axes, then `time` in s since the cell's start; NaN where a cell had ended."""
    transfers: xr.Dataset
    """One dimension, `transfer`, over the transfers of all cells; every axis is a variable along it."""


def fold(
    files: Iterable[str | Path],
    axes: Mapping[str, Sequence[Value]],
    wanted: Mapping[Path, Mapping[str, Any]] | None = None,
) -> Folded:
    """Fold cell files into one dataset with a dimension for each axis.

    axes: the values of each axis in order, `repetition` among them. Points without a file become NaN with the
    status "missing". wanted: the specification that each file must have been measured under.

    Raises:
        DatasetError: for a file that is no cell file of this format, one that was measured under another
            specification than the wanted one, one that lies off the grid or shares its point with another,
            files that differ in what is no axis, and no file at all.
        OSError: for a file that cannot be read.
    """
    paths = [Path(file) for file in files]
    if not paths:
        raise DatasetError("no cell files were given: a dataset needs at least one")
    columns = _Columns.empty(axes)
    for path in paths:
        cell = _read(path)
        if wanted is not None:
            _check_wanted(path, cell["spec"], wanted)
        columns.add(path, cell)
    interval = columns.fixed["measurement"]["interval"]
    return Folded(columns.summary(columns.about_sweep()), columns.samples(interval), columns.transfers())


def tabulate(
    axes: Mapping[str, Sequence[Value]],
    places: Sequence[NDArray[np.int64]],
    figures: Mapping[str, NDArray[np.float64]],
    fixed: Mapping[str, Value],
    record: Mapping[str, Any],
    attributes: Mapping[str, Any],
) -> Folded:
    """Make a dataset of measurements that have no cell files: one a row, without flags, samples or transfers.

    axes: as of `fold`. places: for each axis the index of each row's value; no two rows are of one cell.
    figures: for some of `variables.SUMMARY` the value of each row, in its unit. fixed: parameters that are the
    same for all rows. record: the provenance of all rows. attributes: of the summary.
    """
    columns = _Columns.empty(axes)
    at = np.ravel_multi_index(tuple(places), columns.shape)
    for name, values in figures.items():
        columns.figures[name].flat[at] = values
    columns.status.flat[at] = STATUS.index("ok")
    columns.provenance.flat[at] = 0
    columns.records = {orjson.dumps(record, option=orjson.OPT_SORT_KEYS): 0}
    columns.fixed = {"parameters": fixed}
    return Folded(columns.summary(attributes), columns.samples(interval=1.0), columns.transfers())


def write(folded: Folded, path: str | Path, done: str = "folded from cell files") -> None:
    """Write the groups to one NetCDF 4 file: beside it, then renamed, so that it is whole or not there.

    done: what the dataset's history says of how it came about.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    summary = folded.summary.assign_attrs(history=f"{now} tpcsweep: {done}")
    with _beside(Path(path)) as beside:
        summary.to_netcdf(beside, mode="w", engine="netcdf4", encoding=_compressed(summary))
        for group, content in (("samples", folded.samples), (TRANSFERS_GROUP, folded.transfers)):
            content.to_netcdf(beside, mode="a", engine="netcdf4", group=group, encoding=_compressed(content))


def table(summary: xr.Dataset) -> pd.DataFrame:
    """Give a row for each cell: its place, status, throughput with interval, limit, flags in words, and message."""
    names = ["throughput", "throughput_low", "throughput_high", "limit", "duration", "warmup"]
    frame = summary[["status", *names, "flags", "message"]].reset_coords(drop=True).to_dataframe()
    frame["status"] = [STATUS[value] for value in frame["status"]]
    frame["flags"] = [flag_words(value) for value in frame["flags"]]
    if summary.attrs["testbed_kind"] == SIMULATED:
        frame["data"] = "simulated"
    return frame.reset_index()


def write_table(summary: xr.Dataset, path: str | Path) -> None:
    """Write the table of cells as CSV: beside it, then renamed."""
    with _beside(Path(path)) as beside:
        table(summary).to_csv(beside, index=False, float_format="%.6g")


def flagged(summary: xr.Dataset, flag: str) -> xr.DataArray:
    """Which cells carry one of `variables.FLAGS`, as booleans over the axes.

    Raises:
        KeyError: for what is no flag.
    """
    return (summary["flags"] & _MASKS[flag]) != 0


def flag_words(value: int) -> str:
    """Give the names of the flags in one value of the variable `flags`, with spaces between them."""
    return " ".join(flag for flag, mask in _MASKS.items() if value & mask)


def describe(name: str) -> Variable:
    """Unit and meaning of an axis or a fixed parameter; no unit for words, and for what is no parameter."""
    if name == _REPETITION:
        return Variable("1", "repetition of the cell")
    if name not in Parameters.model_fields:
        return Variable("", name)
    known = quantity(name)
    meaning = Parameters.model_fields[name].description or name
    return Variable((known.dimension.base or "1") if known else "", meaning)


_MASKS = {flag: 1 << bit for bit, flag in enumerate(FLAGS)}


@dataclass
class _Columns:
    """What the cells said, in arrays over the grid; no object per cell, as there may be 10⁵ of them."""

    axes: dict[str, tuple[Value, ...]]
    places: list[dict[Value, int]]
    shape: tuple[int, ...]
    figures: dict[str, NDArray[np.float64]]
    status: NDArray[np.int8]
    flags: NDArray[np.int32]
    limit: NDArray[np.object_]
    message: NDArray[np.object_]
    started: NDArray[np.datetime64]
    provenance: NDArray[np.int32]
    records: dict[bytes, int] = field(default_factory=dict)
    series: list[tuple[int, NDArray[np.int64], dict[str, NDArray[np.float32]]]] = field(default_factory=list)
    moved: list[tuple[int, dict[str, Sequence[Any]]]] = field(default_factory=list)
    fixed: dict[str, Any] = field(default_factory=dict)
    first: Path | None = None

    @classmethod
    def empty(cls, axes: Mapping[str, Sequence[Value]]) -> _Columns:
        shape = tuple(len(values) for values in axes.values())
        return cls(
            axes={name: tuple(values) for name, values in axes.items()},
            places=[{value: place for place, value in enumerate(values)} for values in axes.values()],
            shape=shape,
            figures={name: np.full(shape, np.nan) for name in SUMMARY},
            status=np.zeros(shape, np.int8),
            flags=np.zeros(shape, np.int32),
            limit=np.full(shape, "", dtype=object),
            message=np.full(shape, "", dtype=object),
            started=np.full(shape, np.datetime64("NaT"), dtype="datetime64[ns]"),
            provenance=np.full(shape, -1, np.int32),
        )

    def add(self, path: Path, cell: Mapping[str, Any]) -> None:
        """Put one cell in its place."""
        try:
            spec = cell["spec"]
            at = self._place(path, spec)
            self._check_fixed(path, spec)
            if self.status.flat[at]:
                raise DatasetError(f"{path}: another file was measured at the same point of the grid")
            self.status.flat[at] = {"ok": 1, "failed": 2}[cell["status"]]
            self.message.flat[at] = cell["message"]
            self.flags.flat[at] = sum(_MASKS[flag] for flag in cell["flags"])
            # Failed cells have none, nor have those that were measured before limits were judged.
            self.limit.flat[at] = cell.get("limit") or ""
            for name, value in cell["summary"].items():
                # Bytes that arrived before a cell failed are no throughput that its setting reaches.
                void = value is None or (cell["status"] == "failed" and name in _THROUGHPUT)
                self.figures[name].flat[at] = np.nan if void else value
            self._add_provenance(at, dict(cell["provenance"]))
            self._add_series(at, cell["samples"], spec["measurement"]["interval"])
            self._add_transfers(at, cell["transfers"])
        except (KeyError, TypeError, AttributeError) as error:
            raise DatasetError(f"{path}: not a cell file of format {FORMAT}: {error!r}") from error
        except ValueError as error:
            raise error if isinstance(error, DatasetError) else DatasetError(f"{path}: {error}") from error

    def _place(self, path: Path, spec: Mapping[str, Any]) -> int:
        index = []
        for name, places in zip(self.axes, self.places, strict=True):
            value = spec[_REPETITION] if name == _REPETITION else spec["parameters"][name]
            if value not in places:
                known = ", ".join(str(one) for one in places)
                raise DatasetError(f"{path}: {name} is {value!r}, and the grid has {known}")
            index.append(places[value])
        return int(np.ravel_multi_index(index, self.shape))

    def _check_fixed(self, path: Path, spec: Mapping[str, Any]) -> None:
        fixed = {
            **spec,
            "parameters": {k: v for k, v in spec["parameters"].items() if k not in self.axes},
            _REPETITION: None if _REPETITION in self.axes else spec[_REPETITION],
        }
        if self.first is None:
            self.first, self.fixed = path, fixed
        elif fixed != self.fixed:
            raise DatasetError(
                f"{path}: differs from {self.first} in what is no axis: {_differences(fixed, self.fixed)}"
            )

    def _add_provenance(self, at: int, provenance: dict[str, Any]) -> None:
        started = datetime.fromisoformat(provenance.pop("started"))
        self.started.flat[at] = np.datetime64(started.astimezone(UTC).replace(tzinfo=None), "ns")
        record = orjson.dumps(provenance, option=orjson.OPT_SORT_KEYS)
        self.provenance.flat[at] = self.records.setdefault(record, len(self.records))

    def _add_transfers(self, at: int, transfers: Mapping[str, Sequence[Any]]) -> None:
        moved = {name: transfers[name] for name in _LISTED}
        if len({len(values) for values in moved.values()}) > 1:
            raise ValueError("columns of transfers differ in length")
        self.moved.append((at, moved))

    def _add_series(self, at: int, samples: Mapping[str, Sequence[float | None]], interval: float) -> None:
        # Samples are some milliseconds late; their places are whole numbers of intervals.
        index = np.rint(np.asarray(samples.get("time", ()), float) / interval).astype(np.int64)
        if np.any(index < 0):
            raise ValueError("samples have times before the cell's start")
        names = set(samples) - {"time"}
        if unknown := names - set(SAMPLES) - set(ORIGIN_SAMPLES):
            raise KeyError(*sorted(unknown))
        # float() turns None into NaN, and float32 is finer than any counter's noise.
        series = {name: np.array(samples[name], dtype=np.float32) for name in sorted(names)}
        if wrong := [name for name, values in series.items() if values.shape[-1:] != index.shape]:
            raise ValueError(f"samples of {', '.join(wrong)} are not as many as times")
        self.series.append((at, index, series))

    def summary(self, attributes: Mapping[str, Any]) -> xr.Dataset:
        """Give the group of what each cell has one of."""
        dimensions = tuple(self.axes)
        content: dict[str, Any] = {
            name: (dimensions, values, _attributes(SUMMARY[name])) for name, values in self.figures.items()
        }
        if attributes["testbed_kind"] == SIMULATED:
            content = {
                name: (*head, about | {"long_name": f"simulated: {_SPREAD.get(name, about['long_name'])}"})
                for name, (*head, about) in content.items()
            }
        content["status"] = (
            dimensions,
            self.status,
            {
                "long_name": "whether the cell was measured",
                "flag_values": np.arange(len(STATUS), dtype=np.int8),
                "flag_meanings": " ".join(STATUS),
            },
        )
        content["flags"] = (
            dimensions,
            self.flags,
            {
                "long_name": "what to know before trusting the cell",
                "flag_masks": np.array(list(_MASKS.values()), dtype=np.int32),
                "flag_meanings": " ".join(_MASKS),
                "comment": "; ".join(f"{flag}: {meaning}" for flag, meaning in FLAGS.items()),
            },
        )
        content["limit"] = (
            dimensions,
            self.limit,
            {
                "long_name": "what bound the throughput; empty where there is none or it was not judged",
                "flag_meanings": " ".join(LIMITS),
                "comment": "; ".join(f"{limit}: {meaning}" for limit, meaning in LIMITS.items()),
            },
        )
        content["message"] = (dimensions, self.message, {"long_name": "what the tool said of a failed cell"})
        content["started"] = (dimensions, self.started, {"long_name": "when the cell was started, UTC"})
        content["provenance"] = (
            dimensions,
            self.provenance,
            {"long_name": "which of provenance_record the cell was measured under; -1: none"},
        )
        content["provenance_record"] = (
            "record",
            np.array([record.decode() for record in self.records], dtype=object),
            {"long_name": "where and with what cells were measured, as found, in JSON"},
        )
        return xr.Dataset(content, self._coordinates(), attributes)

    def samples(self, interval: float) -> xr.Dataset:
        """Give the group of time series; interval: s between samples."""
        # Only what occurs: long cells keep fewer samples.
        places = np.unique(np.concatenate([np.empty(0, np.int64), *(index for _, index, _ in self.series)]))
        content: dict[str, Any] = {}
        for name, about in SAMPLES.items():
            dimensions = (*self.axes, "time")
            content[name] = (dimensions, self._padded(name, (), places), _attributes(about))
        for name, about in ORIGIN_SAMPLES.items():
            origins = max((len(series[name]) for _, _, series in self.series if name in series), default=0)
            dimensions = (*self.axes, "origin", "time")
            content[name] = (dimensions, self._padded(name, (origins,), places), _attributes(about))
        time = places * interval
        clock = {"units": "s", "long_name": "time since the cell's start, to the nearest sampling interval"}
        return xr.Dataset(content, {**self._coordinates(), "time": ("time", time, clock)})

    def _padded(self, name: str, rows: tuple[int, ...], places: NDArray[np.int64]) -> NDArray[np.float32]:
        """One series of all cells, over the axes, rows (of origins, if any) and time; NaN where there is none."""
        padded = np.full((math.prod(self.shape), *rows, places.size), np.nan, np.float32)
        for at, index, series in self.series:
            if name in series:
                place = padded[at, : len(series[name])] if rows else padded[at]
                place[..., np.searchsorted(places, index)] = series[name]
        return padded.reshape(*self.shape, *rows, places.size)

    def transfers(self) -> xr.Dataset:
        """Give the group of single transfers: a table, as cells have very different numbers of them."""
        counts = np.array([len(moved["start"]) for _, moved in self.moved], dtype=np.int64)
        places = np.repeat(np.array([at for at, _ in self.moved], dtype=np.int64), counts)
        content: dict[str, Any] = {}
        coordinates = self._coordinates()
        for name, index in zip(self.axes, np.unravel_index(places, self.shape), strict=True):
            _, values, about = coordinates[name]
            content[name] = ("transfer", values[index], about)
        columns = {
            name: list(itertools.chain.from_iterable(moved[name] for _, moved in self.moved))
            for name in _LISTED
        }
        for name, values in _transfer_columns(columns, places).items():
            content[name] = ("transfer", values, _attributes(TRANSFERS[name]))
        return xr.Dataset(content)

    def _coordinates(self) -> dict[Hashable, Any]:
        coordinates: dict[Hashable, Any] = {
            name: (name, *_labels(name, values)) for name, values in self.axes.items()
        }
        for name, value in self.fixed["parameters"].items():
            labels, about = _labels(name, (value,))
            coordinates[name] = ((), labels[0], about)
        return coordinates

    def about_sweep(self) -> dict[str, Any]:
        """Give the attributes of a summary that was folded from cells."""
        spec = self.fixed
        simulated = spec["testbed"]["kind"] == SIMULATED
        records = [orjson.loads(record) for record in self.records]
        known = ~np.isnat(self.started)
        started = self.started[known]
        # Seconds that were simulated are not those that it took.
        lasted = np.nan_to_num(self.figures["duration"][known]) * (not simulated)
        ended = started + lasted.astype("timedelta64[s]")
        software: dict[str, set[str]] = {}
        for record in records:
            for name, version in (record.get("software") or {}).items():
                software.setdefault(name, set()).add(str(version))
        what = "simulated" if simulated else "measured"
        return {
            "title": f"Throughput of XRootD HTTP third-party copies, {what}: sweep {spec['sweep']}",
            "Conventions": "CF-1.11",
            "source": f"tpcsweep, {what} on testbed {spec['testbed']['name']} ({spec['testbed']['kind']})",
            "sweep": spec["sweep"],
            "testbed": spec["testbed"]["name"],
            "testbed_kind": spec["testbed"]["kind"],
            **{f"measurement_{name}": v for name, v in spec["measurement"].items() if v is not None},
            "measured_from": _iso(started.min()),
            "measured_until": _iso(ended.max()),
            "software": ", ".join(f"{n} {' and '.join(sorted(v))}" for n, v in sorted(software.items())),
            **{
                name: ", ".join(sorted({str(record[name]) for record in records if record.get(name)}))
                for name in ("host", "kernel", "cpu", "commit")
            },
            **(_of_simulation(records) if simulated else {}),
        }


def _of_simulation(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Attributes that simulated datasets have besides."""
    inputs = dict.fromkeys(claim for record in records for claim in record["simulation"]["inputs"])
    return {
        "comment": "Simulated: computed from a model, not measured. throughput_low and throughput_high span "
        "random parameter sets within their stated ranges (variable provenance_record); docs/simulation.md.",
        "claims_used_as_inputs": " ".join(inputs),
    }


def _transfer_columns(
    columns: Mapping[str, Sequence[Any]], places: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """Every one of `variables.TRANSFERS`: what cells' files list, and what follows from it. places: of the cells."""
    kinds: dict[str, Any] = dict.fromkeys(("stream", "number"), np.int32) | {"size": np.int64, "ok": np.int8}
    kinds |= dict.fromkeys(("message", "xrootd_direction"), object)
    found = {name: np.array(values, dtype=kinds.get(name, float)) for name, values in columns.items()}
    found |= {
        "cell": places,
        "startup": found["first_byte"] - found["start"],
        "sending": found["end"] - found["first_byte"],
        "total": found["end"] - found["start"],
    }
    found["rate"] = found["size"] * 8e-9 / np.maximum(found["total"], 1e-9)
    return {name: found[name] for name in TRANSFERS}


@contextmanager
def _beside(path: Path) -> Iterator[str]:
    """Give the name of an empty file in the same folder that becomes `path` if nothing is raised."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    try:
        yield beside
        Path(beside).chmod(0o644)  # mkstemp's are private
        Path(beside).replace(path)
    finally:
        Path(beside).unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        cell = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DatasetError(f"{path}: not JSON: {error}") from error
    if not isinstance(cell, dict) or cell.get("format") != FORMAT or not isinstance(cell.get("spec"), dict):
        given = cell.get("format") if isinstance(cell, dict) else None
        raise DatasetError(
            f"{path}: not a cell file of format {FORMAT} (its format is {given!r}): "
            "delete the file and run snakemake again"
        )
    return cell


def _check_wanted(path: Path, spec: Mapping[str, Any], wanted: Mapping[Path, Mapping[str, Any]]) -> None:
    if path not in wanted:
        raise DatasetError(f"{path}: no cell of this sweep; remove the file from those to fold")
    if spec != wanted[path]:
        raise DatasetError(
            f"{path}: measured under another specification: {_differences(spec, wanted[path])}; "
            "delete the file and run snakemake again"
        )


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> str:
    """Say which keys differ, nested ones with dots: parameters.rtt is 10, not 20."""
    texts = []
    for name in dict.fromkeys((*found, *wanted)):
        ours, theirs = found.get(name), wanted.get(name)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            texts += [_differences(ours, theirs, f"{prefix}{name}.")] if ours != theirs else []
        elif ours != theirs or (name in found) != (name in wanted):
            texts.append(f"{prefix}{name} is {_given(found, name)}, not {_given(wanted, name)}")
    return ", ".join(texts)


def _given(mapping: Mapping[str, Any], name: str) -> str:
    return orjson.dumps(mapping[name]).decode() if name in mapping else "absent"


def _labels(name: str, values: Sequence[Value]) -> tuple[NDArray[Any], dict[str, str]]:
    """Give the coordinate of an axis, without nulls, and its attributes."""
    about = describe(name)
    attributes = {"units": about.units} if about.units else {}
    attributes["long_name"] = about.long_name
    if not all(value is None or isinstance(value, int | float) for value in values):
        words = [_DEFAULT if value is None else str(value) for value in values]
        return np.array(words, dtype=object), attributes
    if None in values:
        # Of the parameters that are numbers, null means no limit.
        attributes["comment"] = "inf: no limit"
    if all(isinstance(value, int) for value in values):
        return np.array(values, dtype=np.int64), attributes
    numbers = [math.inf if value is None else float(value) for value in values]
    return np.array(numbers), attributes


def _attributes(variable: Variable) -> dict[str, str]:
    units = {"units": variable.units} if variable.units else {}
    return {**units, "long_name": variable.long_name}


def _iso(moment: np.datetime64) -> str:
    return f"{np.datetime_as_string(moment, unit='s')}Z"


def _compressed(content: xr.Dataset) -> dict[Hashable, dict[str, Any]]:
    """Encode: numbers compressed, gaps in floats as NaN, integers and coordinates without a fill value."""
    encoding: dict[Hashable, dict[str, Any]] = {}
    for name, variable in content.variables.items():
        if variable.dtype.kind == "M":
            encoding[name] = {"units": "seconds since 1970-01-01", "dtype": "float64", "_FillValue": np.nan}
        elif variable.dtype.kind in "if":
            gaps = variable.dtype.kind == "f" and name in content.data_vars
            encoding[name] = {"_FillValue": np.nan if gaps else None}
            if variable.ndim:
                encoding[name] |= {"zlib": True, "complevel": 4, "shuffle": True}
    return encoding
