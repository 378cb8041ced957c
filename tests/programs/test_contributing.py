# SPDX-License-Identifier: Apache-2.0
"""docs/adding: every example is applied to a copy of the project, and does there what its page says."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.workflow import ROOT, succeeded

BLOCK = re.compile(r"^```(python|yaml|diff)\n# (\S+/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = {page.stem: BLOCK.findall(page.read_text()) for page in sorted(ROOT.glob("docs/adding/*.md"))}
"""By page: the language of each block, the file that it is or changes, and its text."""


def changed(text: str, diff: str) -> str:
    """A file's text with a diff applied, whose hunks say where they belong by their lines alone."""
    for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        before, after = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        assert f"\n{text}".count(f"\n{before}") == 1, f"not once in the file:\n{before}"
        text = f"\n{text}".replace(f"\n{before}", f"\n{after}")[1:]
    return text


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contributing")
    for name in ("workflow", "config", "envs"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for language, path, text in (block for blocks in EXAMPLES.values() for block in blocks):
        file = folder / path
        if language == "diff":
            file.write_text(changed(file.read_text(), text))
        else:
            assert not file.exists()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return folder


@pytest.fixture(scope="module")
def failures(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The traceback of each program of CHECKS that fails in one process with the copy's package."""
    folder = tmp_path_factory.mktemp("checks")
    (folder / "checks.json").write_text(json.dumps(CHECKS))
    environment = {**os.environ, "PYTHONPATH": f"{project / 'workflow'}:{ROOT}"}
    command = [sys.executable, "-c", RUNNER, str(folder), str(ROOT / "examples/surface.nc")]
    succeeded(command, cwd=project, env=environment)
    return json.loads((folder / "failures.json").read_text())


RUNNER = '''
import json, sys, traceback
from pathlib import Path

BEGIN = """
import xarray as xr
import yaml
from pathlib import Path
from tests.support.synthetic import write_sweep
from tpcsweep.data import cell_files, folding, opening
from tpcsweep.testbeds.support import check
from tpcsweep.testbeds.loading import load
from tpcsweep.sweeps.parameters import Parameters
"""
place, failures = Path(sys.argv[1]), {}
for number, (name, code) in enumerate(json.loads((place / "checks.json").read_text()).items()):
    folder = place / str(number)
    folder.mkdir()
    try:
        exec(BEGIN + code, {"folder": folder, "surface": sys.argv[2]})
    except Exception:
        failures[name] = traceback.format_exc()
(place / "failures.json").write_text(json.dumps(failures))
'''


def test_the_examples_go_together_and_are_as_the_linters_want_them(project: Path) -> None:
    files = {path for blocks in EXAMPLES.values() for _, path, _ in blocks if path.endswith(".py")}
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        succeeded([f"{Path(sys.executable).with_name('ruff')}", *command, *files], cwd=project)


CHECKS = {
    "tool": """
from tpcsweep.testbeds.rules import broken, everywhere
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Credentials, Transfer

def refused(**parameters):
    sweep = folder / "sweep.yaml"
    sweep.write_text(yaml.safe_dump({"parameters": parameters}))
    return broken(everywhere(2**40, "all"), load({"sweep": str(sweep), "testbed": "netns"}, Path()))

assert not refused(tool="curl-put", copy_mode="push")
assert [problem.key for problem in refused(tool="curl-put", copy_mode="pull")] == ["parameters.copy_mode"]
assert refused(tool="curl-get")

tool, transfer = TOOLS["curl-put"], Transfer("", "https://d/f", "push", source_file="/s/f")
command = tool.command(transfer, Credentials(Path("/c")), Path("/tmp"))
assert command[0] == "/usr/bin/curl" and command[-3:] == ["--upload-file", "/s/f", "https://d/f"]
assert tool.failure(0, "") is None and "no route" in tool.failure(7, "curl: no route")
assert tool.versions()["curl"]
""",
    "model": """
from pytest import approx
from tests.support.made_up import STREAMS, measured
from tpcsweep.analysis.models.fit import fit
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.observations import observe

truth = {"ceiling": 8.0, "knee": 12.0}
data = measured(MODELS["exponential"], truth, {"streams": STREAMS}, noise=0.01, repetitions=3)
fitted = fit(MODELS["exponential"], observe(data))
assert fitted.values == approx(truth, rel=0.05)
""",
    "command": """
import json
from click.testing import CliRunner
from tpcsweep.cli import main

def said(*words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.stdout

assert "best" in said("--help").split()
assert "Example: tpcsweep best results/demo" in said("best", "--help")
throughput = xr.load_dataset(surface).throughput
found = json.loads(said("best", surface, "--json"))
assert found.pop("throughput") == throughput.max()
assert throughput.sel(found) == throughput.max()
assert f"{throughput.max().item():.3g} Gbit/s: " in said("best", surface)
""",
    "claim": """
from tpcsweep.analysis.claims.judging import judge

verdicts = {verdict.claim.name: verdict for verdict in judge(xr.load_dataset(surface))}
verdict = verdicts["example2026.more_streams"]
assert verdict.outcome == "holds" and verdict.effect.interval.low > 1, verdict
""",
    "published-figure": """
from tpcsweep.pages.figures import save
from tpcsweep.analysis.publications.reproduction import Data, figure_caption
from tpcsweep.analysis.publications.catalogue import FIGURES, published_figure

name = "example2026_fig1"
assert FIGURES[name].name == name and name in list(FIGURES)
study = load({"sweep": name, "testbed": "simulation"}, Path())
assert published_figure(study) == name and len(study.grid.cells) == 10
data = Data(Path(surface))
shown = figure_caption(FIGURES[name], data)
assert [claim.word for claim in shown.claims] == ["holds"]
save(FIGURES[name].draw(data, shown), folder, name)
assert (folder / f"{name}.png").stat().st_size > 10_000
""",
    "figure": """
from tpcsweep.pages import figures as draw

draw.save(draw.sent_again(xr.load_dataset(surface)), folder, "sent_again")
assert (folder / "sent_again.png").stat().st_size > 10_000
""",
    "recorded-figure": """
from collections import defaultdict
import numpy as np
import socket
from types import SimpleNamespace
from tpcsweep.data.importing.import_settings import Import
from tpcsweep.measuring import limits
from tpcsweep.measuring.readings import sampled_series
from tpcsweep.measuring.sampler import LocalTargets, Sampler
from tpcsweep.testbeds.kubernetes.pod import watched
from tpcsweep.testbeds.node.program_counters import Network, Target

# Of real connections of this machine, as namespaces and as pods read them.
watched.FOLDER, watched.path_totals = folder, dict
programs = SimpleNamespace(read=dict, totals=dict)
container = SimpleNamespace(programs=lambda target: programs)
pod = watched.OriginPod(container, "source", 1, ["lo"], ["127.0.0.1"])
for target in (Target(programs, Network("source", programs, 1, ["127.0.0.1"])), pod.target):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        with Sampler([LocalTargets({"src1": target.read})], 0.01) as sampler:
            while sampler.readings().ended < sampler.readings().began + 0.05:
                one.sendall(b"x")
        found = sampled_series(sampler.readings(), 0.01)
    assert 0 < found["min_rtt"].min() <= found["min_rtt"].max() < 1e4

means = defaultdict(lambda: 1.0, rtt_idle=10.0, rtt_loaded=25.0)
found = limits.evidence(Parameters(), defaultdict(lambda: 1.0), means, defaultdict(lambda: np.ones(2)), [1.0])
assert found["rtt_stretch"] == 2.5

axes = {"streams": [1, 2], "repetition": [1]}
files = list(write_sweep(folder, axes))
cell, without = (cell_files.parse_content(file.read_bytes()) for file in files)
cell["summary"] |= {"rtt_stretch": 2.5, "min_rtt": 9.5}
cell["samples"]["min_rtt"] = cell["samples"]["rtt_loaded"]
for name in ("rtt_stretch", "min_rtt"):
    del without["summary"][name]
for file, content in zip(files, (cell, without)):
    file.write_bytes(cell_files.format_content(content))
folded = folding.fold(files, axes)
summary = folded.summary
assert summary.min_rtt.attrs == {
    "units": "ms",
    "long_name": "min round-trip time",
    "comment": "smallest RTT of a data connection, mean over the samples",
}
assert summary.min_rtt.values.ravel().tolist()[0] == 9.5 and "min_rtt" in folded.samples
assert summary.rtt_stretch.attrs == {
    "units": "1", "long_name": "round-trip time stretch", "comment": "rtt_loaded over rtt_idle"
}
assert summary.rtt_stretch.values.ravel().tolist()[0] == 2.5 and summary.rtt_stretch.isnull().sum() == 1
assert "rtt_stretch" not in xr.load_dataset(surface)
shown = opening.load(Path(surface)).rtt_stretch
assert shown.isnull().all() and shown.attrs == summary.rtt_stretch.attrs
columns = {"throughput": {"column": "t", "unit": "Gbit/s"}, "rtt_stretch": {"column": "s"}}
Import.model_validate({"variables": columns})
""",
    "parameter": """
from docs.commands import parameters as documented
from docs.schemas import schemas
from tpcsweep.testbeds.kubernetes import objects
from tpcsweep.testbeds.netns import topology

def configured(testbed, **axes):
    given = {"parameters": axes or {"initial_window": [2, 10]}}
    (folder / "sweep.yaml").write_text(yaml.safe_dump(given))
    return load({"sweep": str(folder / "sweep.yaml"), "testbed": testbed, "results": str(folder)}, Path())

lowat, name = {"tcp_notsent_lowat": ["16 KiB", 2**32 - 1]}, "net.ipv4.tcp_notsent_lowat"
low, usual = Parameters(tcp_notsent_lowat=16384), Parameters()
assert check(configured("netns", **lowat)) == []
assert topology.sysctls_of_nodes(topology.sides(Path("/"), 1), low)["dst1"][name] == "16384"
assert topology.tcp_sysctls(usual)[name] == "4294967295"
pods = configured("kubernetes", streams=1).testbed
assert {"name": name, "value": "16384"} in objects.pod_sysctls(pods, low)
assert name not in str(objects.pod_sysctls(pods, usual)) and objects.sysctls_in_pods(pods, usual)[name]
(problem,) = check(configured("simulation", **lowat))
assert "tcp_notsent_lowat[0]: given 16 KiB" in str(problem) and "do not support" in str(problem), problem
assert name in documented() and name in schemas()["sweep.schema.json"]
assert opening.load(Path(surface)).tcp_notsent_lowat.attrs["units"] == "B"

assert check(configured("netns")) == []
(problem,) = check(configured("simulation"))
assert "initial_window[0]: given 2, allowed: 10: testbeds of kind simulation do not support" in str(problem), problem
assert len(configured("netns").grid.deployments) == 2
wanted = Parameters(initial_window=2)
lines = dict(topology.route_commands("p", topology.sides(Path("/"), 1), wanted))["p-src1"]
assert all(line.endswith("congctl cubic initcwnd 2") for line in lines)
axes = {"initial_window": [2, 10], "repetition": [1]}
(_, two), (file, ten) = write_sweep(folder, axes).items()
cell = cell_files.parse_content(file.read_bytes())
del cell["spec"]["parameters"]["initial_window"]
file.write_bytes(cell_files.format_content(cell))
assert not cell_files.stale(file, ten) and cell_files.stale(file, two)
assert opening.load(Path(surface)).initial_window == opening.load(Path(surface), "samples").initial_window == 10
summary = folding.fold(list((folder / "cells").rglob("*.json")), axes).summary
assert summary.initial_window.values.tolist() == [2, 10] and (summary.status == 1).all()
assert summary.initial_window.attrs["comment"].startswith("packets that a new connection sends")
""",
    "testbed": """
from tpcsweep.sweeps.study import cell_spec
from tpcsweep.running import run_lock
from tpcsweep.running.runner import run

def configured(**parameters):
    content = {"parameters": parameters, "measurement": {"min_time": "1 s", "max_time": "2 s"}}
    (folder / "probe.yaml").write_text(yaml.safe_dump(content))
    asked = {"sweep": str(folder / "probe.yaml"), "testbed": "sockets", "results": str(folder)}
    return load(asked, Path())

(problem,) = check(configured(rtt="5 ms", streams=1))
assert "rtt: given 5 ms, allowed: 0 ms: testbeds of kind sockets do not support" in str(problem), problem
(problem,) = check(configured(streams=200))
assert "each is a thread" in str(problem), problem
configuration = configured(streams=[1, 2])
assert check(configuration) == []
run_lock.lock_results(configuration.folder)
for deployment in configuration.grid.deployments:
    (folder / "logs" / deployment).mkdir(parents=True)
    run(configuration, deployment, folder / "logs" / deployment)
cells = configuration.grid.cells
files = [configuration.cell_file(cell) for cell in cells]
summary = folding.fold(files, configuration.grid.axes, (cell_spec(configuration, cell) for cell in cells)).summary
assert (summary["throughput"] > 0).all() and summary.attrs["testbed_kind"] == "sockets"
""",
    "path": """
from unittest.mock import Mock
from tpcsweep.deploying.paths import link, network_path

wire = network_path.NetworkPath(rtt=0, bandwidth=network_path.LARGEST)
assert network_path.choose_emulator(wire, netem_works=False) == "wire"
assert network_path.choose_emulator(network_path.NetworkPath(rtt=0, bandwidth=1), netem_works=False) == "none"

commands = Mock(**{"run.return_value": ""})
made = link.connect(wire, ("near", "10.0.0.1/30"), ("far", "10.0.0.2/30"), commands, Path())
lines = [line for call in commands.batch.call_args_list for line in call.args[1]]
assert any("type veth" in line for line in lines)
assert not any("qdisc" in line for line in lines)
assert made.counters()["drops"] == 0
""",
}
"""By page: a program that does what the text says of its example, with a folder and a shipped dataset."""


def test_a_command_is_one_file() -> None:
    assert [language for language, *_ in EXAMPLES["command"]] == ["python"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_the_text_says(name: str, failures: dict[str, str]) -> None:
    assert name in CHECKS
    assert failures.get(name) is None, failures[name]
