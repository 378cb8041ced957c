# SPDX-License-Identifier: Apache-2.0
"""What a job does with deployments that break, on a testbed that is played."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tpcsweep.broken import BROKEN, BrokenError, FaultError
from tpcsweep.configuration.loading import Configuration, load, wanted
from tpcsweep.configuration.sweep import Cell
from tpcsweep.linux import signals
from tpcsweep.running import again, damaged, holes, results, runner
from tpcsweep.testbeds import Request
from tpcsweep.variables import NOT_MEASURED

ROOT = Path(__file__).resolve().parents[2]
OK, FAILED, DIED, DIED_LATE, NOT_BEGUN, NOT_UP = "ok", "failed", "died", "died late", "not begun", "not up"
REFUSED, NOT_GONE, DISTURBED = "refused", "not gone", "disturbed"
BROKE = {DIED, DIED_LATE, NOT_BEGUN, NOT_UP, REFUSED}


class RefusedError(Exception):
    """A deployment that is not as asked."""


class Played:
    """A testbed whose cells end as a script says; it ends with cells that go well."""

    EXPECTED = (RefusedError,)

    def __init__(self, script: list[str]) -> None:
        self.script = list(script)
        self.deployments: list[list[str]] = []
        """How the cells of each have ended."""
        self.logs: list[Path] = []
        self.arriving: list[int] = []
        self.up = False
        self.required = 0
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens while a deployment waits for the machine."""

    @contextlib.contextmanager
    def deployed(self, _: Any, request: Request) -> Iterator[Any]:
        """One at a time, and none that has broken is used again."""
        assert not self.up
        assert request.logs.is_dir()
        self.meanwhile()
        self.up = True
        self.deployments.append([])
        self.logs.append(request.logs)
        self.arriving.append(request.arriving)
        provenance = {"deployment": len(self.deployments), "software": {}}
        try:
            if self.script[:1] == [NOT_UP]:
                self.deployments[-1].append(self.script.pop(0))
                raise FaultError("a server died before it had answered")
            if self.script[:1] == [REFUSED]:
                self.deployments[-1].append(self.script.pop(0))
                raise RefusedError("rtt asked 5 ms, found 9 ms")
            yield SimpleNamespace(provenance=provenance, check=self.check, explain=str)
        finally:
            self.up = False
        if self.script[:1] == [NOT_GONE]:
            raise RefusedError("a mount is still there")

    def require(self, _: Any) -> None:
        """Once, before anything is deployed."""
        assert not self.deployments
        self.required += 1

    def check(self) -> None:
        assert not set(self.deployments[-1]) & BROKE

    def measure(self, *_: Any) -> dict[str, Any]:
        assert self.up
        outcome = self.script.pop(0) if self.script else OK
        self.deployments[-1].append(outcome)
        if outcome in (NOT_BEGUN, NOT_UP, REFUSED):
            raise BrokenError("a server is dead")
        status = "ok" if outcome in (OK, DIED_LATE, DISTURBED) else "failed"
        flags = [BROKEN] if outcome in (DIED, DIED_LATE) else [DISTURBED] if outcome == DISTURBED else []
        return {"status": status, "message": outcome, "flags": flags, "summary": {"throughput": 1.0}}


@contextlib.contextmanager
def played(script: list[str], cells: int, **sweep: Any) -> Iterator[tuple[Played, Configuration, Path]]:
    testbed = Played(script)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        folder = Path(name)
        (folder / "logs").mkdir()
        (folder / "played.yaml").write_text(
            yaml.safe_dump({"parameters": {"streams": 1}, "repetitions": cells} | sweep)
        )
        configuration = load(
            {"sweep": f"{folder}/played.yaml", "testbed": "netns", "results": f"{folder}/results"}, ROOT
        )
        patched.setattr(runner.testbeds, "of", lambda _: testbed)
        patched.setattr(runner, "CALM", 0.0)
        patched.setattr(runner.psutil, "cpu_percent", lambda _: 0.0)
        runner.begin(configuration)
        patched.setattr(results, "hold", lambda _: None)  # other runs of this process are not kept out
        yield testbed, configuration, folder / "logs"


