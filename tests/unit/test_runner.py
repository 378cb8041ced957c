# SPDX-License-Identifier: Apache-2.0
"""A deployment's job on a testbed that only plays, and the choice of cells to measure again."""

import contextlib
import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tpcsweep.data import cell_files
from tpcsweep.data.cell_result import CellResult, Limit, Summary
from tpcsweep.data.flags import graded
from tpcsweep.data.variables import CPU_LIMITS, NOT_MEASURED
from tpcsweep.running import runner
from tpcsweep.running.runner import CAUSES, better_measurement, cells_to_retry
from tpcsweep.sweeps.study import SweepStudy, cell_spec

from tests.support import synthetic
from tests.support.jobs import (
    BROKE,
    DIED,
    DIED_LATE,
    DISTURBED,
    FAILED,
    NOT_BEGUN,
    NOT_GONE,
    NOT_UP,
    OK,
    REFUSED,
    Played,
    RefusedError,
)
from tests.support.projects import study_of


@contextlib.contextmanager
def played(script: list[str], cells: int, **sweep: Any) -> Iterator[tuple[Played, SweepStudy, Path]]:
    testbed = Played(script)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        folder = Path(name)
        (folder / "logs").mkdir()
        content = {"parameters": {"streams": 1}, "repetitions": cells, "retry_share": 0} | sweep
        configuration = study_of(folder, **content)
        patched.setattr(runner.kinds, "load_testbed", lambda _: testbed)
        patched.setattr(runner, "CALM", 0.0)
        patched.setattr(runner.psutil, "cpu_percent", lambda _: 0.0)
        yield testbed, configuration, folder / "logs"


def run(configuration: SweepStudy, logs: Path) -> None:
    [deployment] = configuration.grid.deployments
    runner.run(configuration, deployment, logs)


def read(configuration: SweepStudy) -> list[dict[str, Any]]:
    return [json.loads(configuration.cell_file(cell).read_bytes()) for cell in configuration.grid.cells]


def statuses(configuration: SweepStudy) -> list[str]:
    return [cell["status"] for cell in read(configuration)]


OUTCOMES = st.lists(st.sampled_from([OK, FAILED, DIED, DIED_LATE, NOT_BEGUN, NOT_UP, REFUSED]), max_size=12)
CALM = st.lists(st.sampled_from([OK, FAILED, DISTURBED]), max_size=12)


@settings(max_examples=20)
@given(script=OUTCOMES, cells=st.integers(1, 8))
def test_every_cell_is_measured_once_unless_deployments_break(script: list[str], cells: int) -> None:
    with played(script, cells) as (testbed, configuration, logs):
        run(configuration, logs)
        ended = [outcome for deployment in testbed.deployments for outcome in deployment]
        begun = [outcome for outcome in ended if outcome not in (NOT_BEGUN, NOT_UP, REFUSED)]
        left, well = (statuses(configuration).count(status) for status in (NOT_MEASURED, "ok"))
        assert (cells, well) == (len(begun) + left, sum(o in (OK, DIED_LATE) for o in begun))
        fruitless = [not {OK, DIED_LATE} & set(deployment) for deployment in testbed.deployments]
        last = fruitless[-runner.GIVE_UP_AFTER :]
        gave_up = (len(last) == runner.GIVE_UP_AFTER and all(last)) or ended.count(REFUSED) >= runner.TRIES
        assert gave_up or not left
        for deployment in testbed.deployments[:-1]:  # nothing is replaced that is whole
            bad = [outcome in BROKE for outcome in deployment]
            assert bad == [False] * (len(deployment) - 1) + [True]


@settings(max_examples=20)
@given(script=OUTCOMES | CALM, share=st.sampled_from([0, 0.2, 0.5, 1]))
def test_retries_stay_within_their_share_and_lose_no_cell(script: list[str], share: float) -> None:
    with played(script, 5, retry_share=share) as (testbed, configuration, logs):
        run(configuration, logs)
        kept = [cell for cell in read(configuration) if cell["status"] != NOT_MEASURED]
        again = [cell for cell in kept if cell["summary"]["attempts"] > 1]
        assert len(again) <= math.ceil(share * len(kept))
        assert all(cell["summary"]["attempts"] == 2 == 1 + len(cell["others"]) for cell in again)
        begun = sum(o not in (NOT_BEGUN, NOT_UP, REFUSED) for ended in testbed.deployments for o in ended)
        assert begun == len(kept) + len(again)
        if testbed.deployments and not set(script) & BROKE:
            assert len(testbed.deployments) == 1  # retried while it is up


