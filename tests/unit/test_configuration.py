# SPDX-License-Identifier: Apache-2.0
"""Reading, checking and showing a configuration."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import yaml
from rich.console import Console
from tpcsweep.cli.grid import grid_summary, grid_table
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import WORD, Parameters, complete, supporting_testbeds
from tpcsweep.sweeps.problems import ConfigurationError, quoted
from tpcsweep.sweeps.study import cell_spec
from tpcsweep.testbeds import support
from tpcsweep.testbeds.endpoints import checks as endpoints
from tpcsweep.testbeds.loading import KINDS as TESTBEDS
from tpcsweep.testbeds.loading import WorkflowSettings, load
from tpcsweep.testbeds.netns.checks import check, this_machine
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.support import require_supported

from docs.schemas import FOLDER, schemas
from tests.support.projects import MACHINE, cases, errors, loaded, problems
from tests.support.workflow import ROOT

KINDS = ("sweep", "testbed", "import")
HOSTS = "host-tuning"
"""The sweep whose axis is a setting of the testbed of this name."""
SHIPPED = [("config", ROOT / f"config/{name}.yaml") for name in ("config", "k8s")]
SHIPPED += [(kind, path) for kind in KINDS for path in sorted(ROOT.glob(f"config/{kind}s/*.yaml"))]


SWEEPS = [path.stem for kind, path in SHIPPED if kind == "sweep"]


@pytest.mark.parametrize("name", [name for name in SWEEPS if name != HOSTS])
def test_shipped_sweeps_can_be_done_on_two_cpus(name: str) -> None:
    configuration = load({"sweep": name, "testbed": "netns"}, ROOT)
    assert check(configuration, replace(MACHINE, congestion_controls=("cubic", "reno", "bbr"))) == []


def test_the_shipped_sweep_of_hosts_fits_the_budget_of_its_testbed() -> None:
    configuration = load({"sweep": HOSTS, "testbed": HOSTS}, ROOT)
    assert len(configuration.grid.deployments) == 5 * 4
    assert endpoints.check(configuration) == []


def test_the_shipped_configuration_takes_minutes() -> None:
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    assert grid_summary(load(config, ROOT)) == (
        "demo on netns: 24 cells in 8 deployments (2 origins × 2 cores × 2 rtt × 3 streams, 1 repetition), "
        "about 5.6 min to 7.2 min"
    )


@pytest.mark.parametrize(("kind", "path"), SHIPPED, ids=lambda value: getattr(value, "stem", value))
def test_shipped_files_are_valid_by_their_schema(kind: str, path: Path) -> None:
    schema = json.loads((FOLDER / f"{kind}.schema.json").read_text())
    jsonschema.validate(yaml.safe_load(path.read_text()), schema, jsonschema.Draft202012Validator)
    named = re.search(r"^# yaml-language-server: \$schema=(.+)$", path.read_text(), re.MULTILINE)
    assert named and (path.parent / named[1]).resolve() == FOLDER / f"{kind}.schema.json"


def test_schemas_are_in_step_with_the_models() -> None:
    written = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    assert written == schemas(), "run make docs"


def test_names_and_paths_mean_files(root: Path) -> None:
    by_name = loaded(root)
    assert (by_name.name, by_name.sweep_file) == ("one", "config/sweeps/one.yaml")
    assert (by_name.testbed_name, by_name.testbed_file) == ("one", "config/testbeds/one.yaml")
    (root / "mine.yaml").write_text("parameters: {streams: [1, 2]}\n")
    by_path = load({"sweep": "mine.yaml", "testbed": str(root / "config/testbeds/one.yaml")}, root)
    assert (by_path.name, by_path.sweep_file, len(by_path.grid.cells)) == ("mine", "mine.yaml", 2)
    elsewhere = loaded(root, results="elsewhere")
    assert str(elsewhere.cell_file(elsewhere.grid.cells[0])) == "elsewhere/one/cells/rtt=5/repetition=1.json"


FIRST = json.loads("""
{"format": 1, "sweep": "one", "parameters": {"pair": "only", "xrootd": "system", "origins": 1, "cores": null, "rtt":
5.0, "bandwidth": 1.0, "loss": 0.0, "queue_limit": null, "mtu": 9000, "tcp_buffer": 67108864, "congestion_control":
"cubic", "layer": "memory_to_memory", "authorization": "usual", "tool": "gfal-copy", "copy_mode": "pull",
"encryption": "usual", "endpoint": "redirector", "tcp_streams": 1, "file_size": 268435456, "source_content": "sparse",
"streams": 1}, "repetition": 1, "measurement": {"until": "steady", "interval": 0.1, "min_time": 4.0, "max_time": 20.0,
"seconds": null, "files": null, "precision": 0.05, "confidence": 0.95}, "testbed": {"name": "one", "kind": "netns",
"client": "source"}}
""")
"""The specification of a cell that was measured before all parameters with `Before`."""


@pytest.mark.parametrize(
    ("given", "longest"), [("max_time: 2 s", 2), ("interval: 5 s", 20), ("max_time: 40 s", 40)]
)
def test_a_default_of_min_time_refuses_nothing_and_stays_in_specifications(
    root: Path, given: str, longest: float
) -> None:
    configuration = loaded(root, f"parameters: {{rtt: 5 ms}}\nmeasurement: {{{given}}}")
    assert configuration.sweep.measurement.bounds == (min(longest, 30), longest)
    assert cell_spec(configuration, configuration.grid.cells[0])["measurement"]["min_time"] == 4


def test_a_new_parameter_leaves_cells_current(root: Path) -> None:
    configuration = loaded(root, "parameters: {rtt: 5 ms, xrootd: system}\ndescription: any\nseed: 3")
    specification = cell_spec(configuration, configuration.grid.cells[0])
    assert list(specification) == list(FIRST)
    fix = "annotate a new parameter with the value that cells had Before (sweeps/parameters.py)"
    assert complete(FIRST) == specification, fix


def test_a_parameter_that_a_testbed_lacks_is_refused(root: Path) -> None:
    configuration = loaded(root, "parameters: {rtt: 5, file_size: 1 MiB, pair: [only, other]}")
    said = (
        "parameters.pair[1]: given other, allowed: only: testbeds of kind netns do not support other values"
    )
    assert said in str(support.check(configuration)[0])
    for name in Parameters.model_fields:
        assert set() < set(supporting_testbeds(name)) <= TESTBEDS.keys()


def test_unknown_and_missing_keys_of_the_configuration(root: Path) -> None:
    known = ", ".join(WorkflowSettings.model_fields)
    assert errors(root, testbd="one", sweeep="x") == [
        f"config/config.yaml or --config: testbd: given an unknown key, allowed: testbed? one of {known}",
        f"config/config.yaml or --config: sweeep: given an unknown key, allowed: sweep? one of {known}",
    ]
    with pytest.raises(ConfigurationError, match=r"testbed: given nothing, allowed: this key is needed"):
        load({"sweep": "one"}, root)


def test_names_and_folders_that_cannot_be_are_refused(root: Path) -> None:
    (root / "file").touch()
    (root / "my sweep.yaml").write_text("parameters: {rtt: 5}\n")
    place = "config/config.yaml or --config"
    [line] = errors(root, results="file/results")
    assert line == f"{place}: results: given 'file/results', allowed: a folder; file is a file"
    with pytest.raises(ConfigurationError, match="allowed: a file name of letters"):
        load({"sweep": "my sweep.yaml", "testbed": "one"}, root)
    for name in ("x" * 5000 + ".yaml", f"{root}/none/mine.yaml"):
        with pytest.raises(ConfigurationError, match=re.escape(f"sweep: given {quoted(name)}, allowed: ")):
            load({"sweep": name, "testbed": "one"}, root)
    scaled = "file_size: given 4 GB × 1/1000000 = 4000 B, allowed: 1 MiB"
    with pytest.raises(ConfigurationError, match=scaled):
        load({"sweep": "chep2024_fig4", "testbed": "netns", "scale": "1/1000000"}, ROOT)
    with pytest.raises(ConfigurationError) as error:
        load({"sweep": "onee", "testbed": "nothing.yaml"}, root)
    sweep, testbed = str(error.value).splitlines()
    path = "or the path of a file that ends in .yaml"
    assert sweep.startswith(f"{place}: sweep: given 'onee', allowed: one? or another of ")
    assert sweep.endswith(f", {path}")
    assert testbed == f"{place}: testbed: given 'nothing.yaml', allowed: one of one, {path}"


ONCE = "more than once, allowed: each value once"
A_TIME = (
    'a time such as "50 ms" (ns, us, ms, s, min, h), or a number of ms, '
    "at least 0, at most 2000 ms (by a geostationary satellite it is 600 ms)"
)
CORES = (
    "a number of cores, at least 0.001, at most 100000, or null for no quota "
    "(a millisecond in each second; more than 64 hosts have)"
)
UNKNOWN = "given an unknown key, allowed:"
PARAMETERS = ", ".join(Parameters.model_fields)


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "parameters: {rtt: [5 ms, 50 Mbit/s]}": f"parameters.rtt[1]: given '50 Mbit/s', allowed: {A_TIME}",
        "parameters: {rtt: 1:30}": f"parameters.rtt: given '1:30', allowed: {A_TIME}",
        "parameters: {cores: [0]}": f"parameters.cores[0]: given 0, allowed: {CORES}",
        "parameters: {streams: []}": "parameters.streams: given [], allowed: a list of at least one value",
        "parameters: {rtt: [50, 50 ms]}": f"parameters.rtt: given 50.0 {ONCE}",
        "parameters: {xrootd: [mine, mine]}": f"parameters.xrootd: given 'mine' {ONCE}",
        "parameters: {copy_mode: both}": "parameters.copy_mode: given 'both', allowed: pull or push",
        "parameters: {tool: ../x}": f"parameters.tool: given '../x', allowed: text that matches {WORD}",
        "parameters: {xrootd: 5.10}": "parameters.xrootd: given 5.1, "
        "allowed: text, in quotes where YAML reads something else",
        "parameters: [1]": "parameters: given [1], allowed: a mapping",
        "parameters: {rrt: 5}": f"parameters.rrt: {UNKNOWN} rtt? one of {PARAMETERS}",
        "exclude: [{rrt: 5}]": f"exclude[0].rrt: {UNKNOWN} rtt? one of {PARAMETERS}",
        "notebooks: {curve: {}}": f"notebooks.curve: {UNKNOWN} curves? one of curves, releases",
        "parameters: {rtt: [1, 2], streams: 4}\nnotebooks: {curves: {x: streams, curve: rtt}}": (
            "notebooks.curves.x: given streams, allowed: an axis: one of rtt"
        ),
        "parameters: {rtt: [1, 2]}\nnotebooks: {curves: {x: rtt, curve: rtt}}": (
            "notebooks.curves.curve: given rtt, allowed: another axis; the sweep has none"
        ),
        "measurement: {min_time: 5 s, max_time: 1 s}": (
            "measurement: given min_time 5 s and max_time 1 s, allowed: min_time at most max_time"
        ),
        "measurement: {until: seconds}": "measurement: given until: seconds without seconds, allowed: seconds as well",
        "measurement: {seconds: 3}": (
            "measurement: given seconds with until: steady, allowed: only min_time and max_time there"
        ),
        "measurement: {until: seconds, seconds: 50 ms}": (
            "measurement: given interval 0.1 s and seconds 0.05 s, allowed: interval at most seconds"
        ),
        "measurement: {until: files, files: 0, max_time: 1 h}": (
            f"measurement.files: given 0, allowed: {replace(units.FILES, null='another rule').allowed()}"
        ),
        "seed: 1\nparameters: {}\nseed: 2": "line 3: given the key 'seed' twice, allowed: YAML, each key once",
        "": "given an empty file, allowed: a mapping with names as keys",
        "seed: 1": "parameters: given nothing, allowed: one parameter or more, with a list for an axis, "
        "such as parameters: {streams: [1, 4, 16]}",
    }.items(),
)
def test_a_wrong_sweep_is_refused(root: Path, text: str, message: str) -> None:
    assert errors(root, text) == [f"config/sweeps/one.yaml: {message}"]


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "kind: netn": "kind: given 'netn', allowed: netns? one of netns, kubernetes, endpoints, simulation",
        "cpus: 1": "kind: given nothing, allowed: one of netns, kubernetes, endpoints, simulation",
        "kind: netns\ncpus: 0": f"cpus: given 0, allowed: {replace(units.CPUS, null='all').allowed()}",
        "kind: netns\nmax_rt: 5": f"max_rt: {UNKNOWN} max_rtt? one of {', '.join(Netns.model_fields)}",
    }.items(),
)
def test_a_wrong_testbed_is_refused(root: Path, text: str, message: str) -> None:
    assert errors(root, testbed=text) == [f"config/testbeds/one.yaml: {message}"]


def test_all_mistakes_are_reported_at_once(root: Path) -> None:
    found = errors(root, "parameters: {rtt: [-1, 5, x], streams: 0, corse: 1}\nseed: a\n", "kind: netn\n")
    *sweep, testbed = [line.split(": ")[:2] for line in found]
    keys = ("parameters.rtt[0]", "parameters.rtt[2]", "parameters.streams", "parameters.corse", "seed")
    assert sweep == [["config/sweeps/one.yaml", key] for key in keys]
    assert testbed == ["config/testbeds/one.yaml", "kind"]
    (broken,) = errors(root, "seed: 1\nparameters: {rtt: [1}\n", "kind: netns\n")
    assert broken.startswith("config/sweeps/one.yaml: line 2: given ")


IN_FILE = "in config/testbeds/one.yaml"
KNOWN = ", ".join(TOOLS)
REFUSED = f"""
cores: [0.5, 1.5]
    cores[1]: given 1.5, allowed: at most 1, half of 2 (the CPUs of this machine)