def run(configuration: Configuration, logs: Path) -> None:
    [deployment] = configuration.grid.deployments
    runner.run(configuration, deployment, logs)


def statuses(configuration: Configuration) -> list[str]:
    files = (configuration.cell_file(cell) for cell in configuration.grid.cells)
    return [json.loads(path.read_bytes())["status"] for path in files]


OUTCOMES = st.lists(st.sampled_from([OK, FAILED, DIED, DIED_LATE, NOT_BEGUN, NOT_UP, REFUSED]), max_size=12)


@settings(max_examples=30)
@given(script=OUTCOMES, cells=st.integers(1, 8))
def test_every_cell_is_measured_once_unless_deployments_break_without_end(
    script: list[str], cells: int
) -> None:
    with played(script, cells) as (testbed, configuration, logs):
        run(configuration, logs)
        ended = [outcome for deployment in testbed.deployments for outcome in deployment]
        begun = [outcome for outcome in ended if outcome not in (NOT_BEGUN, NOT_UP, REFUSED)]
        left = statuses(configuration).count(NOT_MEASURED)
        assert len(statuses(configuration)) == len(begun) + left
        assert statuses(configuration).count("ok") == sum(o in (OK, DIED_LATE) for o in begun)
        in_vain = [not {OK, DIED_LATE} & set(deployment) for deployment in testbed.deployments]
        last = in_vain[-runner.GIVE_UP_AFTER :]
        gave_up = (len(last) == runner.GIVE_UP_AFTER and all(last)) or ended.count(REFUSED) >= runner.TRIES
        assert gave_up or not left
        assert bool(runner.conclude(configuration)) == bool(left)
        for deployment in testbed.deployments[:-1]:  # nothing is replaced that is whole
            bad = [outcome in BROKE for outcome in deployment]
            assert bad == [False] * (len(deployment) - 1) + [True]


def test_a_deployment_that_is_not_as_asked_is_tried_again_at_once() -> None:
    with played([REFUSED], 2) as (testbed, configuration, logs):
        run(configuration, logs)
        assert testbed.deployments == [[REFUSED], [OK, OK]]
        assert statuses(configuration) == ["ok", "ok"]


def test_cells_that_could_not_be_measured_say_why_and_are_tried_again_at_the_end() -> None:
    with played([REFUSED, REFUSED, OK], 2) as (testbed, configuration, logs):
        run(configuration, logs)
        assert testbed.deployments == [[REFUSED], [REFUSED]]
        assert statuses(configuration) == [NOT_MEASURED] * 2
        [hole] = holes.holes(configuration, configuration.grid.cells)
        assert hole.why == "rtt asked 5 ms, found 9 ms"
        assert "2 of 2 cells were not measured" in runner.conclude(configuration)
        assert runner.finish(configuration) == []
        assert statuses(configuration) == ["ok", "ok"]
        assert runner.conclude(configuration) == ""


def test_cells_that_could_not_be_measured_are_left_for_the_next_run() -> None:
    with played([REFUSED] * 4, 1) as (_, configuration, logs):
        run(configuration, logs)
        [hole] = runner.finish(configuration)
        assert hole.command.startswith("snakemake --config sweep=")
        assert hole.command.endswith(f"-- {configuration.cell_file(configuration.grid.cells[0])}")
        run(configuration, logs)
        assert statuses(configuration) == ["ok"]


def test_a_cell_that_breaks_every_deployment_keeps_no_other_from_being_measured() -> None:
    with played([], 4) as (testbed, configuration, logs):
        well = testbed.measure

        def measure(*asked: Any) -> dict[str, Any]:
            if "c0" in asked:
                testbed.script.insert(0, NOT_BEGUN)
            return well(*asked)

        testbed.measure = measure  # type: ignore[method-assign]
        run(configuration, logs)
        in_vain = [[NOT_BEGUN]] * runner.GIVE_UP_AFTER
        assert testbed.deployments == [[NOT_BEGUN], [OK, OK, OK, NOT_BEGUN], *in_vain]
        assert sorted(statuses(configuration)) == [NOT_MEASURED, "ok", "ok", "ok"]