@pytest.mark.parametrize(
    ("script", "more", "share", "tried"),
    [
        # The failed cell and one of the disturbed ones are a share of 0.2.
        ([DISTURBED, OK, DISTURBED, FAILED, OK, OK, OK, OK], [OK, OK], 0.2, [1] * 6 + [2] * 2),
        # A retry that breaks the deployment leaves the first measurement.
        ([DISTURBED, OK], [NOT_BEGUN], 0.5, [1, 1]),
    ],
)
def test_cells_are_tried_again(script: list[str], more: list[str], share: float, tried: list[int]) -> None:
    with played([*script, *more], len(script), retry_share=share) as (testbed, configuration, logs):
        for _ in range(2):  # the second job measures nothing
            run(configuration, logs)
            assert testbed.deployments == [[*script, *more]]
        assert sorted(cell["summary"]["attempts"] for cell in read(configuration)) == tried
        assert statuses(configuration) == ["ok"] * len(script)


def test_cells_that_cannot_be_measured_get_placeholders(capsys: pytest.CaptureFixture[str]) -> None:
    with played([OK, NOT_BEGUN, REFUSED, REFUSED], 3) as (testbed, configuration, logs):
        run(configuration, logs)
        assert testbed.deployments == [[OK, NOT_BEGUN], [REFUSED], [REFUSED]]
        assert sorted(statuses(configuration)) == [NOT_MEASURED] * 2 + ["ok"]
        assert {cell.get("message") for cell in read(configuration)} == {OK, "rtt asked 5 ms, found 9 ms"}
        run(configuration, logs)
        assert (testbed.deployments[3:], statuses(configuration)) == ([[OK, OK]], ["ok"] * 3)
    assert ": replacing " in capsys.readouterr().err


def test_a_failed_start_counts_until_a_cell_goes_well() -> None:
    with played([REFUSED, OK, NOT_BEGUN, REFUSED], 3) as (testbed, configuration, logs):
        run(configuration, logs)
        assert testbed.deployments == [[REFUSED], [OK, NOT_BEGUN], [REFUSED], [OK, OK]]
        assert statuses(configuration) == ["ok"] * 3


def test_a_cell_that_breaks_every_deployment_keeps_no_other_from_being_measured() -> None:
    with played([], 4) as (testbed, configuration, logs):
        well = testbed.measure

        def measure(*asked: Any) -> CellResult:
            if "c0" in asked:
                testbed.script.insert(0, NOT_BEGUN)
            return well(*asked)

        testbed.measure = measure
        run(configuration, logs)
        fruitless = [[NOT_BEGUN]] * runner.GIVE_UP_AFTER
        assert testbed.deployments == [[NOT_BEGUN], [OK, OK, OK, NOT_BEGUN], *fruitless]
        [said] = [cell["message"] for cell in read(configuration) if cell["status"] == NOT_MEASURED]
        assert said.startswith("3 deployments in a row broke ")
        assert sorted(statuses(configuration)) == [NOT_MEASURED, "ok", "ok", "ok"]


def test_a_failed_teardown_is_an_error_and_its_cells_are_adopted_by_the_next_job() -> None:
    with played([OK, NOT_GONE], 1) as (testbed, configuration, logs):
        with pytest.raises(RefusedError, match="mount"):
            run(configuration, logs)
        testbed.script.clear()
        run(configuration, logs)
        assert (testbed.deployments, statuses(configuration)) == ([[OK]], ["ok"])


# Each stream's file and two that are written or deleted; what the path brings.
@pytest.mark.parametrize(("seconds", "arriving"), [(1000, (8 + 2) << 26), (4, 500_000_000)])
def test_a_deployment_knows_how_much_memory_its_cells_write_to(seconds: float, arriving: int) -> None:
    parameters = {"streams": [1, 8], "file_size": "64 MiB", "bandwidth": "1 Gbit/s", "rtt": "0 ms"}
    measurement = {"min_time": f"{seconds} s", "max_time": f"{seconds} s"}
    with played([], 1, parameters=parameters, measurement=measurement) as (testbed, configuration, logs):
        run(configuration, logs)
        assert [request.arriving for request in testbed.requests] == [arriving]


