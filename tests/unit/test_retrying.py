# SPDX-License-Identifier: Apache-2.0
"""The choice of cells to measure again, and of one of two measurements."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.flags import graded
from tpcsweep.running.runner import CAUSES, better, cells_to_retry
from tpcsweep.variables import CPU_LIMITS

Cell = dict[str, Any]


def cell(*flags: str, status: str = "ok", limit: Any = "bandwidth", work: Any = 0.25, rate: Any = 1) -> Cell:
    summary = {"throughput": rate, "machine_work": work}
    about = {"status": status, "flags": [*flags], "limit": limit}
    return {**about, "summary": summary, "provenance": {"started": "2026-01-01"}}


CELLS = st.builds(
    cell,
    *[st.sampled_from([*CAUSES, "wide_interval", "deployment_broken"])] * 2,
    status=st.sampled_from(["ok", "failed"]),
    limit=st.sampled_from([None, "bandwidth", *CPU_LIMITS]),
    work=st.none() | st.floats(0.1, 1),
    rate=st.floats(0, 10),
) | st.builds(cell, rate=st.floats(0, 10))


@given(st.lists(CELLS, max_size=10), st.floats(0, 1))
def test_a_share_of_the_cells_is_chosen_failed_ones_first(cells: list[dict[str, Any]], share: float) -> None:
    found = cells_to_retry(cells, share)
    assert len(found) == len(set(found)) <= math.ceil(share * len(cells))
    failed = [cells[index]["status"] != "ok" for index in found]
    assert failed == sorted(failed, reverse=True)
    left = [one for index, one in enumerate(cells) if index not in found and one["status"] != "ok"]
    assert not left or (all(failed) and len(found) == math.ceil(share * len(cells)))


@given(st.lists(CELLS, max_size=10), st.floats(0, 1), st.data())
def test_the_throughput_chooses_nothing(cells: list[Any], share: float, data: st.DataObject) -> None:
    rates = data.draw(st.lists(st.floats(0, 10), min_size=len(cells), max_size=len(cells)))
    summaries = [one["summary"] | {"throughput": rate} for one, rate in zip(cells, rates, strict=True)]
    others = [one | {"summary": summary} for one, summary in zip(cells, summaries, strict=True)]
    assert cells_to_retry(others, share) == cells_to_retry(cells, share)
    for one, other in zip(cells, others, strict=True):
        assert (better(cells[0], one)["flags"]) == (better(cells[0], other)["flags"])


@given(CELLS, CELLS)
def test_the_better_of_two_describes_the_other(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    kept = better(earlier, later)
    assert kept["summary"]["attempts"] == 2

    def faults(one: dict[str, Any]) -> tuple[bool, int, int]:
        invalid, warnings = (graded(one["flags"], grade) for grade in ("invalid", "warning"))
        return one["status"] != "ok", len(invalid), len(warnings)

    assert faults(kept) == min(faults(earlier), faults(later))
    rates = [one["throughput"] for one in (kept["summary"], *kept["others"])]
    assert sorted(rates) == sorted(one["summary"]["throughput"] for one in (earlier, later))


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


def test_two_that_a_cpu_bound_are_judged_by_the_machine() -> None:
    fast, slow = cell(limit="client", work=0.25), cell(limit="client", work=0.31)
    for earlier, later, kept in (
        (fast, slow, 0.25),
        (slow, fast, 0.25),
        (fast | {"flags": ["disturbed"]}, slow, 0.31),
        (fast | {"flags": ["not_steady"]}, slow, 0.25),
        (fast | {"limit": "window"}, slow, 0.31),
        (cell(work=None), slow, 0.31),
    ):
        assert better(earlier, later)["summary"]["machine_work"] == kept


def test_attempts_count_all_measurements() -> None:
    third = better(better(cell("disturbed", "wide_interval"), cell("disturbed")), cell())
    assert third["summary"]["attempts"] == 3
    assert [one["flags"] for one in third["others"]] == [["disturbed", "wide_interval"], ["disturbed"]]