rtt: [0, 5, 600]
    rtt[2]: given 600 ms, allowed: at most 500 ms (max_rtt {IN_FILE})
bandwidth: 10 Gbit/s
    bandwidth: given 10 Gbit/s, allowed: at most 5 Gbit/s (max_bandwidth {IN_FILE})
congestion_control: [cubic, bbr]
    congestion_control[1]: given bbr, allowed: one of cubic, reno
rtt: [0, 5], queue_limit: [null, 1000]
    queue_limit[1]: given 1000 with rtt 0 ms, allowed: null with rtt 0 ms, where no packets are under way
tool: gfal
    tool: given gfal, allowed: gfal2? one of {KNOWN}
tcp_streams: [1, 4], copy_mode: [pull, push]
    tcp_streams[1]: given 4 with tool gfal-copy, copy_mode push, allowed: 1: multi-stream is pull only in XRootD
file_size: 1 GiB, streams: [1, 8], source_content: random
    file_size: given 1 GiB with streams 8, source_content random, layer memory_to_memory, allowed: at most 744 MiB:
        11 files in 8 GiB (half of what this machine has available)
origins: [2, 300], file_size: 1 MiB
    origins[1]: given 300, allowed: at most 64, as many as one redirector can have
tcp_streams: [1, 100], streams: 1000, file_size: 1 MiB
    tcp_streams[1]: given 100 with streams 1000, origins 1, allowed: at most 28: each origin has 28232 ports for the
        connections of all streams
