# SPDX-License-Identifier: Apache-2.0
"""The studies of a workflow: read from its configuration, and given to its rules."""

import datetime
import getpass
import os
import re
import shutil
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.analysis.publications.catalogue import published_studies
from tpcsweep.common.files import write_text
from tpcsweep.data.places import DatasetStudy
from tpcsweep.running.products import ALWAYS
from tpcsweep.running.studies import NEVER, DeploymentGroup, Studies, alternatives_pattern
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds import loading
from tpcsweep.testbeds.loading import load

from tests.support.commands import tpcsweep
from tests.support.workflow import ROOT

Patch = pytest.MonkeyPatch
SURFACE = ROOT / "examples/surface.nc"
NAMES = st.lists(st.sampled_from(["0.1", "2", "10", "a.b", "a+b"]), min_size=1, max_size=4, unique=True)


def studies(**config: Any) -> Studies:
    return Studies({"testbed": "netns", **config}, ROOT)


@pytest.mark.parametrize("given", ["demo", "demo, smoke@simulation", "chep2024_fig4@simulation"])
def test_sweeps_are_named_by_a_list_or_with_commas(given: str) -> None:
    assert [*studies(sweep=given)] == [*studies(sweep=given.split(", "))] == given.split(", ")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("demo,smoke,demo", "sweep: given demo 2 times, allowed: each sweep once"),
        ("demo,config/sweeps/demo.yaml", "sweep: given demo 2 times"),
        ("demo,", "sweep: given ['demo', ''], allowed: names of sweeps"),
        ([], "sweep: given []"),
        (["demo", 5], "allowed: text, and YAML reads this as another type"),
        *((value, "choose a name such as run-007") for value in (7, 1e3, True, datetime.date(2025, 11, 25))),
        # All files are read before one is refused.
        ("dmo,smoke@here", "sweep: given 'dmo', allowed: demo? "),
        ("dmo,smoke@here", "testbed: given 'here', allowed: "),
    ],
)
def test_wrong_names_are_refused(given: object, says: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        studies(sweep=given)
    assert says in str(error.value)


@pytest.mark.parametrize("name", ["a{b}", "a{", "<b>", "-b", "a\nb", "a #b", "a: b", 2025, {"a": "b"}])
@pytest.mark.parametrize("key", ["results", "dataset"])
def test_paths_that_snakemake_reads_otherwise_are_refused_in_one_line(key: str, name: object) -> None:
    with pytest.raises(ConfigurationError) as error:
        studies(**{"sweep": "demo", key: name})
    [line] = str(error.value).splitlines()
    assert f"{key}: given {name!r}, allowed: " in line


def test_a_file_with_a_comma_and_an_at_in_its_path_is_one_sweep(tmp_path: Path) -> None:
    for name in ("a,b", "a@b", "it's {1}: é"):
        write_text(tmp_path / name / "mine.yaml", "parameters: {rtt: [5]}\n")
        file = str(tmp_path / name / "mine.yaml")
        assert [*studies(sweep=file)] == ["mine"]
        assert [*studies(sweep=f"{file}@simulation")] == ["mine@simulation"]


def test_a_dataset_is_the_only_study(tmp_path: Path) -> None:
    found = studies(sweep="demo", dataset=str(SURFACE), results=str(tmp_path))
    assert [*found] == ["surface"]
    assert isinstance(found["surface"], DatasetStudy)
    assert (found.sweeps, found.measured, found.cells, found.workflow_datasets) == ([], [], [], ["surface"])
    place = tmp_path / "surface/dataset.nc"
    place.parent.mkdir()
    shutil.copyfile(SURFACE, place)
    there = studies(sweep="demo", dataset=str(place), results=str(tmp_path))
    assert alternatives_pattern(there.workflow_datasets) == NEVER  # no rule makes a file of itself
    assert there.sources(SimpleNamespace(study="surface")) == [str(place)]


@pytest.mark.parametrize("cells", ["cells", "cells.jsonl"])
def test_a_dataset_does_not_replace_the_results_of_a_sweep_of_its_name(cells: str, tmp_path: Path) -> None:
    write_text(
        tmp_path / "surface" / cells / "a.json" if cells == "cells" else tmp_path / "surface" / cells, "{}"
    )
    refused = rf"dataset: given .*surface\.nc.*another name of the file, or results=OTHER, .*surface/{cells} "
    with pytest.raises(ConfigurationError, match=refused):
        studies(sweep="demo", dataset=str(SURFACE), results=str(tmp_path))
    own = tmp_path / "surface/dataset.nc"
    shutil.copyfile(SURFACE, own)
    with pytest.raises(ConfigurationError, match=refused):
        studies(sweep="demo", dataset=str(SURFACE), results=str(tmp_path))
    assert [*studies(sweep="demo", dataset=str(own), results=str(tmp_path))] == ["surface"]
    assert [*studies(sweep="demo", dataset=str(SURFACE), results=f"{tmp_path}/other")] == ["surface"]
    shutil.copyfile(SURFACE, tmp_path / "theirs.nc")
    found = studies(sweep="demo", dataset=f"{tmp_path}/theirs.nc", results=str(tmp_path))
    assert [*found] == ["theirs"]


def test_rules_know_which_studies_are_theirs() -> None:
    found = studies(sweep="mtu,smoke@simulation,chep2024_fig4@simulation")
    assert alternatives_pattern(found.simulated) == r"(?:smoke@simulation|chep2024_fig4@simulation)"
    assert published_studies(found) == ["chep2024_fig4@simulation"]
    files = found.notebook_files
    assert [file for file in files if file.endswith(("curves.html", "releases.html"))] == [
        "mtu/notebooks/curves.html"
    ]
    assert {f"{name}/notebooks/{notebook}.html" for name in found for notebook in ALWAYS} <= {*files}
    assert found.axes("curves")(SimpleNamespace(study="mtu")) == {"x": "streams", "curve": "mtu"}
    assert "results/smoke@simulation/cells.jsonl" in found.cells
    assert [group.name for group in found.deployment_groups] == ["measure_mtu"]


def test_a_job_expands_its_own_study_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"sweep": "mtu,smoke@simulation,config/sweeps/smoke.yaml", "testbed": "netns"}
    expanded = Mock(side_effect=loading.expand)
    monkeypatch.setattr(loading, "expand", expanded)
    assert [*Studies(config, ROOT, "smoke@simulation")] == ["smoke@simulation"]
    assert expanded.call_count == 1
    assert [*Studies({**config, "scale": "1/2"}, ROOT, "mtu_scaled_1_2")] == ["mtu_scaled_1_2"]
    assert "smoke" in Studies(config, ROOT, "smoke")


