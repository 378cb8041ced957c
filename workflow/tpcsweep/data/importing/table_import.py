# SPDX-License-Identifier: Apache-2.0
"""Tables of measurements from elsewhere as datasets like those of sweeps, by settings that name their columns."""

import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.common.extras import require_extra
from tpcsweep.data.cell_result import Summary
from tpcsweep.data.conditions import ALLOWED, ConditionError, rows_meeting
from tpcsweep.data.flag_rules import Evidence, raised_flags
from tpcsweep.data.folding import Folded, tabulate
from tpcsweep.data.importing.import_settings import Column, Import, axis_dimension, variable_dimension
from tpcsweep.data.labels import IMPORTED, catalogue_attributes
from tpcsweep.data.tables import unescape_formula
from tpcsweep.sweeps.parameters import Value
from tpcsweep.sweeps.problems import Problem, raise_any, refused, suggest
from tpcsweep.sweeps.sweep import REPETITION
from tpcsweep.sweeps.units import BANDWIDTH, Dimension

MOST_CELLS = 10**6
"""Most cells of an import; a larger grid comes by accident from axes whose values hardly ever repeat."""


def import_table(settings: Import, file: Path, name: str) -> Folded:
    """Read a table with `read_table`, and return `import_rows` of it."""
    return import_rows(settings, read_table(file, settings.separator, settings.encoding), file, name)


def read_table(file: Path, separator: str = ",", encoding: str = "utf-8") -> pd.DataFrame:
    """Read CSV, whose cells stay text, or Parquet. The index is the row under the header, from 1.

    Raises:
        ConfigurationError: If the file is no table with a name for each column.
        MissingExtraError: If the file is Parquet and the extra `parquet` is not installed.
    """
    allowed = "a table with a name for each column, read with `separator` and `encoding` of the settings"
    try:
        if file.suffix == ".parquet":
            require_extra("parquet")
            table = pd.read_parquet(file)
        else:
            # As a row, so that pandas neither renames columns nor makes an index of the first one.
            options = {"header": None, "dtype": str, "keep_default_na": False}
            rows = pd.read_csv(file, sep=separator, encoding=encoding, **options).fillna("")
            rows = rows.map(unescape_formula)
            table = rows[1:].set_axis(rows.iloc[0].str.strip(), axis=1)
    except (OSError, EOFError, zlib.error, LookupError, ValueError) as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise refused("", why, allowed, str(file)) from error
    if repeated := sorted(set(table.columns[table.columns.duplicated()]) - {""}):
        raise refused("", f"the column {repeated[0]} twice", allowed, str(file))
    return table.set_axis(pd.RangeIndex(1, len(table) + 1, name="row"))


def import_rows(
    settings: Import, table: pd.DataFrame, file: Path, name: str, skipped: tuple[str, ...] = ()
) -> Folded:
    """Return a table with one measurement in each row as a dataset called `name`.

    Rows with equal values on all axes are repetitions of one cell, numbered in the order of the file. `skipped` are
    notes on parts of the file that are not in the table.

    Raises:
        ConfigurationError: If a column is unknown, a condition is wrong or no row meets it, a value is no quantity of
            its axis or variable, or the grid has more than MOST_CELLS cells.
    """
    raise_any(_problems(settings, table, file))
    notes = [*skipped, *_repeated(table)]
    chosen = _chosen(table, settings, file)
    columns = {axis: _axis(settings, axis, chosen, file) for axis in settings.axes}
    axes = {axis: values for axis, (values, _) in columns.items()}
    places = [place for _, place in columns.values()]
    # For each row, the number of earlier rows of the same cell.
    cell_of = pd.DataFrame({-1: 0, **dict(enumerate(places))}, range(len(chosen)))
    repetition = np.asarray(cell_of.groupby(list(cell_of)).cumcount())
    axes[REPETITION] = tuple(range(1, int(repetition.max()) + 2))
    _require_few(axes, len(chosen), file)
    figures = {
        variable: _numbers(
            settings, chosen, column, variable_dimension(variable), file, gaps=variable != "throughput"
        )
        for variable, column in settings.variables.items()
    }
    _drop_stray_intervals(figures, chosen.index, notes)
    fixed = settings.fixed_values()
    width: Any = fixed.get("bandwidth", BANDWIDTH.at_most)
    if "bandwidth" in axes:
        width = np.asarray(axes["bandwidth"])[places[list(axes).index("bandwidth")]]
    flags = _flags(figures, width)
    invalid = np.array(["implausible" in raised for raised in flags], bool)
    places_of = _places(chosen.index[invalid])
    notes += [f"figures that nothing can carry are flagged implausible: {places_of}"] if invalid.any() else []
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    record = {"file": file.name, "sha256": digest, "rows": len(table), "rows_imported": len(chosen)}
    record |= {"import": settings.model_dump(mode="json"), "notes": notes}
    attributes = _attributes(settings, file, name)
    return tabulate(axes, [*places, repetition], figures, fixed, record, attributes, flags)


