# SPDX-License-Identifier: Apache-2.0
"""What a run has left in Slurm's queue: found by its mark, ended, waited for; commands of Slurm are played here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tpcsweep.configuration.loading import Configuration, load
from tpcsweep.running import queued
from tpcsweep.running.results import ResultsError
from tpcsweep.running.rules import Jobs, group_of

from tests.support.workflow import ROOT


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where jobs are files, in folders by their name; `scancel` removes them."""
    jobs, programs = tmp_path / "queue", tmp_path / "bin"
    programs.mkdir()
    deaf = "if [ -e deaf ]; then echo 'no answer' >&2; exit 1; fi"
    played = {"squeue": f"{deaf}; ls", "scancel": "[ -e stays ] || rm -f *"}
    for name, script in played.items():
        (programs / name).write_text(f"#!/bin/sh\ncd {jobs}/${{1#--name=}}\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for run in ("first", "second"):
        (jobs / run).mkdir(parents=True)
    return jobs


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Of two runs that were killed."""
    folder = tmp_path / "results"
    folder.mkdir()
    for run in ("first", "second"):
        queued.note(folder, run)
    return folder


def test_jobs_of_all_runs_that_were_killed_are_ended(queue: Path, results: Path) -> None:
    for job in ("first/1", "first/2", "second/3"):
        (queue / job).touch()
    assert queued.end(results) == 3
    assert list(queue.glob("*/*")) == list(results.iterdir()) == []


def test_a_run_ends_its_own_jobs_alone(queue: Path, results: Path) -> None:
    for job in ("first/1", "second/3"):
        (queue / job).touch()
    assert queued.end(results, "first") == 1
    assert [job.name for job in queue.glob("*/*")] == ["3"]
    assert [mark.name for mark in results.iterdir()] == [".slurm-second"]


def test_jobs_that_do_not_go_are_named(queue: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued, "PATIENCE", 0.0)
    (queue / "first/stays").touch()
    with pytest.raises(ResultsError, match=r"jobs stays of an ended snakemake have not gone within 0 s"):
        queued.end(results)
    assert len(list(results.iterdir())) == 2


def test_without_an_answer_a_mark_stays_and_is_named(queue: Path, results: Path) -> None:
    (queue / "first/deaf").touch()
    with pytest.raises(ResultsError, match=r"\.slurm-first: .*squeue: no answer.*delete the file if none"):
        queued.end(results)
    assert len(list(results.iterdir())) == 2


def test_without_slurm_a_mark_stays_and_is_named(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(results))
    with pytest.raises(ResultsError, match=r"\.slurm-first: .*squeue: No such file or directory"):
        queued.end(results)


@pytest.fixture
def simulated() -> Configuration:
    return load({"sweep": "surface", "testbed": "simulation"}, ROOT)


def test_simulations_share_a_machine_and_in_a_job_of_a_queue_come_one_after_the_other(
    simulated: Configuration,
) -> None:
    assert Jobs(simulated, list.clear).testbed == 0
    assert Jobs(simulated, list.clear, queued=True).testbed == 1
    assert not Jobs(simulated, list.clear).stay
    assert Jobs(load({"sweep": "surface", "testbed": "netns"}, ROOT), list.clear, queued=True).stay


def test_all_that_is_made_of_a_dataset_is_one_job() -> None:
    assert group_of("deployment_12") == "simulation"
    assert {group_of(rule) for rule in ("dataset", "surface", "fits", "report")} == {"results"}
    assert group_of("terena2005_simulation_3") == ""
