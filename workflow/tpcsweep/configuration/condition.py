# SPDX-License-Identifier: Apache-2.0
"""Conditions on the columns of a table, such as `state == 'DONE' and streams <= 64`.

Imports are files that people send each other, and so a condition is data: Python's parser reads it, what is more than
comparisons is refused here, and nothing of it is ever run. `importing.meeting` says which rows meet one.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

ALLOWED = (
    "comparisons (==, !=, <, <=, >, >=, in [...], not in [...]) of columns with numbers and texts in quotes, "
    "joined by and, or, not and brackets; `a name` of other signs than letters stands in backticks"
)

Literal = str | int | float

_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LONGEST = 10_000  # signs
_DEEPEST = 50  # brackets in brackets
_LARGEST = 2**63 - 1  # the largest whole number that columns have
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?P<name>[^`]+)`""")


class ConditionError(ValueError):
    """What is no condition; the text says which part is none."""


@dataclass(frozen=True)
class Condition:
    """A condition that was found to have nothing but what `ALLOWED` says."""

    tree: ast.expr
    quoted: Mapping[str, str]
    """Columns whose names were in backticks, by what the tree calls them."""

    def column(self, name: ast.Name) -> str:
        """Give the column that a name means."""
        return self.quoted.get(name.id, name.id)

    @property
    def columns(self) -> list[str]:
        """The columns that it names, each once."""
        names = (node for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        return list(dict.fromkeys(map(self.column, names)))


def read(text: str) -> Condition:
    """Read a condition.

    Raises:
        ConditionError: for what is no expression, or has more in it than `ALLOWED` says.
    """
    if len(text) > _LONGEST:
        raise ConditionError(f"{len(text)} signs, of {_LONGEST} at most")
    quoted: dict[str, str] = {}

    def unquoted(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[0]
        name = f"_quoted_{len(quoted)}"
        quoted[name] = match["name"]
        return name

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of signs behind a backslash
            tree = ast.parse(_QUOTED.sub(unquoted, text.strip()), mode="eval").body
        _require_truth(tree, _DEEPEST)
    except ConditionError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ConditionError(f"no expression: {said}") from error
    return Condition(tree, quoted)


def literal(node: ast.expr) -> Literal | None:
    """Give the number or text that a node is; None for another node."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign, node = (-1 if isinstance(node.op, ast.USub) else 1), node.operand
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return None
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return None
    if isinstance(node.value, int):
        return sign * node.value if node.value <= _LARGEST else None
    if isinstance(node.value, float):
        return sign * node.value
    return node.value if isinstance(node.value, str) else None


def _require_truth(node: ast.expr, depth: int) -> None:
    """Raise ConditionError for what is neither true nor false, or is so by more than `ALLOWED` says."""
    if not depth:
        raise ConditionError(f"more than {_DEEPEST} brackets in each other")
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            _require_truth(value, depth - 1)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _require_truth(node.operand, depth - 1)
    elif isinstance(node, ast.Compare):
        _require_operand(node.left)
        for operator, value in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.In | ast.NotIn) and len(node.ops) == 1:
                _require_list(value)
            elif isinstance(operator, _COMPARISONS):
                _require_operand(value)
            else:
                raise _refused(node)
    elif not isinstance(node, ast.Name):  # a column that is true or false itself
        raise _refused(node)


def _require_operand(node: ast.expr) -> None:
    if not isinstance(node, ast.Name) and literal(node) is None:
        raise _refused(node)


def _require_list(node: ast.expr) -> None:
    if not isinstance(node, ast.List | ast.Tuple):
        raise _refused(node)
    for item in node.elts:
        if literal(item) is None:
            raise _refused(item)


def _refused(node: ast.expr) -> ConditionError:
    shown = ast.unparse(node)
    return ConditionError(f"{shown if len(shown) <= 60 else shown[:60] + '…'} is none of them")
