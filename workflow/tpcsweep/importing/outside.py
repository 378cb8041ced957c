# SPDX-License-Identifier: Apache-2.0
"""Measurements from elsewhere: a CSV or Parquet file becomes a dataset like those of sweeps.

`docs/importing.md` describes it for those who use it.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.configuration.imports import Column, Import, axis_dimension, variable_dimension
from tpcsweep.configuration.parameters import Value
from tpcsweep.configuration.problems import ConfigurationError, Problem, raise_any, refused, suggest
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.configuration.units import Dimension
from tpcsweep.dataset import IMPORTED, Folded, tabulate
from tpcsweep.dataset.labels import found_by
from tpcsweep.dataset.spreadsheets import as_written
from tpcsweep.extras import require
from tpcsweep.importing.rows import ALLOWED, ConditionError, meeting

MOST_CELLS = 10**6
"""A larger grid is taken for an accident: axes of values that hardly ever repeat."""


def bring(settings: Import, file: Path, name: str) -> Folded:
    """Read a table of measurements, each in a row of its own, as a dataset called `name`.

    Rows with the same values on all axes are repetitions of one cell, numbered in the order of the file.

    Raises:
        ConfigurationError: for a file that cannot be read as a table, a column that it does not have, a wrong
            condition or one that no row meets, a value that is no quantity of its axis or
            variable (with line or row, column, what it is and what is allowed), and a grid of more than MOST_CELLS
            cells.
    """
    table = read(file)
    _require_columns(settings, table, file)
    chosen = _chosen(table, settings.where, file)
    columns = {axis: _axis(settings, axis, chosen, file) for axis in settings.axes}
    axes = {axis: values for axis, (values, _) in columns.items()}
    places = [place for _, place in columns.values()]
    repetition = _repetition(places, len(chosen))
    axes[REPETITION] = tuple(range(1, int(repetition.max()) + 2))
    cells = math.prod(len(values) for values in axes.values())
    if cells > MOST_CELLS:
        grid = " × ".join(f"{len(values)} {axis}" for axis, values in axes.items())
        excess = f"{cells} cells ({grid}) for {len(chosen)} rows"
        raise refused("axes", excess, f"at most {MOST_CELLS}: group the values of an axis", str(file))
    figures = {
        variable: numbers(chosen, column, variable_dimension(variable), file)
        for variable, column in settings.variables.items()
    }
    record = _record(settings, file, len(table), len(chosen))
    attributes = _attributes(settings, file, name)
    return tabulate(axes, [*places, repetition], figures, settings.fixed_values(), record, attributes)


def history(settings: Import, folded: Folded, file: Path) -> str:
    """Say in a dataset's history that it was imported."""
    rows = int((folded.summary["status"] != 0).sum())
    where = f" where {settings.where}" if settings.where else ""
    return f"imported {rows} rows of {file.name}{where}"


def read(file: Path) -> pd.DataFrame:
    """Read a table, as text where the file is CSV. The index is the line in a CSV file, or the row, from 1.

    Raises:
        ConfigurationError: for what is no CSV with a header in UTF-8, and no Parquet.
        MissingExtraError: for Parquet without the extra `parquet`.
    """
    try:
        if file.suffix == ".csv":
            return _read_csv(file)
        if file.suffix == ".parquet":
            require("parquet")
            table = pd.read_parquet(file)
            return table.set_axis(pd.RangeIndex(1, len(table) + 1, name="row"))
    except ConfigurationError:
        raise
    # pyarrow's and Unicode errors are ValueErrors.
    except (csv.Error, OSError, ValueError, NotImplementedError) as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise refused("", said, "a table with a name for each column", str(file)) from error
    raise refused("", f"a file that ends in {file.suffix or 'no suffix'}", ".csv or .parquet", str(file))


def numbers(table: pd.DataFrame, column: Column, dimension: Dimension, file: Path) -> NDArray[np.float64]:
    """Give a column's values in the dimension's base unit.

    Raises:
        ConfigurationError: for what is no number, not finite, negative, or a part where the dimension is whole.
    """
    read = pd.to_numeric(table[column.column], errors="coerce").to_numpy(float)
    size = dimension.size(column.unit) or Decimal(1)
    # By way of decimals, so that 0.1 s is 100 ms; each different value once.
    distinct, place = np.unique(read, return_inverse=True)
    values = np.array([float(Decimal(repr(float(v))) * size) if np.isfinite(v) else np.nan for v in distinct])
    good = values >= 0
    if dimension.whole:
        good &= (values == np.floor(values)) & (values <= 2**53)  # beyond, floats are not whole numbers
    _require_all(good[place], table[column.column], _allowed(dimension, column.unit), file)
    return np.asarray(values[place])