def test_each_deployment_has_logs_of_its_own_old_ones_go_and_cells_name_theirs() -> None:
    with played([OK, DIED, NOT_BEGUN], 4) as (testbed, configuration, logs):
        (logs / "replacement-7").mkdir()
        run(configuration, logs)
        used = [request.logs for request in testbed.requests]
        assert used == [logs, logs / "replacement-1", logs / "replacement-2"]
        assert not (logs / "replacement-7").exists()
        assert sorted(cell["provenance"]["deployment"] for cell in read(configuration)) == [1, 1, 3, 3]


def test_cells_that_another_job_measures_while_the_machine_is_waited_for_are_not_measured_again() -> None:
    with played([], 3) as (testbed, configuration, logs):

        def another() -> None:
            record = synthetic.result(message="another's")
            for cell in configuration.grid.cells[:2]:
                cell_files.write_cell(configuration.cell_file(cell), cell_spec(configuration, cell), record)

        testbed.meanwhile = another
        run(configuration, logs)
        assert testbed.deployments == [[OK]]
        assert [cell["message"] for cell in read(configuration)] == [*["another's"] * 2, OK]


def cell(
    *flags: str, status: str = "ok", limit: Any = "bandwidth", work: Any = 0.25, rate: Any = 1
) -> CellResult:
    figures, provenance = {"throughput": rate, "machine_work": work}, {"started": "2026-01-01"}
    return synthetic.result(limit, figures, status=status, flags=flags, provenance=provenance)


CELLS = st.builds(
    cell,
    *[st.sampled_from([*CAUSES, "wide_interval", "deployment_broken"])] * 2,
    status=st.sampled_from(["ok", "failed"]),
    limit=st.sampled_from([None, "bandwidth", *CPU_LIMITS]),
    work=st.none() | st.floats(0.1, 1),
    rate=st.floats(0, 10),
) | st.builds(cell, rate=st.floats(0, 10))


@given(st.lists(CELLS, max_size=10), st.floats(0, 1))
def test_a_share_of_the_cells_is_chosen_failed_ones_first(cells: list[CellResult], share: float) -> None:
    found = cells_to_retry(cells, share)
    assert len(found) == len(set(found)) <= math.ceil(share * len(cells))
    failed = [cells[index].status != "ok" for index in found]
    assert failed == sorted(failed, reverse=True)
    left = [one for index, one in enumerate(cells) if index not in found and one.status != "ok"]
    assert not left or (all(failed) and len(found) == math.ceil(share * len(cells)))


@given(st.lists(CELLS, max_size=10), st.floats(0, 1), st.data())
def test_the_throughput_chooses_nothing(cells: list[Any], share: float, data: st.DataObject) -> None:
    rates = data.draw(st.lists(st.floats(0, 10), min_size=len(cells), max_size=len(cells)))
    figures = ({**one.summary.figures, "throughput": rate} for one, rate in zip(cells, rates, strict=True))
    others = [replace(one, summary=Summary(found)) for one, found in zip(cells, figures, strict=True)]
    assert cells_to_retry(others, share) == cells_to_retry(cells, share)
    for one, other in zip(cells, others, strict=True):
        assert better_measurement(cells[0], one).flags == better_measurement(cells[0], other).flags


@given(CELLS, CELLS, CELLS)
def test_the_better_of_two_describes_the_other(earlier: Any, later: Any, third: Any) -> None:
    kept = better_measurement(earlier, later)
    assert kept.attempts == 2

    def faults(one: CellResult) -> tuple[bool, int, int]:
        invalid, warnings = (graded(one.flags, grade) for grade in ("invalid", "warning"))
        return one.status != "ok", len(invalid), len(warnings)

    assert faults(kept) == min(faults(earlier), faults(later))
    rates = [one.throughput for one in (kept.summary, *kept.others)]
    assert sorted(rates) == sorted(one.summary.throughput for one in (earlier, later))
    last = better_measurement(kept, third)
    assert (last.attempts, len(last.others)) == (3, 2)
    assert last.others[0] == kept.others[0]


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
        (replace(fast, flags=["disturbed"]), slow, 0.31),
        (replace(fast, flags=["not_steady"]), slow, 0.25),
        (replace(fast, limit=Limit("window")), slow, 0.31),
        (cell(work=None), slow, 0.31),
    ):
        assert better_measurement(earlier, later).summary.machine_work == kept
