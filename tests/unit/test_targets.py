# SPDX-License-Identifier: Apache-2.0
"""What a run was asked for, and whether the configured sweep has a part in it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tpcsweep.configuration.loading import Configuration, load
from tpcsweep.published.figures import FIGURES
from tpcsweep.running.asked import unknown, unread
from tpcsweep.running.internals import CommandLine, Internals, command_line
from tpcsweep.running.rules import Targets

from tests.support.workflow import ROOT


def asked(*names: str) -> Targets:
    return Targets(names, FIGURES, Path("my results/published"))


@pytest.mark.parametrize(
    ("line", "targets"),
    [
        ("/usr/bin/snakemake", []),
        (
            "/usr/bin/snakemake --profile k8s -n chep2024_fig4 --config testbed=netns scale=1/9",
            ["chep2024_fig4"],
        ),
        ("snakemake -c1 --config a=b -- cells results/demo/dataset.nc", ["cells", "results/demo/dataset.nc"]),
        ("/lib/snakemake/__main__.py --target-jobs deployment_1:deployment=rtt=5/cores=1", ["deployment_1"]),
        ("/usr/bin/pytest chep2024_fig4", []),
    ],
)
def test_targets_are_those_of_the_command_line(line: str, targets: list[str]) -> None:
    assert list(command_line(line.split()).targets) == targets


@pytest.mark.parametrize(
    ("line", "profiles", "queued"),
    [
        ("snakemake models", (), False),
        ("snakemake --profile k8s models", ("k8s",), False),
        ("snakemake --profile slurm models", ("slurm",), True),
        ("snakemake --profile slurm --executor local models", ("slurm",), False),
        ("snakemake --executor slurm models", (), True),
        ("snakemake --profile none models", (), False),
        ("snakemake --executor slurm-jobstep --target-jobs fits:", (), True),
    ],
)
def test_jobs_go_into_a_queue_where_the_executor_says_so(
    line: str, profiles: tuple[str, ...], queued: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    told = command_line(line.split())
    assert (told.profiles, told.queued) == (profiles, queued)


@pytest.mark.parametrize(
    ("targets", "needed"),
    [
        ([], True),
        (["report"], True),
        (["chep2024_fig4", "cells"], True),
        (["my results/demo/dataset.nc"], True),
        # What an inner Snakemake is asked for: its results are the folder of published figures.
        (["my results/chep2024_fig8@simulation/dataset.nc"], True),
        (["published"], False),
        (list(FIGURES), False),
        (["terena2005", "terena2005_simulation_3", "open_questions_measured"], False),
        (["my results/published/open_questions/open_questions.html"], False),
    ],
)
def test_what_reproduces_publications_needs_no_configured_sweep(targets: list[str], needed: bool) -> None:
    assert asked(*targets).of_configured_sweep is needed


@pytest.mark.parametrize(
    ("targets", "there"),
    [
        (["models"], True),
        (["claims", "my results/demo/figures/limits.png"], True),
        (["compare", "export"], True),
        (["published", "export"], True),
        (["my results/demo/export/cells/of/mine.csv"], True),
        ([], False),
        (["all"], False),
        (["cells", "models"], False),
        (["dataset"], False),
        (["my results/demo/dataset.nc"], False),
        (["./my results/demo/report.html"], False),
        (["my results/demo/cells/rtt=5/streams=1/repetition=1.json"], False),
        (["deployment_1"], False),
        # These need no cells, and are to say nothing of any.
        (["grid"], False),
        (["compare", "reap"], False),
    ],
)
def test_what_is_made_of_a_dataset_alone_takes_the_cells_that_are_there(
    targets: list[str], there: bool
) -> None:
    assert asked(*targets).of_what_is_there(Path("my results/demo")) is there


def test_an_inner_snakemake_has_the_cores_and_testbeds_of_the_outer_one() -> None:
    testbeds = {"testbed": SimpleNamespace(value=2)}
    beginning = Internals(
        SimpleNamespace(global_resources=testbeds, main_snakefile="/here/Snakefile", cores=1)
    ).inner(None)
    assert beginning[beginning.index("--cores") + 1] == "1"
    assert beginning[beginning.index("--snakefile") + 1] == "/here/Snakefile"
    assert "testbed=2" in beginning


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (
            "snakemake -n plan --config rtt=60 target=1/2",
            CommandLine(("plan",), {"rtt": "60", "target": "1/2"}),
        ),
        ("snakemake --report a.html -C sweep=a=b -- x", CommandLine(("x",), {"sweep": "a=b"}, reports=True)),
        # A job has all of the configuration, and reads what it needs.
        ("snakemake --target-jobs plan: --config rtt=60", CommandLine(("plan",), {}, of_job=True)),
    ],
)
def test_a_command_line_is_read(line: str, read: CommandLine) -> None:
    assert command_line(line.split()) == read


RULES = ("all", "models", "claims", "report")
FILES = (
    "results/demo/report.html",
    "results/demo/notebooks/limits.ipynb",
    "results/demo/cells/rtt=5/streams=1.json",
    "results/demo/cells/rtt=5/streams=8.json",
    "results/demo/cells/rtt=10/streams=1.json",
)


def in_vain(*targets: str, makes: tuple[str, ...] = FILES) -> list[str]:
    return [str(problem) for problem in unknown(targets, RULES, FILES, makes.__contains__)]


def test_what_is_made_is_known() -> None:
    page = "results/demo/notebooks/limits.html"
    assert in_vain("models", *FILES, page, makes=(*FILES, page)) == []


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("modles", "models? what `snakemake help` lists"),
        ("xyz", "what `snakemake help` lists"),
        ("results/dem/report.html", "in results: demo? one of demo"),
        ("./results/demo/raport.html", "in results/demo: report.html? one of cells, notebooks, report.html"),
        (
            "results/demo/cells/rtt=5/streams=9.json",
            "in results/demo/cells/rtt=5: streams=8.json? one of streams=1.json, streams=8.json",
        ),
        ("elsewhere/x", "in .: one of results"),
        ("results/demo", "a file, and this is a folder"),
        ("results/demo/report.html/x", "in results/demo/report.html: one of "),
    ],
)
def test_what_nothing_makes_is_named_with_what_was_meant(target: str, allowed: str) -> None:
    [line] = in_vain(target)
    assert line.startswith(f"command line: target: given {target!r}, allowed: ")
    assert allowed in line


def test_a_page_of_a_notebook_that_is_not_there_is_unknown() -> None:
    page = "results/demo/notebooks/limit.html"
    assert "limits.html? " in in_vain(page, makes=(*FILES, page))[0]


def test_of_many_files_some_are_listed() -> None:
    files = [f"results/{number:02}.json" for number in range(40)]
    [line] = map(str, unknown(["results/40.json"], RULES, files, files.__contains__))
    assert line.endswith("10.json, 11.json and 28 more")


@pytest.fixture(scope="module")
def demo() -> Configuration:
    return load({"sweep": "demo", "testbed": "netns", "results": "my results"}, ROOT)


@pytest.mark.parametrize(
    ("key", "targets", "allowed"),
    [
        (
            "rtt",
            [],
            "snakemake plan and snakemake recommendations alone: "
            "parameters of the sweep are in its file, config/sweeps/demo.yaml",
        ),
        ("target", ["models"], "snakemake plan and snakemake recommendations alone"),
        ("error", ["cells"], "snakemake adaptive alone"),
        ("scale", [], "published figures alone"),
        ("file", ["models"], "data from elsewhere, with source=NAME, and published figures"),
        ("fail_below", ["compare"], "comparisons, with base=NAME new=NAME"),
    ],
)
def test_a_key_that_nothing_reads_is_named(
    demo: Configuration, key: str, targets: list[str], allowed: str
) -> None:
    [problem] = unread({"sweep": "demo", key: "5"}, asked(*targets), demo, again=True)
    assert str(problem).startswith(f"--config: {key}: given 5, allowed: nothing here, as it is for {allowed}")


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("sweep", "what is measured, and source, or base and new, say what there is"),
        ("file", "data from elsewhere, with source=NAME, and published figures"),
    ],
)
def test_a_dataset_from_elsewhere_comes_without_a_sweep_and_without_a_table(key: str, allowed: str) -> None:
    surface = load({"sweep": "demo", "testbed": "netns", "source": "examples/surface.nc"}, ROOT)
    [problem] = unread({key: "demo", "source": "examples/surface.nc"}, asked("claims"), surface, again=False)
    assert str(problem) == f"--config: {key}: given demo, allowed: nothing here, as it is for {allowed}"


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("rtt", "plan"),
        ("streams", "recommendations"),
        ("target", "my results/demo/plan/target=1Gbitps/plan.json"),
        ("probability", "my results/demo/notebooks/plan/target=1Gbitps.html"),
        ("error", "adaptive"),
        ("scale", "chep2024_fig4"),
        ("file", "published"),
        ("again", "report"),
        ("measure", "models"),
        ("results", "models"),
    ],
)
def test_a_key_that_is_read_is_not(demo: Configuration, key: str, target: str) -> None:
    assert list(unread({key: "5"}, asked("models", target), demo, again=True)) == []


def test_cells_are_measured_once_more_by_runs_that_go_beyond_them(demo: Configuration) -> None:
    assert not asked("cells", "adaptive").beyond_cells
    assert asked().beyond_cells
    assert asked("cells", "report").beyond_cells
    [problem] = unread({"again": "disturbed"}, asked("cells"), demo, again=False)
    assert "runs that end with a report, as snakemake without a target" in str(problem)
