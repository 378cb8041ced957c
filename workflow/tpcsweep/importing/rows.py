# SPDX-License-Identifier: Apache-2.0
"""Which rows of a table meet a condition. Pure."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tpcsweep.configuration.condition import Condition, ConditionError, literal

_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

Truth = NDArray[np.bool_]


class _Operand(NamedTuple):
    """What is compared: a column, or a number or text of the condition."""

    kind: str
    """numbers, text, or true and false."""
    values: Any
    called: str


def meeting(table: pd.DataFrame, condition: Condition) -> Truth:
    """Say of each row of a table whether it meets a condition.

    Columns are numbers where all their values are, and text otherwise. A missing value of text is "", and one of
    numbers is unequal to everything.

    Args:
        table: a table, with text in the columns of a CSV file.
        condition: a condition on columns that the table has.

    Raises:
        ConditionError: for a comparison of text with numbers, and a column that alone is no condition.
    """
    columns = {name: _column(table[name]) for name in condition.columns}

    def operand(node: ast.expr) -> _Operand:
        if isinstance(node, ast.Name):
            return columns[condition.column(node)]
        value = literal(node)
        return _Operand("text" if isinstance(value, str) else "numbers", value, repr(value))

    def truth(node: ast.expr) -> Truth:
        if isinstance(node, ast.BoolOp):
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return np.asarray(join.reduce([truth(value) for value in node.values]))
        if isinstance(node, ast.UnaryOp):
            return ~truth(node.operand)
        if isinstance(node, ast.Compare):
            places = (node.left, *node.comparators[:-1])
            pairs = zip(places, node.ops, node.comparators, strict=True)
            return np.asarray(np.logical_and.reduce([compared(*pair) for pair in pairs]))
        kind, values, called = operand(node)
        if kind != "true and false":
            raise ConditionError(f"{called} has {kind}, and alone is no condition")
        return np.asarray(values)

    def compared(left: ast.expr, how: ast.cmpop, right: ast.expr) -> Truth:
        ours = operand(left)
        items = right.elts if isinstance(right, ast.List | ast.Tuple) else [right]
        for theirs in map(operand, items):
            if ours.kind != theirs.kind:
                raise ConditionError(f"{ours.kind} against {theirs.kind}: {ours.called} and {theirs.called}")
        if isinstance(how, ast.In | ast.NotIn):
            inside = np.isin(ours.values, np.array([operand(item).values for item in items], dtype=object))
            result = ~inside if isinstance(how, ast.NotIn) else inside
        else:
            result = _COMPARE[type(how)](ours.values, operand(right).values)
        return np.broadcast_to(np.asarray(result, dtype=bool), len(table))

    return truth(condition.tree)


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