def test_another_spelling_of_a_study_does_not_start_its_dataset_and_another_scale_does() -> None:
    def attributes(name: str = "smoke", **config: str) -> str:
        return studies(**{"sweep": "smoke", **config}).attributes(SimpleNamespace(study=name))

    spellings = {"results": ["./results", "results/"], "sweep": ["config/sweeps/smoke.yaml"]}
    spellings["testbed"] = ["config/testbeds/netns.yaml"]
    found = {attributes(**{key: value}) for key, values in spellings.items() for value in values}
    assert found == {attributes()}
    assert attributes("smoke_scaled_1_2", scale="1/2") not in found
    assert attributes(results="elsewhere") not in found


SMOKE = load({"sweep": "smoke", "testbed": "netns"}, ROOT)


def deployments(*paths: str, study: SweepStudy = SMOKE) -> DeploymentGroup:
    return DeploymentGroup(study, "measure", paths, (), frozenset())


@given(first=NAMES, second=NAMES, data=st.data())
def test_a_pattern_matches_its_deployments(first: list[str], second: list[str], data: st.DataObject) -> None:
    everything = [f"x={a}/y={b}" for a, b in product(first, second)]
    group = data.draw(st.lists(st.sampled_from(everything), min_size=1, unique=True))
    pattern = re.compile(deployments(*group).pattern)
    assert [path for path in everything if pattern.fullmatch(path)] == [p for p in everything if p in group]
    assert not pattern.fullmatch("x=0X1/y=2")


def test_a_product_has_a_short_pattern() -> None:
    paths = [f"x={a}/y={b}" for a, b in product(range(30), range(30))]
    assert len(deployments(*paths).pattern) < 600


@pytest.mark.parametrize("places", range(1, 9))
def test_a_deployment_reserves_cores_so_that_no_more_run_than_the_testbed_has_places(places: int) -> None:
    study: Any = SimpleNamespace(places=places)
    for cores in range(1, 65):
        threads = deployments(study=study).threads(cores)
        assert 1 <= cores // threads <= places
        assert places > 1 or threads == cores
        assert cores % places or threads == cores // places
    assert deployments(study=study).threads(None) == 1


UNRUNNABLE = [
    ("netns", "{bandwidth: 400 Gbit/s}", r"parameters\.bandwidth: given 400 Gbit/s, allowed: at most"),
    ("netns", "{tool: xrdcp, copy_mode: push}", "given push with tool xrdcp, allowed: pull"),
    ("kubernetes", "{rtt: 900 ms}", "given 900 ms, allowed: 0 ms or 20 ms"),
    ("endpoints", "{tool: curl, streams: 9}", "given 9, allowed: at most 8"),
    (
        "endpoints",
        "{tool: curl, streams: 8, file_size: 10 GB}",
        "budget.bytes: given 50 GiB, allowed: at least",
    ),
    ("simulation", "{loss: 1 %}", "given 1 %, allowed: 0 %: testbeds of kind simulation do not support"),
]


@pytest.mark.parametrize(("testbed", "parameters", "said"), UNRUNNABLE)
def test_a_sweep_that_its_testbed_cannot_run_ends_runs_and_is_not_shown(
    tmp_path: Path, monkeypatch: Patch, testbed: str, parameters: str, said: str
) -> None:
    sweep = tmp_path / "mine.yaml"
    sweep.write_text(f"parameters: {parameters}\nmeasurement: {{until: files, files: 8, max_time: 60 s}}\n")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("X509_USER_PROXY", str(sweep))
    monkeypatch.setattr("socket.socket.connect", Mock(side_effect=AssertionError("nobody is asked")))
    with pytest.raises(SystemExit, match=said) as ended:
        Studies.from_workflow({"sweep": str(sweep), "testbed": testbed, "results": str(tmp_path)})
    shown = tpcsweep("grid", "--sweep", sweep, "--testbed", testbed, "--results", tmp_path)
    assert (shown.exit_code, shown.stdout, shown.stderr) == (2, "", f"Error: {ended.value}\n")


def test_a_user_without_a_name_has_one_for_snakemake_which_must_write_its_records(monkeypatch: Patch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", Mock(side_effect=KeyError))
    config = {"sweep": "chep2024_fig4", "testbed": "simulation"}
    assert [*Studies.from_workflow(config)]
    assert getpass.getuser() == str(os.getuid())
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(SystemExit, match="Snakemake must write here: run it in a copy"):
        Studies.from_workflow(config)