def test_a_deployment_that_does_not_go_is_an_error_though_its_cells_are_there() -> None:
    with played([OK, NOT_GONE], 1) as (_, configuration, logs):
        with pytest.raises(RefusedError, match="mount"):
            run(configuration, logs)
        assert statuses(configuration) == ["ok"]


def test_what_was_disturbed_is_measured_once_more_and_no_cell_twice() -> None:
    with played([DISTURBED, OK, DISTURBED, DISTURBED, OK], 8) as (testbed, configuration, logs):
        run(configuration, logs)
        before = len(testbed.deployments)
        assert runner.finish(configuration) == []
        # A share of 0.2 of eight cells: two of the three that were disturbed.
        assert sum(map(len, testbed.deployments[before:])) == 2
        found = [results.read(configuration.cell_file(cell)) for cell in configuration.grid.cells]
        assert sorted(one["summary"]["attempts"] for one in found) == [1] * 6 + [2] * 2
        assert sum("disturbed" in one["flags"] for one in found) == 1
        rescue, file = configuration.folder / "rescued", configuration.cell_file(configuration.grid.cells[0])
        cell = results.read(file)
        # And no more, as one that was killed then.
        results.publish(file, cell.pop("spec"), cell, rescue, again=True)
        assert runner.finish(configuration) == []
        assert sum(map(len, testbed.deployments)) == 8 + 2 + 1


def test_what_a_slow_machine_bound_is_measured_once_more_after_what_was_wrong() -> None:
    def measured(name: str, limit: str, work: float | None, *flags: str, attempts: int = 1) -> again.Measured:
        content = {
            "status": "ok",
            "flags": flags,
            "limit": limit,
            "summary": {"machine_work": work},
            "others": [{}] * (attempts - 1),
        }
        found = again.of_file(cast(Cell, name), content)
        assert found is not None
        return found

    cells = [
        measured("slow", "cpu_destination", 0.30),
        measured("fast", "cpu_destination", 0.25),
        measured("a little slow", "cpu_source", 0.28),
        measured("slow, bound by the path", "bandwidth", 0.40),
        measured("fastest, bound by the path", "bandwidth", 0.10),
        measured("slowest", "client", 0.35),
        measured("slow twice", "client", 0.35, attempts=2),
        measured("not known", "cpu_destination", None),
        measured("unsteady", "window", 0.25, "not_steady"),
    ]
    assert again.chosen(cells, 1.0, len(cells)) == ["unsteady", "slowest", "slow"]
    assert again.chosen(cells, 0.2, len(cells)) == ["unsteady", "slowest"]


def test_the_measurement_with_fewer_warnings_is_kept() -> None:
    def cell(*flags: str, status: str = "ok") -> dict[str, Any]:
        return {
            "status": status,
            "flags": list(flags),
            "summary": {"throughput": 1.0 + len(flags)},
            "provenance": {"started": "2026-01-01"},
        }

    first = cell("disturbed", "wide_interval")
    assert again.better(first, cell())["flags"] == []
    assert again.better(first, cell("disturbed"))["flags"] == ["disturbed"]
    assert again.better(first, cell("disturbed", "not_steady"))["flags"] == first["flags"]
    assert again.better(first, cell(status="failed"))["status"] == "ok"
    third = again.better(again.better(first, cell("disturbed")), cell())
    assert third["summary"] == {"throughput": 1.0, "attempts": 3}
    assert [one["flags"] for one in third["others"]] == [["disturbed", "wide_interval"], ["disturbed"]]