"""


@pytest.mark.parametrize(("asked", "messages"), cases(REFUSED))
def test_what_the_machine_cannot_do(root: Path, asked: str, messages: list[str]) -> None:
    found = problems(root, f"parameters: {{{asked}}}", "kind: netns")
    assert found == [f"config/sweeps/one.yaml: parameters.{message}" for message in messages]


def test_an_rtt_is_refused_at_its_include_and_rates_that_a_delay_line_cannot_carry(root: Path) -> None:
    [problem] = problems(root, "parameters: {rtt: [5]}\ninclude: [{rtt: [5, 0.1]}]")
    said = "include[0].rtt[1]: given 0.1 ms, allowed: 0, or at least 0.2 ms, the smallest that a path here can make"
    assert problem == f"config/sweeps/one.yaml: {said}"
    asked = root, "parameters: {rtt: [0, 5], bandwidth: 10 Gbit/s}", "{kind: netns, max_bandwidth: 20 Gbit/s}"
    assert problems(*asked) == []
    [problem] = problems(*asked, largest_bandwidth=5.0)
    said = "parameters.bandwidth: given 10 Gbit/s with rtt 5 ms, loss 0 %, allowed: at most 5 Gbit/s, "
    assert f": {said}" in problem


def test_a_testbed_bounds_what_its_machine_gives_and_is_bounded_by_it(root: Path) -> None:
    testbed = "{kind: netns, cpus: 1, memory: 512 MiB}"
    cores, size = problems(root, "parameters: {cores: 1, streams: 2}", testbed)
    assert cores.endswith(f"parameters.cores: given 1, allowed: at most 0.5, half of 1 (cpus {IN_FILE})")
    assert size.endswith(f", allowed: at most 128 MiB: 4 files in 512 MiB (memory {IN_FILE})")
    cpus, memory = problems(root, "parameters: {rtt: 5}", "{kind: netns, cpus: 8, memory: 64 GiB}")
    assert cpus == "config/testbeds/one.yaml: cpus: given 8, allowed: at most 2, the CPUs of this machine"
    assert memory.endswith("memory: given 64 GiB, allowed: at most 16 GiB, what this machine has available")


def test_this_machine_is_described_and_its_limits_are_required(root: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"congestion_control: given perfect, allowed: one of"):
        require_supported(loaded(root, "parameters: {file_size: 1 MiB, congestion_control: perfect}"))
    machine = this_machine("/var/lib/tpcsweep")
    assert machine.cpus >= 1 and machine.memory > 2**20 and machine.disk > 0
    assert machine.smallest_rtt > 0 and machine.congestion_controls
    assert this_machine("/dev/shm/not/there").disk_kind == "tmpfs"


def test_the_overview_shows_axes_and_deployments_in_the_order_of_measuring(root: Path) -> None:
    parameters = "parameters: {rtt: [5, 50], cores: [0.5, null], streams: [1, 2]}"
    configuration = loaded(root, f"{parameters}\nexclude: [{{rtt: 5, streams: 2}}]\n")
    console = Console(width=140)
    with console.capture() as capture:
        console.print(grid_table(configuration))
    lines = capture.get().splitlines()
    said = "one on one: 6 cells in 4 deployments (2 cores × 2 rtt × 2 streams, 1 repetition)"
    assert lines[0].startswith(said)
    rows = [[part.strip() for part in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert ["rtt", "5 ms, 50 ms"] in rows
    deployments = [row for row in rows if len(row) == 5]
    assert [row[0] for row in deployments] == ["1", "2", "3", "4"]
    streams = {("5 ms", "1", "streams 1"), ("50 ms", "2", "streams 1, 2")}
    assert {tuple(row[2:]) for row in deployments} == streams
    first = max(configuration.grid.priorities.items(), key=lambda ranked: ranked[1])[0]
    cores, rtt = deployments[0][1:3]
    assert first == f"cores={'none' if cores == 'null' else cores}/rtt={rtt.removesuffix(' ms')}"


@pytest.mark.parametrize(("cells", "says"), [(1, "about 27 s"), (40, "about 14 min"), (5000, "about 29 h")])
def test_expected_durations_are_rounded(root: Path, cells: int, says: str) -> None:
    configuration = loaded(root, f"repetitions: {cells}\nparameters: {{rtt: 5}}\nretry_share: 0\n")
    assert grid_summary(configuration).endswith(says)


def test_a_large_site_is_within_the_bounds(root: Path) -> None:
    asked = "parameters: {origins: 64, cores: 16384, bandwidth: 800 Gbit/s, streams: 1000, file_size: 10 TB, "
    asked += "tcp_buffer: 1 GB, rtt: 600 ms, mtu: 9000}\nmeasurement: {until: seconds, seconds: 168 h}"
    assert len(loaded(root, asked).grid.cells) == 1


def test_a_release_of_ones_own_must_be_there(root: Path) -> None:
    testbed = f"{{kind: netns, releases: [{{name: mine, path: {root}/none}}]}}"
    assert problems(root, "parameters: {rtt: 5}", testbed) == []
    [line] = problems(root, "parameters: {xrootd: mine}", testbed)
    said = f"allowed: an installed release (releases {IN_FILE}): "
    assert f"parameters.xrootd: given mine, {said}" in line
    assert f": xrootd mine: {root}/none/bin/xrootd is not there" in line