def import_notes(folded: Folded) -> list[str]:
    """Return a line for each skipped, changed or flagged part of an import."""
    return list(json.loads(str(folded.summary["provenance_record"].values[0]))["notes"])


def history_line(settings: Import, folded: Folded, file: Path) -> str:
    rows = int((folded.summary["status"] != 0).sum())
    where = f" where {settings.where}" if settings.where else ""
    return f"imported {rows} rows of {file.name}{where}"


def _read_numbers(column: pd.Series, decimal: str) -> pd.Series:
    """Return the numbers of a column; other cells become NaN."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    # The other mark may divide thousands, so it makes no number.
    marks = {decimal: ".", ".": "?"} if decimal != "." else {}
    return pd.to_numeric(column.astype("string").str.translate(str.maketrans(marks)), errors="coerce")


def _typed(column: pd.Series, decimal: str) -> pd.Series:
    """Return a column of text as numbers if all its cells that are not empty are numbers."""
    if isinstance(column.dtype, pd.StringDtype):
        cells, read = column.fillna("").str.strip(), _read_numbers(column, decimal)
        if (cells != "").any() and read[cells != ""].notna().all():
            return read
    return column


def _numbers(
    settings: Import,
    table: pd.DataFrame,
    column: Column,
    dimension: Dimension,
    file: Path,
    *,
    gaps: bool = False,
) -> NDArray[np.float64]:
    """Return a column in the dimension's base unit; reject all but finite numbers ≥ 0, and with `gaps` empty cells."""
    cells = table[column.column]
    read = _read_numbers(cells, settings.decimal).to_numpy(float, na_value=np.nan)
    # By decimals, so that 0.1 s is exactly 100 ms; each distinct value once.
    distinct, place = np.unique(read, return_inverse=True)
    size = dimension.units.get(column.unit, 1)
    exact = [float(Decimal(repr(float(v))) * size) if np.isfinite(v) else np.nan for v in distinct]
    values = np.array(exact)[place]
    good = values >= 0
    if dimension.whole:
        # floats above this are not exact whole numbers
        good &= (values == np.floor(values)) & (values <= 2**53)
    if gaps:
        good |= cells.isna().to_numpy() | (cells.astype(str).str.strip() == "").to_numpy()
    number = "a whole number" if dimension.whole and not column.unit else "a number"
    allowed = f"{number}{f' of {column.unit}' if column.unit else ''}, at least 0"
    _require_all(good, cells, allowed, file)
    return values + 0.0  # without the sign of -0.0


def _repeated(table: pd.DataFrame) -> list[str]:
    again = table.index[table.astype(str).duplicated()]
    alike = "rows alike with an earlier one in all columns count as repetitions"
    return [f"{alike}: {len(again)}, first row {again[0]}"] if len(again) else []


def _drop_stray_intervals(
    figures: Mapping[str, NDArray[np.float64]], lines: pd.Index, notes: list[str]
) -> None:
    """Drop intervals without their mean, which programs write for a single measurement: 0 to 0."""
    if "throughput_low" not in figures:
        return
    low, mean, high = (figures[f"throughput{end}"] for end in ("_low", "", "_high"))
    stray = ~((low <= mean) & (mean <= high))
    dropped = stray & ~(np.isnan(low) & np.isnan(high))
    if dropped.any():
        notes.append(f"intervals without their mean in them are dropped: {_places(lines[dropped])}")
    low[stray] = high[stray] = np.nan


def _flags(figures: Mapping[str, NDArray[np.float64]], bandwidth: Any) -> list[tuple[str, ...]]:
    """Return the flags of each row, as of a cell with these figures."""
    widths = np.broadcast_to(bandwidth, len(figures["throughput"])).tolist()
    flags = []
    for row, width in zip(pd.DataFrame(figures).to_dict("records"), widths, strict=True):
        known = {str(name): value for name, value in row.items() if value == value}
        flags.append(raised_flags(Evidence(status="ok", summary=Summary(known), bandwidth=width)))
    return flags