def test_of_measurements_that_a_cpu_bound_that_of_the_faster_machine_is_kept() -> None:
    def cell(work: float | None, *flags: str, limit: str = "cpu_destination") -> dict[str, Any]:
        return {
            "status": "ok",
            "flags": list(flags),
            "limit": limit,
            "summary": {"machine_work": work},
            "provenance": {"started": "2026-01-01"},
        }

    def kept(earlier: dict[str, Any], later: dict[str, Any]) -> float | None:
        work: float | None = again.better(earlier, later)["summary"]["machine_work"]
        return work

    assert kept(cell(0.25), cell(0.31)) == 0.25
    assert kept(cell(0.31), cell(0.25)) == 0.25
    assert kept(cell(0.25, "not_steady"), cell(0.31)) == 0.31
    assert kept(cell(0.25, limit="window"), cell(0.31)) == 0.31
    assert kept(cell(None), cell(0.31)) == 0.31
    assert again.better(cell(0.25), cell(0.31))["others"][0]["machine_work"] == 0.31


@pytest.mark.parametrize(
    ("seconds", "arriving"),
    [
        (1000, (8 + 2) << 26),  # each stream's file, and two that are written or deleted
        (4, 500_000_000),  # what the path brings
    ],
)
def test_a_deployment_knows_how_much_memory_its_cells_write_to(seconds: float, arriving: int) -> None:
    parameters = {"streams": [1, 8], "file_size": "64 MiB", "bandwidth": "1 Gbit/s", "rtt": "0 ms"}
    measurement = {"min_time": f"{seconds} s", "max_time": f"{seconds} s"}
    with played([], 1, parameters=parameters, measurement=measurement) as (testbed, configuration, logs):
        run(configuration, logs)
        assert testbed.arriving == [arriving]


def test_each_deployment_has_logs_of_its_own_and_old_ones_go() -> None:
    with played([OK, DIED, NOT_BEGUN], 4) as (testbed, configuration, logs):
        (logs / "replacement-7").mkdir()
        run(configuration, logs)
        assert testbed.logs == [logs, logs / "replacement-1", logs / "replacement-2"]
        assert not (logs / "replacement-7").exists()


def test_a_cell_says_in_which_deployment_it_was_measured() -> None:
    with played([OK, DIED], 3) as (_, configuration, logs):
        run(configuration, logs)
        files = [json.loads(configuration.cell_file(cell).read_bytes()) for cell in configuration.grid.cells]
        assert sorted(file["provenance"]["deployment"] for file in files) == [1, 1, 2]


def test_a_testbed_is_tried_once_and_only_where_cells_are_to_be_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner.results, "hold", lambda _: None)  # this process has them already
    with played([], 2) as (testbed, configuration, logs):
        assert testbed.required == 1
        run(configuration, logs)
        runner.begin(configuration)
        assert testbed.required == 1
        # What is measured already is measured once more where that is asked for.
        once_more = configuration.run.model_copy(update={"again": DISTURBED})
        testbed.deployments.clear()
        runner.begin(dataclasses.replace(configuration, run=once_more))
        assert testbed.required == 2


def test_what_asks_to_end_while_that_is_ignored_takes_effect_afterwards() -> None:
    before = [signal.getsignal(number) for number in signals.ENDING]
    with pytest.raises(SystemExit) as ended, signals.interruptible():
        signals.ignore()
        os.kill(os.getpid(), signal.SIGTERM)
        signals.heed()
    assert ended.value.code == 128 + signal.SIGTERM
    assert [signal.getsignal(number) for number in signals.ENDING] == before


def test_what_has_asked_to_end_is_forgotten_with_whom_it_was_asked() -> None:
    with signals.interruptible():
        signals.ignore()
        os.kill(os.getpid(), signal.SIGTERM)
    with signals.interruptible():
        signals.heed()


def test_cells_that_another_job_measures_while_the_machine_is_waited_for_are_not_measured_again() -> None:
    with played([], 3) as (testbed, configuration, logs):
        first, second, third = map(configuration.cell_file, configuration.grid.cells)

        def another() -> None:
            for cell in configuration.grid.cells[:2]:
                content = {"status": "ok", "message": "another's"}
                spec, rescue = wanted(configuration, cell), configuration.folder / "rescued"
                results.publish(configuration.cell_file(cell), spec, content, rescue)

        testbed.meanwhile = another
        run(configuration, logs)
        assert testbed.deployments == [[OK]]
        assert [results.read(file)["message"] for file in (first, second, third)] == [*["another's"] * 2, OK]


