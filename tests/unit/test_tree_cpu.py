# SPDX-License-Identifier: Apache-2.0
"""CPU time of a process tree whose processes end: it never falls, so that no cell has a negative one."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest
from tpcsweep.deploying.linux import kernel_counters
from tpcsweep.deploying.linux.kernel_counters import TICKS, Process, ProcessTable, TreeCpu

from tests.support.workflow import background

BURN = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"


def process(parent: int, own: float, waited: float = 0.0) -> Process:
    return Process(parent, False, own, own + waited)


BEFORE = {7: process(1, 1.0), 8: process(7, 0.5)}
AFTER = {7: process(1, 1.0, 0.5)}  # process 7 has waited for process 8


@pytest.mark.parametrize(
    "mixed", [{7: BEFORE[7]}, {7: AFTER[7], 8: BEFORE[8]}], ids=["in neither", "in both"]
)
def test_the_time_of_a_child_that_ends_during_a_look_counts_once(mixed: Mapping[int, Process]) -> None:
    table, looks = ProcessTable(), iter([mixed, AFTER])
    with (
        mock.patch.object(ProcessTable, "read", lambda *_, **__: next(looks)),
        mock.patch.object(kernel_counters, "read_process", AFTER.get),
    ):
        assert TreeCpu(lambda: table.tree([7])).read() == pytest.approx(1.5)


def test_the_time_of_a_process_that_nobody_waited_for_stays() -> None:
    looks: Iterator[Mapping[int, Process]] = iter(
        [BEFORE, {7: process(1, 1.0)}, {7: process(1, 1.25)}, {}, {9: process(1, 0.25)}]
    )
    cpu = TreeCpu(lambda: next(looks))
    assert [cpu.read() for _ in range(5)] == pytest.approx([1.5, 1.5, 1.75, 1.75, 2.0])


def test_every_child_of_a_running_tool_counts_once(tmp_path: Path) -> None:
    """Looks meet children in each state, and the time that counts twice or not would stay in the sum."""
    done = tmp_path / "done"
    script = f"for n in $(seq 60); do sh -c '{BURN}'; done; touch {done}; exec sleep 60"
    with background(["sh", "-c", script]) as running:
        table, read = ProcessTable(), list[float]()
        cpu = TreeCpu(lambda: table.tree([running.pid]))
        while not done.exists():
            read.append(cpu.read())
        used = table.read(fresh=True)[running.pid].seconds
        assert cpu.read() == pytest.approx(used, abs=2 / TICKS)
    assert all(after >= before for before, after in pairwise(read))
    assert used > 10 / TICKS
