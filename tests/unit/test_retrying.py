# SPDX-License-Identifier: Apache-2.0
"""The choice of cells to measure again, and of one of two measurements."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.flags import graded
from tpcsweep.running.runner import CAUSES, better, cells_to_retry
from tpcsweep.variables import CPU_LIMITS


def cell(
    *flags: str,
    status: str = "ok",
    limit: str | None = "bandwidth",
    work: float | None = 0.25,
    throughput: float = 1.0,
) -> dict[str, Any]:
    return {
        "status": status,
        "flags": [*flags],
        "limit": limit,
        "summary": {"throughput": throughput, "machine_work": work},
        "provenance": {"started": "2026-01-01"},
    }


CELLS = st.builds(
    cell,
    *[st.sampled_from([*CAUSES, "wide_interval", "deployment_broken"])] * 2,
    status=st.sampled_from(["ok", "failed"]),
    limit=st.sampled_from([None, "bandwidth", *CPU_LIMITS]),
    work=st.none() | st.floats(0.1, 1),
    throughput=st.floats(0, 10),
) | st.builds(cell, throughput=st.floats(0, 10))


@given(st.lists(CELLS, max_size=10), st.floats(0, 1))
def test_a_share_of_the_cells_is_chosen_failed_ones_first(cells: list[dict[str, Any]], share: float) -> None:
    found = cells_to_retry(cells, share)
    assert len(found) == len(set(found)) <= math.ceil(share * len(cells))
    failed = [cells[index]["status"] != "ok" for index in found]
    assert failed == sorted(failed, reverse=True)
    left = [one for index, one in enumerate(cells) if index not in found and one["status"] != "ok"]
    assert not left or (all(failed) and len(found) == math.ceil(share * len(cells)))


@given(st.lists(CELLS, max_size=10), st.floats(0, 1), st.data())
def test_the_throughput_chooses_nothing(
    cells: list[dict[str, Any]], share: float, data: st.DataObject
) -> None:
    others = [
        {**one, "summary": {**one["summary"], "throughput": data.draw(st.floats(0, 10))}} for one in cells
    ]
    assert cells_to_retry(others, share) == cells_to_retry(cells, share)
    for one, other in zip(cells, others, strict=True):
        assert (better(cells[0], one)["flags"]) == (better(cells[0], other)["flags"])


@given(CELLS, CELLS)
def test_the_better_of_two_is_one_of_them_and_describes_the_other(
    earlier: dict[str, Any], later: dict[str, Any]
) -> None:
    kept = better(earlier, later)
    assert kept["summary"]["attempts"] == 2

    def faults(one: dict[str, Any]) -> tuple[bool, int, int]:
        return (
            one["status"] != "ok",
            len(graded(one["flags"], "invalid")),
            len(graded(one["flags"], "warning")),
        )

    assert faults(kept) == min(faults(earlier), faults(later))
    [other] = kept["others"]
    assert sorted([kept["summary"]["throughput"], other["throughput"]]) == sorted(
        [earlier["summary"]["throughput"], later["summary"]["throughput"]]
    )


def test_cells_of_a_slow_machine_come_after_those_with_a_flag() -> None:
    cells = {
        "slow": cell(limit="cpu_destination", work=0.30),
        "fast": cell(limit="cpu_destination", work=0.25),
        "a little slow": cell(limit="cpu_source", work=0.28),
        "slow, bound by the path": cell(limit="bandwidth", work=0.40),
        "fastest, bound by the path": cell(limit="bandwidth", work=0.10),
        "slowest": cell(limit="client", work=0.35),
        "not known": cell(limit="cpu_destination", work=None),
        "disturbed": cell("disturbed", limit="window"),
        "unsteady": cell("not_steady", limit="window"),
        "failed": cell(status="failed", limit=None),
    }
    names = [*cells]
    found = [names[index] for index in cells_to_retry([*cells.values()], 1.0)]
    assert found == ["failed", "disturbed", "slowest", "slow"]


@pytest.mark.parametrize(
    ("earlier", "later", "kept"),
    [
        (cell(limit="client", work=0.25), cell(limit="client", work=0.31), 0.25),
        (cell(limit="client", work=0.31), cell(limit="client", work=0.25), 0.25),
        (cell("disturbed", limit="client", work=0.25), cell(limit="client", work=0.31), 0.31),
        (cell("not_steady", limit="client", work=0.25), cell(limit="client", work=0.31), 0.25),
        (cell(limit="window", work=0.25), cell(limit="client", work=0.31), 0.31),
        (cell(work=None), cell(limit="client", work=0.31), 0.31),
    ],
)
def test_two_that_a_cpu_bound_are_judged_by_the_machine(
    earlier: dict[str, Any], later: dict[str, Any], kept: float
) -> None:
    assert better(earlier, later)["summary"]["machine_work"] == kept


def test_attempts_count_all_measurements() -> None:
    third = better(better(cell("disturbed", "wide_interval"), cell("disturbed")), cell())
    assert third["summary"]["attempts"] == 3
    assert [one["flags"] for one in third["others"]] == [["disturbed", "wide_interval"], ["disturbed"]]
