# SPDX-License-Identifier: Apache-2.0
"""Grades of flags."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.broken import BROKEN
from tpcsweep.flags import FLAGS, GRADES, graded, worst
from tpcsweep.measure import cell
from tpcsweep.testbeds.simulation import result

SOME = st.lists(st.sampled_from(list(FLAGS)), unique=True)


@given(SOME)
def test_every_flag_has_one_grade(flags: list[str]) -> None:
    by_grade = [graded(flags, grade) for grade in GRADES]
    assert sorted(itertools.chain(*by_grade)) == sorted(flags)
    assert graded(flags, *GRADES) == [flag for flag in FLAGS if flag in flags]


@given(SOME, SOME)
def test_the_worst_grade_is_that_of_the_worst_flag(some: list[str], others: list[str]) -> None:
    order = (None, *GRADES)
    assert order.index(worst(some + others)) == max(order.index(worst(some)), order.index(worst(others)))


def test_what_is_no_flag_is_refused() -> None:
    for ask in (worst, graded):
        with pytest.raises(KeyError, match="unheard"):
            ask(["unheard"])


def test_words_for_people_are_no_identifiers() -> None:
    words = [flag.words for flag in FLAGS.values()]
    assert len(set(words)) == len(FLAGS)
    assert not any("_" in text for text in words)


def dicts(module: ModuleType) -> Iterator[dict[str, ast.expr]]:
    """The dicts that a module's source writes down, but for keys that are no names."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}


def test_every_flag_that_is_raised_has_a_grade() -> None:
    """By the sources, as no cell has them all."""
    [measured] = [one for one in dicts(cell) if "not_steady" in one]
    [simulated] = [one["flags"] for one in dicts(result) if "flags" in one]
    names = {node.value for node in ast.walk(simulated) if isinstance(node, ast.Constant)}
    assert {*measured, *names, BROKEN} <= set(FLAGS)
    assert {"not_steady", "files_missing"} <= names