def group(values: NDArray[np.float64], share: float, distance: float) -> NDArray[np.float64]:
    """Replace each value by the median of its group, the lower of two: so it is one of the values.

    Groups are filled upwards: from its smallest value v a group reaches to v·(1 + share) or v + distance,
    whichever is further, and the next value begins another.
    """
    begins: list[float] = []
    reach = -np.inf
    for value in np.unique(values):
        if value > reach:
            begins.append(value)
            reach = value + max(share * value, distance)
    series = pd.Series(values)
    groups = series.groupby(np.searchsorted(begins, values, side="right"))
    return np.asarray(groups.transform("quantile", 0.5, interpolation="lower"))


def _read_csv(file: Path) -> pd.DataFrame:
    lines, rows = [], []
    with file.open(encoding="utf-8-sig", newline="") as opened:
        reader = csv.reader(opened, strict=True)
        header = [as_written(name) for name in next(reader, [])]
        if not all(header) or len(set(header)) < max(1, len(header)):
            raise ValueError(f"the header {','.join(header)!r}")
        for row in reader:
            if row and len(row) != len(header):
                allowed = f"{len(header)}, as in the header"
                raise refused(f"line {reader.line_num}", f"{len(row)} values", allowed, str(file))
            if row:
                lines.append(reader.line_num)
                rows.append([as_written(value) for value in row])
    return pd.DataFrame(rows, pd.Index(lines, name="line"), header, dtype=str)


def _require_columns(settings: Import, table: pd.DataFrame, file: Path) -> None:
    wanted = {f"axes.{name}": axis.column for name, axis in settings.axes.items()}
    wanted |= {f"variables.{name}": column.column for name, column in settings.variables.items()}
    raise_any(
        Problem(f"{key}.column", repr(column), suggest(column, map(str, table.columns)), str(file))
        for key, column in wanted.items()
        if column not in table.columns
    )


def _chosen(table: pd.DataFrame, where: str | None, file: Path) -> pd.DataFrame:
    """The rows that meet the condition."""
    chosen = table
    if where is not None:
        try:
            chosen = table[meeting(table, where)]
        except ConditionError as error:
            raise refused("where", f"{where!r} ({error})", ALLOWED, str(file)) from error
    if chosen.empty:
        lack = f"{where!r}, which none of {len(table)} rows meets" if where else "a table without rows"
        raise refused("where" if where else "", lack, "at least one row", str(file))
    return chosen


def _axis(
    settings: Import, name: str, table: pd.DataFrame, file: Path
) -> tuple[tuple[Value, ...], NDArray[np.int64]]:
    """The values of an axis, numbers in order and words as they first occur, and the place of each row."""
    axis, dimension = settings.axes[name], axis_dimension(name)
    if dimension is not None:
        values = group(numbers(table, axis, dimension, file), *settings.tolerance(name))
        distinct, place = np.unique(values, return_inverse=True)
        kind = int if dimension.whole else float
        return tuple(kind(value) for value in distinct), place.astype(np.int64)
    words = table[axis.column].astype(str).str.strip()
    _require_all((words != "").to_numpy() & table[axis.column].notna().to_numpy(), words, "a word", file)
    place, distinct = pd.factorize(words)
    return tuple(map(str, distinct)), place.astype(np.int64)


def _repetition(places: list[NDArray[np.int64]], rows: int) -> NDArray[np.int64]:
    """For each row how many before it are of the same cell."""
    if not places:
        return np.arange(rows)
    return np.asarray(pd.DataFrame(dict(enumerate(places))).groupby(list(range(len(places)))).cumcount())


def _require_all(good: NDArray[np.bool_], column: pd.Series, allowed: str, file: Path) -> None:
    if good.all():
        return
    first = int(np.flatnonzero(~good)[0])
    others = int((~good).sum()) - 1
    value = repr(str(column.iloc[first])) + (f", and {others} more like it" if others else "")
    place = f"{column.index.name} {column.index[first]}, column {column.name}"
    raise refused(place, value, f"{allowed}; `where` leaves rows out", str(file))


def _allowed(dimension: Dimension, unit: str) -> str:
    number = "a whole number" if dimension.whole and not unit else "a number"
    return f"{number}{f' of {unit}' if unit else ''}, at least 0"


def _record(settings: Import, file: Path, rows: int, imported: int) -> dict[str, Any]:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return {
        "file": file.name,
        "sha256": digest,
        "rows": rows,
        "rows_imported": imported,
        "import": settings.model_dump(mode="json"),
    }


def _attributes(settings: Import, file: Path, name: str) -> Mapping[str, Any]:
    about = {
        "title": f"Throughput measured elsewhere, imported from {file.name}: {name}",
        **found_by([*settings.axes, REPETITION], f"measured elsewhere, imported from {file.name}"),
        "source": f"tpcsweep, {IMPORTED} from {file.name}",
        "references": settings.citation,
        "comment": settings.description,
        "sweep": name,
        "testbed": file.name,
        "testbed_kind": IMPORTED,
        "measured_from": "unknown",
        "measured_until": "unknown",
        **dict.fromkeys(("software", "host", "kernel", "cpu", "commit"), ""),
    }
    return about if settings.confidence is None else {**about, "measurement_confidence": settings.confidence}