def _require_few(axes: Mapping[str, tuple[Value, ...]], rows: int, file: Path) -> None:
    """Refuse a grid with more than MOST_CELLS cells; the message names its largest axis, and remedies."""
    sizes = {axis: len(values) for axis, values in axes.items()}
    if (cells := math.prod(sizes.values())) <= MOST_CELLS:
        return
    grid = " × ".join(f"{size} {axis}" for axis, size in sizes.items())
    largest = max(sizes, key=sizes.__getitem__)
    is_number = largest != REPETITION and axis_dimension(largest) is not None
    fixes = f"fewer axes, {'`group` for its values, ' if is_number else ''}or fewer rows (`where`)"
    name = "repetition (the most rows of one cell)" if largest == REPETITION else largest
    allowed = f"at most {MOST_CELLS}. The largest axis is {name}. Use {fixes}"
    raise refused("axes", f"{cells} cells ({grid}) for {rows} rows", allowed, str(file))


def _places(lines: pd.Index) -> str:
    more = f" and {len(lines) - 5} more" if len(lines) > 5 else ""
    return f"{lines.name} {', '.join(map(str, lines[:5]))}{more}"


def group_values(values: NDArray[np.float64], share: float, distance: float) -> NDArray[np.float64]:
    """Replace each value by its group's median, the lower of two, so that the result is one of the values.

    Groups are filled upwards: a group reaches from its smallest value v to the larger of v·(1 + share) and v +
    distance; the next value starts another group.
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


def _problems(settings: Import, table: pd.DataFrame, file: Path) -> Iterator[Problem]:
    """Yield columns that the table lacks."""
    columns = {f"axes.{name}": axis.column for name, axis in settings.axes.items()}
    columns |= {f"variables.{name}": each.column for name, each in settings.variables.items()}
    for key, name in columns.items():
        if name not in table.columns:
            yield Problem(f"{key}.column", repr(name), suggest(name, map(str, table.columns)), str(file))


def _chosen(table: pd.DataFrame, settings: Import, file: Path) -> pd.DataFrame:
    chosen, where = table, settings.where
    if where is not None:
        try:
            chosen = table[rows_meeting(table.apply(_typed, decimal=settings.decimal), where)]
        except ConditionError as error:
            raise refused("where", f"{where!r} ({error})", ALLOWED, str(file)) from error
    if chosen.empty:
        lack = f"{where!r}, which none of {len(table)} rows meets" if where else "a table without rows"
        raise refused("where" if where else "", lack, "at least one row", str(file))
    return chosen


def _axis(
    settings: Import, name: str, table: pd.DataFrame, file: Path
) -> tuple[tuple[Value, ...], NDArray[np.int64]]:
    """Return an axis' values (numbers sorted, words in order of occurrence), and each row's index in them."""
    axis, dimension = settings.axes[name], axis_dimension(name)
    if dimension is not None:
        values = group_values(_numbers(settings, table, axis, dimension, file), *settings.tolerance(name))
        distinct, place = np.unique(values, return_inverse=True)
        kind = int if dimension.whole else float
        return tuple(kind(value) for value in distinct), place.astype(np.int64)
    words = table[axis.column].astype(str).str.strip()
    _require_all((words != "").to_numpy() & table[axis.column].notna().to_numpy(), words, "a word", file)
    place, distinct = pd.factorize(words)
    return tuple(map(str, distinct)), place.astype(np.int64)


def _require_all(good: NDArray[np.bool_], column: pd.Series, allowed: str, file: Path) -> None:
    if good.all():
        return
    first = int(np.flatnonzero(~good)[0])
    others = int((~good).sum()) - 1
    value = repr(str(column.iloc[first])) + (f", and {others} more like it" if others else "")
    place = f"{column.index.name} {column.index[first]}, column {column.name}"
    raise refused(place, value, f"{allowed}; `where` leaves rows out", str(file))


def _attributes(settings: Import, file: Path, name: str) -> Mapping[str, Any]:
    about = {
        "title": f"Throughput measured elsewhere, imported from {file.name}: {name}",
        **catalogue_attributes(
            [*settings.axes, REPETITION], f"measured elsewhere, imported from {file.name}"
        ),
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
