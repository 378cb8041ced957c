# SPDX-License-Identifier: Apache-2.0
"""Grades of flags."""

import ast
import inspect
import itertools
import math
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.flags import BROKEN, FLAGS, GRADES, graded, implausible, worst
from tpcsweep.measure import cell
from tpcsweep.testbeds.simulation import result

SOME = st.lists(st.sampled_from(list(FLAGS)), unique=True)


@given(SOME, SOME)
def test_every_flag_has_a_grade_and_the_worst_is_that_of_all(some: list[str], others: list[str]) -> None:
    by_grade = [graded(some, grade) for grade in GRADES]
    assert sorted(itertools.chain(*by_grade)) == sorted(some)
    assert graded(some, *GRADES) == [flag for flag in FLAGS if flag in some]
    order = (None, *GRADES)
    assert order.index(worst(some + others)) == max(order.index(worst(some)), order.index(worst(others)))


def test_what_is_no_flag_is_refused_and_words_for_people_are_no_identifiers() -> None:
    for ask in (worst, graded):
        with pytest.raises(KeyError, match="unheard"):
            ask(["unheard"])
    words = {flag.words for flag in FLAGS.values()}
    assert len(words) == len(FLAGS)
    assert "_" not in "".join(words)


def test_every_flag_that_is_raised_has_a_grade() -> None:
    """By the sources, as no cell has them all."""

    def dicts(module: ModuleType) -> list[dict[str, ast.expr]]:
        nodes = ast.walk(ast.parse(inspect.getsource(module)))
        pairs = [zip(one.keys, one.values, strict=True) for one in nodes if isinstance(one, ast.Dict)]
        return [{key.value: value for key, value in one if isinstance(key, ast.Constant)} for one in pairs]

    [measured] = [one for one in dicts(cell) if "not_steady" in one]
    simulated = [one["flags"] for one in dicts(result) if "flags" in one]
    names = {node.value for each in simulated for node in ast.walk(each) if isinstance(node, ast.Constant)}
    assert {*measured, *names, BROKEN} <= set(FLAGS)
    assert {"not_steady", "files_missing"} <= names


FIGURES = {"throughput": 0.9, "throughput_low": -0.1, "duration": 10.0, "warmup": 5.0, "machine_cpu": 1.0}


@pytest.mark.parametrize(
    ("status", "figures", "wrong"),
    [
        ("ok", {}, False),
        ("ok", {"throughput": None}, True),
        ("ok", {"throughput": math.nan}, True),
        ("ok", {"throughput": -0.9}, True),
        ("ok", {"throughput_high": math.inf}, True),
        ("ok", {"source_cpu": -1.0}, True),
        # What had filled buffers during the warm-up arrives after it, but no more than the path has carried in all.
        ("ok", {"throughput": 2.0}, False),
        ("ok", {"throughput": 2.3}, True),
        ("ok", {"throughput": 2.0, "warmup": 0.0}, True),
        ("ok", {"throughput": 1.05, "duration": None}, False),
        ("ok", {"throughput_average": 1.2}, True),
        ("ok", {"wire_throughput": 1.2}, True),
        ("ok", {"machine_cpu": 1.2}, True),
        ("ok", {"retransmits": None}, False),
        ("failed", {"throughput": None}, False),
        ("failed", {"throughput": 9.0}, False),
        ("failed", {"duration": -1.0}, True),
    ],
)
def test_figures_that_cannot_be_are_told(status: str, figures: dict[str, float | None], wrong: bool) -> None:
    assert implausible(status, FIGURES | figures, 1.0) is wrong
