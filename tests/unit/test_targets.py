# SPDX-License-Identifier: Apache-2.0
"""What a run was asked for, and whether the configured sweep has a part in it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tpcsweep.published.figures import FIGURES
from tpcsweep.running.internals import Internals, requested
from tpcsweep.running.rules import Targets


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
    assert requested(line.split()) == targets


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
    beginning = Internals(SimpleNamespace(global_resources=testbeds, basedir="/here", cores=1)).inner(None)
    assert beginning[beginning.index("--cores") + 1] == "1"
    assert beginning[beginning.index("--snakefile") + 1] == "/here/Snakefile"
    assert "testbed=2" in beginning
