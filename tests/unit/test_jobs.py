# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.configuration.sweep import Group
from tpcsweep.running.rules import Jobs

names = st.lists(st.sampled_from(["0.1", "2", "10", "a.b", "a+b"]), min_size=1, max_size=4, unique=True)


@given(first=names, second=names, data=st.data())
def test_a_pattern_matches_its_deployments_and_no_others(
    first: list[str], second: list[str], data: st.DataObject
) -> None:
    everything = [f"x={a}/y={b}" for a, b in product(first, second)]
    chosen = data.draw(st.lists(st.sampled_from(everything), min_size=1, unique=True))
    pattern = re.compile(Jobs.pattern(Group(tuple(chosen), ())))
    assert [path for path in everything if pattern.fullmatch(path)] == [p for p in everything if p in chosen]
    assert not pattern.fullmatch("x=0X1/y=2")


def test_a_product_has_a_short_pattern() -> None:
    deployments = tuple(f"x={a}/y={b}" for a, b in product(range(100), range(100)))
    assert len(Jobs.pattern(Group(deployments, ()))) < 2000
