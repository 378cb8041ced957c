# SPDX-License-Identifier: Apache-2.0
"""Import of measurements from elsewhere: a table becomes a dataset like those of sweeps.

`docs/data.md` describes it for users.
"""

import ast
import hashlib
import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.cell_result import Summary
from tpcsweep.configuration.imports import Column, Import, axis_dimension, variable_dimension
from tpcsweep.configuration.parameters import Value
from tpcsweep.configuration.problems import Problem, quoted, raise_any, refused, suggest, validated
from tpcsweep.configuration.sweep import REPETITION
from tpcsweep.configuration.units import BANDWIDTH, Dimension
from tpcsweep.dataset import IMPORTED, Folded, tabulate
from tpcsweep.dataset.labels import catalogue_attributes
from tpcsweep.flag_rules import Evidence, raised_flags
from tpcsweep.importing.peers import proposal
from tpcsweep.importing.tables import UNIT_OF, numbers, read_table, settle_marks, settle_units, uncertain

MOST_CELLS = 10**6
"""Most cells of an import; a larger grid comes by accident from axes whose values hardly ever repeat."""


def import_table(settings: Import, file: Path, name: str) -> Folded:
    """Read a table with one measurement in each row as a dataset called `name`.

    Rows with equal values on all axes are repetitions of one cell, numbered in the order of the file.

    Raises:
        ConfigurationError: If the file is no table, a column is unknown, a condition is wrong or no row meets it, a
            value is no quantity of its axis or variable, or the grid has more than MOST_CELLS cells.
    """
    if settings.where is None and file.suffix in (".csv", ".tsv", ".tab"):
        _require_few_rows(_lines(file) // 2, file)  # half: cells in quotes may have several lines
    table = read_table(file)
    notes = list(table.attrs.get("notes", ()))
    raise_any(_problems(settings, table, file))
    measured = [axis.column for name, axis in settings.axes.items() if axis_dimension(name)]
    measured += [variable.column for variable in settings.variables.values()]
    settle_units(table, measured)
    commas = settle_marks(table, measured, settings.decimal)
    notes += [f"numbers have decimal commas: {', '.join(commas)}"] if commas else []
    chosen = _chosen(table, settings.where, file)
    _require_few_rows(len(chosen), file)
    columns = {axis: _axis(settings, axis, chosen, file) for axis in settings.axes}
    axes = {axis: values for axis, (values, _) in columns.items()}
    places = [place for _, place in columns.values()]
    # For each row, the number of earlier rows of the same cell.
    cell_of = pd.DataFrame({-1: 0, **dict(enumerate(places))}, range(len(chosen)))
    repetition = np.asarray(cell_of.groupby(list(cell_of)).cumcount())
    axes[REPETITION] = tuple(range(1, int(repetition.max()) + 2))
    _require_few(axes, len(chosen), file)
    figures = {
        variable: _numbers(chosen, column, variable_dimension(variable), file, gaps=variable != "throughput")
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


def import_settings(file: Path) -> tuple[str, Import | None, str]:
    """Return a table's name, its settings if a known program wrote it, and otherwise a proposal as YAML."""
    table = read_table(file)
    stem = re.sub(r"(\.(json|flent|csv|txt|gz))+$", "", file.name, flags=re.IGNORECASE)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("._-") or "imported"
    if "settings" in table.attrs:
        return name, validated(Import, table.attrs["settings"], str(file)), ""
    columns = list(table)
    settle_units(table, columns)
    proposed = proposal(table[columns], file)
    if len(columns) == 1 and "column: '?'" in proposed:
        allowed = "columns divided by commas, semicolons, tabs, bars or blanks"
        raise refused("", f"one column, {quoted(columns[0])}", allowed, str(file))
    return name, None, proposed


def import_notes(folded: Folded) -> list[str]:
    """Return a line for each skipped, changed or flagged part of an import."""
    return list(json.loads(str(folded.summary["provenance_record"].values[0]))["notes"])


def history_line(settings: Import, folded: Folded, file: Path) -> str:
    rows = int((folded.summary["status"] != 0).sum())
    where = f" where {settings.where}" if settings.where else ""
    return f"imported {rows} rows of {file.name}{where}"


def _numbers(
    table: pd.DataFrame, column: Column, dimension: Dimension, file: Path, *, gaps: bool = False
) -> NDArray[np.float64]:
    """Return a column in the dimension's base unit; reject all but finite numbers ≥ 0, and with `gaps` empty cells."""
    cells = table[column.column]
    for place, cell in uncertain(cells).items():
        given = f"{str(cell)!r}, of which the decimal mark is not certain"
        allowed = """`decimal: "."` or `decimal: ","` in the settings"""
        raise refused(f"{table.index.name} {place}, column {cells.name}", given, allowed, str(file))
    read = numbers(cells).to_numpy(float)
    units = pd.Series(column.unit, table.index) if column.unit_column is None else table[column.unit_column]
    units = units.astype(str).str.strip()
    units = table[own].fillna(units) if (own := UNIT_OF + column.column) in table else units
    sizes = {unit: dimension.size(unit) for unit in units.unique()}
    plain = [column.unit] if column.unit_column is None else []
    known = units.isin([*plain, *(unit for unit, size in sizes.items() if size)]).to_numpy()
    _require_all(known, units, f"one of {', '.join(dimension.units)}" if dimension.units else "no unit", file)
    values = np.full(len(read), np.nan)
    for unit, size in sizes.items():
        # By decimals, so that 0.1 s is exactly 100 ms; each distinct value once.
        distinct, place = np.unique(read[units == unit], return_inverse=True)
        exact = [float(Decimal(repr(float(v))) * (size or 1)) if np.isfinite(v) else np.nan for v in distinct]
        values[units == unit] = np.array(exact)[place]
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


def _drop_stray_intervals(
    figures: Mapping[str, NDArray[np.float64]], lines: pd.Index, notes: list[str]
) -> None:
    """Drop intervals without their mean, which programs write for a single measurement: 0 to 0."""
    if "throughput_low" not in figures:
        return
    low, mean, high = (figures[f"throughput{end}"] for end in ("_low", "", "_high"))
    stray = ~((low <= mean) & (mean <= high))
    told = stray & ~(np.isnan(low) & np.isnan(high))
    if told.any():
        notes.append(f"intervals without their mean in them are dropped: {_places(lines[told])}")
    low[stray] = high[stray] = np.nan


def _flags(figures: Mapping[str, NDArray[np.float64]], bandwidth: Any) -> list[tuple[str, ...]]:
    """Return the flags of each row, as of a cell with these figures."""
    widths = np.broadcast_to(bandwidth, len(figures["throughput"])).tolist()
    flags = []
    for row, width in zip(pd.DataFrame(figures).to_dict("records"), widths, strict=True):
        known = {str(name): value for name, value in row.items() if value == value}
        flags.append(raised_flags(Evidence(status="ok", summary=Summary(known), bandwidth=width)))
    return flags


def _lines(file: Path) -> int:
    with file.open("rb") as content:
        return sum(block.count(b"\n") for block in iter(partial(content.read, 1 << 20), b""))


def _require_few_rows(rows: int, file: Path) -> None:
    if rows > MOST_CELLS:
        allowed = f"at most {MOST_CELLS} rows: choose some with `where`, or import the file in parts"
        raise refused("", f"more than {MOST_CELLS} rows", allowed, str(file))


def _require_few(axes: Mapping[str, tuple[Value, ...]], rows: int, file: Path) -> None:
    """Refuse a grid with more than MOST_CELLS cells; the message names its largest axis, and remedies."""
    sizes = {axis: len(values) for axis, values in axes.items()}
    if (cells := math.prod(sizes.values())) <= MOST_CELLS:
        return
    grid = " × ".join(f"{size} {axis}" for axis, size in sizes.items())
    largest = max(sizes, key=sizes.__getitem__)
    is_number = largest != REPETITION and axis_dimension(largest) is not None
    fixes = f"fewer axes, {'`group` for its values, ' if is_number else ''}or fewer rows (`where`)"
    told = "repetition (the most rows of one cell)" if largest == REPETITION else largest
    allowed = f"at most {MOST_CELLS}. The largest axis is {told}. Use {fixes}"
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
    """Yield columns that the table lacks, and units that contradict the table's own."""
    asked: dict[str, tuple[Column, Dimension | None]]
    asked = {f"axes.{name}": (axis, axis_dimension(name)) for name, axis in settings.axes.items()}
    asked |= {
        f"variables.{name}": (each, variable_dimension(name)) for name, each in settings.variables.items()
    }
    encoding = table.attrs.get("encoding", "")
    read = f", read in {encoding}" if encoding.startswith("W") else ""
    for key, (column, dimension) in asked.items():
        for end, name in ("column", column.column), ("unit_column", column.unit_column):
            if name is not None and name not in table.columns:
                yield Problem(
                    f"{key}.{end}", repr(name), suggest(name, map(str, table.columns)) + read, str(file)
                )
        above = table.attrs.get("units", {}).get(column.column, "")
        if dimension and dimension.size(above) not in (None, dimension.size(column.unit)):
            yield Problem(
                f"{key}.unit", repr(column.unit), f"{above}, as the table's row of units has it", str(file)
            )


def _chosen(table: pd.DataFrame, where: str | None, file: Path) -> pd.DataFrame:
    try:
        chosen = table if where is None else table[rows_meeting(table, where)]
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
        values = group_values(_numbers(table, axis, dimension, file), *settings.tolerance(name))
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


# --- the rows that meet a condition, such as `state == 'DONE' and streams <= 64`. People exchange imports, so a
# condition is data: Python's parser reads it, but nothing of it is executed.

ALLOWED = (
    "comparisons (==, !=, <, <=, >, >=, in [...], not in [...]) of columns of numbers with numbers, and of columns of "
    "text with texts in quotes, joined by and, or, not and brackets; `a name` of other signs than letters stands in "
    "backticks"
)

_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?P<name>[^`]+)`""")

_Truth = NDArray[np.bool_]


class ConditionError(ValueError):
    """A text that is no condition on the table; the message names the wrong part."""


class _Operand(NamedTuple):
    """Column, or a number or text of the condition."""

    kind: str  # kind: numbers, text, or true and false
    values: Any
    called: str


def rows_meeting(table: pd.DataFrame, condition: str) -> _Truth:
    """Return for each row of a table whether it meets a condition as in `ALLOWED`. Raises ConditionError.

    A column is numeric if all its values are numbers, and text otherwise. A missing text is "", and a missing number is
    unequal to everything.
    """
    try:
        # A name in backticks becomes an index, which Python's parser knows: `a b` is _['a b'].
        text = _QUOTED.sub(lambda found: f"_[{found['name']!r}]" if found["name"] else found[0], condition)
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ConditionError(f"no expression: {said}") from error
    return _truth(tree, table)


def _truth(node: ast.expr, table: pd.DataFrame) -> _Truth:
    match node:
        case ast.BoolOp():
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return np.asarray(join.reduce([_truth(value, table) for value in node.values]))
        case ast.UnaryOp(op=ast.Not()):
            return ~_truth(node.operand, table)
        case ast.Compare():
            places = (node.left, *node.comparators[:-1])
            pairs = zip(places, node.ops, node.comparators, strict=True)
            return np.asarray(np.logical_and.reduce([_compared(*pair, table) for pair in pairs]))
        case ast.Name() | ast.Subscript():
            kind, values, called = _operand(node, table)
            if kind != "true and false":
                raise ConditionError(f"{called} has {kind} and needs a comparison")
            return np.asarray(values)
    raise _refused(node)


def _operand(node: ast.expr, table: pd.DataFrame) -> _Operand:
    match node:
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id="_"), slice=ast.Constant(value=str(name))):
            if name not in table.columns:
                raise ConditionError(f"no column {name}: {suggest(name, map(str, table.columns))}")
            return _column(table[name])
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        raise _refused(node) from None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _refused(node)
    return _Operand("text" if isinstance(value, str) else "numbers", value, repr(value))


def _compared(left: ast.expr, how: ast.cmpop, right: ast.expr, table: pd.DataFrame) -> _Truth:
    ours = _operand(left, table)
    listed = isinstance(how, ast.In | ast.NotIn) and isinstance(right, ast.List | ast.Tuple)
    items = right.elts if listed else [right]  # type: ignore[attr-defined]
    others = [_operand(item, table) for item in items]
    for theirs in others:
        if ours.kind != theirs.kind:
            raise ConditionError(f"{ours.kind} against {theirs.kind}: {ours.called} and {theirs.called}")
    if listed:
        inside = np.isin(ours.values, np.array([item.values for item in others], dtype=object))
        result = ~inside if isinstance(how, ast.NotIn) else inside
    elif type(how) in _COMPARE:
        result = _COMPARE[type(how)](ours.values, others[0].values)
    else:
        raise _refused(ast.Compare(left, [how], [right]))
    return np.broadcast_to(np.asarray(result, dtype=bool), len(table))


def _refused(node: ast.expr) -> ConditionError:
    return ConditionError(f"{ast.unparse(node)} is none of them")


def _column(column: pd.Series) -> _Operand:
    name = f"the column {column.name}"
    if pd.api.types.is_bool_dtype(column):
        return _Operand("true and false", column.fillna(value=False).to_numpy(bool), name)
    if pd.api.types.is_datetime64_any_dtype(column):  # as numbers they would be nanoseconds
        column = column.astype("string")
    read, texts = numbers(column), column.astype("string").fillna("")
    words = texts[read.isna() & ~texts.str.strip().str.lower().isin(["", "nan"])]
    if len(words) or read.isna().all():
        return _Operand("text", texts.to_numpy(object), f"{name} (as in {next(iter(words), '')!r})")
    values = read.to_numpy(float, na_value=np.nan) if read.isna().any() else read.to_numpy()
    return _Operand("numbers", values, name)
