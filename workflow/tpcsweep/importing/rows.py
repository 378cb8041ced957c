# SPDX-License-Identifier: Apache-2.0
"""Which rows of a table meet a condition, such as `state == 'DONE' and streams <= 64`. Pure.

People send each other imports, so a condition is data: Python's parser reads it, and nothing of it is ever run.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.configuration.problems import suggest

ALLOWED = (
    "comparisons (==, !=, <, <=, >, >=, in [...], not in [...]) of columns of numbers with numbers, and of columns of "
    "text with texts in quotes, joined by and, or, not and brackets; `a name` of other signs than letters stands in "
    "backticks"
)

_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?P<name>[^`]+)`""")

Truth = NDArray[np.bool_]


class ConditionError(ValueError):
    """A text that is no condition on the table; the message names the wrong part."""


class _Operand(NamedTuple):
    """A column, or a number or text of the condition."""

    kind: str
    """numbers, text, or true and false."""
    values: Any
    called: str


def meeting(table: pd.DataFrame, condition: str) -> Truth:
    """Return for each row of a table whether it meets a condition.

    Columns are numbers where all their values are, and text otherwise. A missing value of text is "", and one of
    numbers is unequal to everything.

    Args:
        table: a table, with text in the columns of a CSV file.
        condition: comparisons as in `ALLOWED`.

    Raises:
        ConditionError: for a text that is no such condition, an unknown column, a comparison of text with numbers,
            and a column that alone is no condition.
    """
    tree, quoted = _parsed(condition)

    def operand(node: ast.expr) -> _Operand:
        if isinstance(node, ast.Name):
            name = quoted.get(node.id, node.id)
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

    def truth(node: ast.expr) -> Truth:
        if isinstance(node, ast.BoolOp):
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return np.asarray(join.reduce([truth(value) for value in node.values]))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~truth(node.operand)
        if isinstance(node, ast.Compare):
            places = (node.left, *node.comparators[:-1])
            pairs = zip(places, node.ops, node.comparators, strict=True)
            return np.asarray(np.logical_and.reduce([compared(*pair) for pair in pairs]))
        if not isinstance(node, ast.Name):
            raise _refused(node)
        kind, values, called = operand(node)
        if kind != "true and false":
            raise ConditionError(f"{called} has {kind}, and alone is no condition")
        return np.asarray(values)

    def compared(left: ast.expr, how: ast.cmpop, right: ast.expr) -> Truth:
        ours = operand(left)
        listed = isinstance(how, ast.In | ast.NotIn) and isinstance(right, ast.List | ast.Tuple)
        others = [operand(item) for item in (right.elts if listed else [right])]  # type: ignore[attr-defined]
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

    return truth(tree)


def _parsed(condition: str) -> tuple[ast.expr, dict[str, str]]:
    """The syntax tree of a condition, and the columns in backticks by their names in the tree."""
    quoted: dict[str, str] = {}

    def unquoted(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[0]
        quoted[name := f"_quoted_{len(quoted)}"] = match["name"]
        return name

    try:
        return ast.parse(_QUOTED.sub(unquoted, condition.strip()), mode="eval").body, quoted
    except (SyntaxError, ValueError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ConditionError(f"no expression: {said}") from error


def _refused(node: ast.expr) -> ConditionError:
    return ConditionError(f"{ast.unparse(node)} is none of them")


def _column(column: pd.Series) -> _Operand:
    name = f"the column {column.name}"
    if pd.api.types.is_bool_dtype(column):
        return _Operand("true and false", column.fillna(value=False).to_numpy(bool), name)
    if pd.api.types.is_datetime64_any_dtype(column):  # which would be nanoseconds
        column = column.astype("string")
    try:
        numbers = pd.to_numeric(column)
    except (ValueError, TypeError):
        texts = column.astype("string").fillna("")
        words = texts[pd.to_numeric(column, errors="coerce").isna() & (texts != "")]
        return _Operand("text", texts.to_numpy(object), f"{name} (as in {next(iter(words), '')!r})")
    missing = numbers.isna().any()
    return _Operand(
        "numbers", numbers.to_numpy(float, na_value=np.nan) if missing else numbers.to_numpy(), name
    )
