# SPDX-License-Identifier: Apache-2.0
"""Rows of a table that meet a condition such as `state == 'DONE' and streams <= 64`, of imports and of claims.

People exchange imports, so a condition is data: Python's parser reads it, but nothing of it is executed.
"""

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
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?P<name>[^`]+)`""")

Truth = NDArray[np.bool_]


class ConditionError(ValueError):
    """A text that is no condition on the table; the message names the wrong part."""


class _Operand(NamedTuple):
    """Column, or a number or text of the condition."""

    kind: str  # kind: numbers, text, or true and false
    values: Any
    called: str


def rows_meeting(table: pd.DataFrame, condition: str) -> Truth:
    """Return for each row of a table whether it meets a condition as in `ALLOWED`. Raises ConditionError.

    Columns are numeric, boolean, or text by their type. A missing text is "", and a missing number is unequal to
    everything.
    """
    try:
        # A name in backticks becomes an index, which Python's parser knows: `a b` is _['a b'].
        text = _QUOTED.sub(lambda found: f"_[{found['name']!r}]" if found["name"] else found[0], condition)
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ConditionError(f"no expression: {why}") from error
    return _truth(tree, table)


def _truth(node: ast.expr, table: pd.DataFrame) -> Truth:
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


def _compared(left: ast.expr, how: ast.cmpop, right: ast.expr, table: pd.DataFrame) -> Truth:
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
    if pd.api.types.is_numeric_dtype(column):
        # Integers stay exact; pandas' own missing numbers become NaN.
        return _Operand(
            "numbers",
            column.to_numpy(float, na_value=np.nan) if column.isna().any() else column.to_numpy(),
            name,
        )
    texts = column.astype("string").fillna("")
    return _Operand("text", texts.to_numpy(object), f"{name} (as in {next(iter(texts), '')!r})")