def test_what_snakemake_removes_of_a_job_whose_file_has_gone_is_there_when_the_run_has_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with played([], 3) as (testbed, configuration, logs):
        run(configuration, logs)
        files = [configuration.cell_file(cell) for cell in configuration.grid.cells]
        before = [file.read_bytes() for file in files]
        for file in files:  # one is missed when the job has ended well, and the others are removed for it
            file.unlink()
        assert runner.conclude(configuration) == ""
        assert [file.read_bytes() for file in files] == before
        assert "3 cell(s) put back" in capsys.readouterr().err
        assert not (configuration.folder / "rescued").exists()
        files[1].unlink()  # by somebody who wants it measured again
        runner.begin(configuration, try_testbed=False)
        run(configuration, logs)
        assert testbed.deployments == [[OK] * 3, [OK]]


def test_what_cannot_be_put_back_is_said_and_put_back_by_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with played([], 1) as (testbed, configuration, logs):
        run(configuration, logs)
        [file] = map(configuration.cell_file, configuration.grid.cells)
        file.unlink()
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        with monkeypatch.context() as patched:
            patched.setattr(results, "recover", Mock(side_effect=full))
            assert f"{file}: No space left on device: the next run" in runner.conclude(configuration)
        runner.begin(configuration)
        assert statuses(configuration) == ["ok"]
        assert testbed.deployments == [[OK]]


def edit(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"throughput":1.0', b'"throughput":0.5'))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def replaced_by_a_folder(file: Path) -> None:
    file.unlink()
    (file / "within").mkdir(parents=True)


@pytest.mark.parametrize(("how", "measured"), [(edit, [[OK]]), (cut, [[OK]]), (replaced_by_a_folder, [])])
def test_a_file_that_is_damaged_is_set_aside_and_its_cell_put_back_or_measured_in_the_same_run(
    how: Callable[[Path], None], measured: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    with played([], 3) as (testbed, configuration, logs):
        run(configuration, logs)
        _, file, _ = map(configuration.cell_file, configuration.grid.cells)
        how(file)
        assert runner.finish(configuration) == []
        assert testbed.deployments == [[OK] * 3, *measured]  # not where the second link is to the whole file
        assert statuses(configuration) == ["ok"] * 3
        assert file.with_name(f"{file.name}.damaged").exists()
        for said in (
            capsys.readouterr().err,
            runner.damage_found(configuration),
            (configuration.folder / damaged.LOG).read_text(),
        ):
            assert f"{file} was damaged (" in said
        assert runner.conclude(configuration) == ""


def test_a_file_that_is_damaged_again_is_set_aside_beside_the_other() -> None:
    with played([], 1) as (_, configuration, logs):
        [file] = map(configuration.cell_file, configuration.grid.cells)
        for _ in range(3):
            run(configuration, logs)
            edit(file)
            damaged.search(configuration, [file])
        assert len(list(file.parent.glob("*.damaged*"))) == 3
        assert "1 of 1 cells were not measured" in runner.conclude(configuration)
        assert "its file was damaged: changed after it was written" in runner.conclude(configuration)


def test_what_is_damaged_when_a_run_begins_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner.results, "hold", lambda _: None)  # this process has them already
    with played([], 2) as (testbed, configuration, logs):
        run(configuration, logs)
        _, file = map(configuration.cell_file, configuration.grid.cells)
        replaced_by_a_folder(file)
        testbed.deployments.clear()
        runner.begin(configuration)
        assert statuses(configuration) == ["ok", NOT_MEASURED]
        run(configuration, logs)
        assert statuses(configuration) == ["ok", "ok"]


def test_figures_that_cannot_be_are_flagged() -> None:
    with played([], 1, parameters={"bandwidth": "0.5 Gbit/s"}) as (_, configuration, logs):
        run(configuration, logs)
        [file] = map(configuration.cell_file, configuration.grid.cells)
        assert results.read(file)["flags"] == ["implausible"]
