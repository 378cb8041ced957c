# SPDX-License-Identifier: Apache-2.0
"""What a target needs beside what every sweep does is asked for in one line, and else not touched."""

import sys
from pathlib import Path

import pandas as pd
import pytest
import simulation
import yaml
from IPython.core.interactiveshell import InteractiveShell
from tpcsweep import exporting, importing
from tpcsweep.archiving import write_crate
from tpcsweep.configuration import checks
from tpcsweep.configuration.loading import load
from tpcsweep.dataset import earlier
from tpcsweep.extras import EXTRAS, MissingExtraError, missing, require_extra

from tests.support.workflow import ROOT

MODULES = {"crate": "rocrate", "history": "ruptures", "parquet": "pyarrow", "zarr": "zarr"}
MODULES |= {"slurm": "snakemake_executor_plugin_slurm"}


def line_of(name: str) -> str:
    pip = f" or `pip install {EXTRAS[name].content}`" if name in MODULES else ""
    return f"the extra {name} ({EXTRAS[name].content}) is not installed: run `make setup EXTRAS={name}`{pip}"


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("name", MODULES)
def test_an_extra_that_is_not_there_is_told_in_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_extra(name)
    without(monkeypatch, MODULES[name])
    with pytest.raises(MissingExtraError) as error:
        require_extra(name)
    assert str(error.value) == line_of(name)


@pytest.mark.parametrize("name", ["globus", "ns3", "simulation"])
def test_missing_programs_are_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tpcsweep.extras.SIMGRID_PYTHON", str(tmp_path / "python3"))
    assert missing([name]) == [line_of(name)]


def test_the_extras_are_those_that_set_up_has_lists_for() -> None:
    lists = {file.stem.partition("-")[2] for file in (ROOT / "envs").glob("*-*.txt")}
    assert lists - {"docs", "test"} == set(EXTRAS)


def test_what_a_sweep_needs_follows_from_its_testbed_and_tools(tmp_path: Path) -> None:
    def needs(testbed: str, until: str = "steady", **parameters: object) -> list[str]:
        file = tmp_path / "sweep.yaml"
        measurement = {"until": until, **({"seconds": 30} if until == "seconds" else {})}
        file.write_text(yaml.safe_dump({"parameters": parameters, "measurement": measurement}))
        return checks.extras(load({"sweep": str(file), "testbed": testbed}, ROOT))

    globus = {"tool": ["curl", "globus-url-copy"], "copy_mode": "push"}
    assert needs("netns", tool="curl") == []
    assert needs("netns", **globus) == ["globus"]
    assert needs("simulation", **globus) == []
    assert needs("simulation", "seconds", streams=4) == ["simulation"]
    assert needs("kubernetes", streams=4) == []


def test_what_imports_an_extra_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "a.parquet")
    without(monkeypatch, "pyarrow", "zarr", "rocrate")
    monkeypatch.setenv("PATH", str(tmp_path))
    a = tmp_path / "a"
    for extra, function, *arguments in (
        ("parquet", importing.read_table, tmp_path / "a.parquet"),
        ("zarr", exporting.zarr, ROOT / "examples/surface.nc", a),
        ("zarr", earlier.copy_completed, tmp_path / "a.zarr", a),
        ("crate", write_crate, tmp_path, None, None, a, a),
        ("ns3", simulation.build, a),
    ):
        with pytest.raises(MissingExtraError, match=f"EXTRAS={extra}"):
            function(*arguments)


def test_a_notebook_shows_the_line_alone(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell()
    shell.run_cell("from tpcsweep.extras import MissingExtraError\nraise MissingExtraError('one line')")
    assert capsys.readouterr().out.strip() == "one line"
