# SPDX-License-Identifier: Apache-2.0
"""Several sweeps in one run, and the user's command at its end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tpcsweep.configuration.loading import Configuration, ConfigurationError, load
from tpcsweep.running.notifying import environment, notify
from tpcsweep.running.several import each, sweeps

from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT, finished


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("demo", ["demo"]),
        ("demo,smoke", ["demo", "smoke"]),
        ("demo, mine/b.yaml", ["demo", "mine/b.yaml"]),
        (["demo", "smoke"], ["demo", "smoke"]),
        (["demo"], ["demo"]),
        (None, []),
        (5, []),
    ],
)
def test_sweeps_are_named_by_a_list_or_with_commas(given: object, named: list[str]) -> None:
    assert sweeps({"sweep": given}) == named


def test_a_file_with_a_comma_in_its_path_is_one_sweep(tmp_path: Path) -> None:
    file = tmp_path / "a,b.yaml"
    file.touch()
    assert sweeps({"sweep": str(file)}) == [str(file)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("demo,smoke,demo", "sweep: given demo 2 times, allowed: each sweep once"),
        ("demo,config/sweeps/demo.yaml", "sweep: given demo 2 times"),
        (["demo", "demo"], "sweep: given demo 2 times"),
        ("demo,", "sweep: given 'demo,', allowed: names of sweeps"),
        ([], "sweep: given [], allowed: names of sweeps"),
        (["demo", 5], "allowed: names of sweeps"),
        ({"demo": 1}, None),
    ],
)
def test_what_names_no_sweeps_is_refused(given: object, says: str | None) -> None:
    if says is None:
        assert sweeps({"sweep": given}) == []  # and refused as any other value is
        return
    with pytest.raises(ConfigurationError) as error:
        sweeps({"sweep": given})
    assert says in str(error.value)


def test_all_sweeps_are_looked_through_before_the_first_begins(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("parameters: {rtt: 5 MiB}\n")
    config = {"sweep": f"smoke,dmo,{tmp_path}/bad.yaml", "testbed": "netns", "results": str(tmp_path)}
    with pytest.raises(ConfigurationError) as error:
        each(config, ROOT)
    assert len(str(error.value).splitlines()) == 2
    assert "given 'dmo'" in str(error.value)
    done = snakemake("cells", "--config", *(f"{key}={value}" for key, value in config.items()))
    assert done.returncode != 0
    assert "bad.yaml: parameters.rtt: given '5 MiB'" in done.stdout
    assert "sweep 1 of" not in done.stdout


def test_a_run_of_two_sweeps_measures_both_and_tells_the_end_of_each(tmp_path: Path) -> None:
    for name, streams in (("one", [1]), ("two", [1, 2])):
        sweep = {"parameters": {"rtt": "10 ms", "bandwidth": "1 Gbps", "streams": streams}}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(sweep))
    hook = f"env | grep ^TPCSWEEP_ | sort >{tmp_path}/$TPCSWEEP_SWEEP.env; exit 3"
    config = [
        f"sweep={tmp_path}/one.yaml,{tmp_path}/two.yaml",
        "testbed=simulation",
        f"results={tmp_path}/results",
        f"notify={hook}",
    ]
    # As a user starts it: each sweep is another process of the same command line.
    done = finished([sys.executable, "-m", "snakemake", "cells", "--config", *config])
    assert done.returncode == 0, done.stdout
    assert "sweep 2 of 2: two" in done.stdout
    for name, cells in (("one", "1"), ("two", "2")):
        told = dict(line.split("=", 1) for line in (tmp_path / f"{name}.env").read_text().splitlines())
        assert told["TPCSWEEP_STATUS"] == "complete"
        assert told["TPCSWEEP_CELLS"] == told["TPCSWEEP_MEASURED"] == cells
        assert told["TPCSWEEP_PAGE"] == ""
        folder = Path(told["TPCSWEEP_RESULTS"])
        assert folder == tmp_path / "results" / f"{name}@simulation"
        assert len(list(folder.rglob("cells/**/*.json"))) == int(cells)
    assert done.stdout.count("ended with status 3; that changes nothing of the run") == 2


def test_one_sweep_that_fails_keeps_the_others_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "fast.yaml").write_text(
        "parameters: {bandwidth: 400 Gbps}\n"
    )  # more than this machine's paths have
    config = [f"sweep={tmp_path}/fast.yaml,smoke", f"results={tmp_path}/results"]
    done = finished([sys.executable, "-m", "snakemake", "grid", "--config", *config])
    assert done.returncode != 0
    assert "smoke on netns" in done.stdout
    assert done.stdout.splitlines()[-1] == "fast: ended with status 1"


def test_what_is_of_no_sweep_is_made_once(tmp_path: Path) -> None:
    config = ["sweep=demo,smoke", f"results={tmp_path}"]
    done = snakemake("-n", "claims", "--config", *config, "source=examples/surface.nc")
    assert "sweep 1 of" not in done.stdout
    done = snakemake("-n", "terena2005", "--config", *config)
    assert "sweep 1 of" not in done.stdout


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    return configured(tmp_path, "true")


def configured(tmp_path: Path, command: str | None) -> Configuration:
    config: dict[str, Any] = {"sweep": "smoke", "testbed": "netns", "results": str(tmp_path)}
    return load({**config, "notify": command}, ROOT)


def test_a_hook_that_fails_is_said(tmp_path: Path) -> None:
    assert notify(configured(tmp_path, None), "complete") == ""
    assert notify(configured(tmp_path, "true"), "complete") == ""
    assert "notify: 'exit 7' ended with status 7" in notify(configured(tmp_path, "exit 7"), "failed")
    assert "ended with status 127" in notify(configured(tmp_path, "no-such-command-here"), "failed")


def test_a_hook_is_told_of_the_page_where_there_is_one(configuration: Configuration) -> None:
    assert environment(configuration, "failed")["TPCSWEEP_PAGE"] == ""
    configuration.folder.mkdir(parents=True)
    page = configuration.folder / "index.html"
    page.touch()
    told = environment(configuration, "incomplete")
    assert told["TPCSWEEP_PAGE"] == str(page)
    assert told["TPCSWEEP_STATUS"] == "incomplete"
    assert int(told["TPCSWEEP_LEFT"]) == len(configuration.grid.cells)


def test_a_hook_has_no_input_and_the_environment_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "kept")
    script = "import json, os, sys; print(json.dumps([sys.stdin.read(), os.environ['MINE']]))"
    command = f"{sys.executable} -c {json.dumps(script)} >{tmp_path}/said"
    assert notify(configured(tmp_path, command), "complete") == ""
    assert json.loads((tmp_path / "said").read_text()) == ["", "kept"]
    assert "TPCSWEEP_SWEEP" not in os.environ
