# SPDX-License-Identifier: Apache-2.0
"""The simulated testbed: closed forms, labels, refusals, random parameters."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
import pytest
import xarray as xr
import yaml
from arithmetic import RATIO, Setup
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.analysis import comparison_plots
from tpcsweep.analysis.comparison import compare
from tpcsweep.analysis.models.observations import observe
from tpcsweep.data import folding, labels, reduction, tables
from tpcsweep.deploying.paths.network_path import SUPER_PACKET
from tpcsweep.measuring.tcp import HEADERS
from tpcsweep.pages import figures
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.testbeds.loading import load
from tpcsweep.testbeds.simulation import fixed_point as simulated
from tpcsweep.testbeds.simulation.fixed_point import TLS, central, model_cells, packet, solve
from tpcsweep.testbeds.simulation.physics import Estimate, Physics
from tpcsweep.testbeds.support import check, require_supported

from tests.support import simulating, synthetic
from tests.support.projects import study_of
from tests.support.simulating import AT_ONCE, PHYSICS, ROOT, fixed_point, given_values, shipped

SHIPPED = tuple(path.stem for path in sorted((ROOT / "config/testbeds").glob("simulation*.yaml")))
CLOSE = 0.02
LARGE = 10**12
CORE = PHYSICS.core_rate_source.value
WIDE = {"bandwidth": 400, "file_size": LARGE}
NO_SETUP = {"setup_time": 0, "setup_rtts": 0, "setup_cpu": 0, "spill": 0}
CLOSED = {
    "a stream's window over its RTT": (
        Parameters(rtt=50, tcp_buffer=16 * 2**20, bandwidth=100, file_size=LARGE, streams=4),
        AT_ONCE,
        4 * PHYSICS.window_share.value * 16 * 2**20 * 8e-9 / 0.05,
    ),
    "the path's payload": (
        Parameters(rtt=1, bandwidth=10, mtu=1500, file_size=LARGE, streams=20, tcp_buffer=2**28),
        AT_ONCE,
        10 * TLS * (1500 - HEADERS) / 1538 * PHYSICS.saturation.value,
    ),
    "one core": (Parameters(cores=1, rtt=1, tcp_buffer=2**28, **WIDE), AT_ONCE, CORE),
    "set-up, then a core": (
        Parameters(cores=1, rtt=0, bandwidth=400, file_size=10**8, tcp_buffer=2**28),
        given_values(**NO_SETUP | {"setup_time": 0.3, "initial_window": 1e6}),
        0.8 / (0.3 + 0.8 / CORE),
    ),
    "round trips of set-up and slow start": (
        # The file has 630 segments, windows of 10 to 320. The set-up's 6 round trips send the first of these six.
        Parameters(rtt=100, bandwidth=400, file_size=630 * (9000 - HEADERS), tcp_buffer=2**30),
        given_values(**NO_SETUP | {"setup_rtts": 6}),
        1 / (1 / CORE + (6 + 5) * 0.1 / (630 * (9000 - HEADERS) * 8e-9)),
    ),
    "netem's limit over its delay": (
        Parameters(rtt=100, bandwidth=100, queue_limit=1000, file_size=LARGE, streams=50, tcp_buffer=2**28),
        given_values(**NO_SETUP, queue_delay=1, queue_use=1),
        1000 * 2 * (9000 - HEADERS) * 8e-9 / 0.1,
    ),
    "cores that an instance cannot use": (
        Parameters(origins=2, cores=64, rtt=0, streams=200, **WIDE),
        given_values(**NO_SETUP, contention=0, instance_cores=8, core_rate_source=2),
        2 * 8 * 2.0,
    ),
}
USATLAS = shipped("simulation-usatlas2007").parameters
GRIDFTP = {"tool": "globus-url-copy", "copy_mode": "push"}
IPERF = {"tool": "iperf3", "layer": "network", "copy_mode": "push"}
FULL = (1500 - HEADERS) / 1538 * USATLAS.saturation.value
WINDOW = USATLAS.window_share.value * 65536 * 8e-9 / 0.02
WRITTEN = USATLAS.disk_write_rate.value
DISKS = given_values(disk_read_rate=0.1, disk_write_rate=0.2)


def of_2007(**asked: Any) -> Parameters:
    path = {"rtt": 20, "bandwidth": 1, "mtu": 1500, "tcp_buffer": 8_000_000}
    return Parameters(**{**path, "file_size": 5 * 10**9, "source_content": "random", **GRIDFTP, **asked})


CLOSED |= {
    "a path without TLS": (of_2007(streams=4), USATLAS, FULL),
    "a disk that several streams share": (of_2007(streams=8, layer="memory_to_disk"), USATLAS, WRITTEN),
    "the slower of two disks": (of_2007(streams=2, layer="disk_to_disk"), DISKS, 0.1),
    "a disk that is not read": (of_2007(streams=2, layer="memory_to_disk"), DISKS, 0.2),
    "windows of streams without files": (of_2007(**IPERF, streams=3, tcp_buffer=65536), USATLAS, 3 * WINDOW),
    "a path that one stream without files fills": (of_2007(**IPERF, streams=1), USATLAS, FULL),
}


@pytest.mark.parametrize("case", CLOSED)
def test_simple_cases_are_their_closed_forms(case: str) -> None:
    one, physics, expected = CLOSED[case]
    assert fixed_point(one, physics) == pytest.approx(expected, rel=CLOSE)


def test_tls_costs_its_records_and_iperf3_has_none() -> None:
    cells = model_cells([of_2007(**IPERF), of_2007(**IPERF | {"tool": "davix-put"})])
    plain, encrypted = solve(cells, central(USATLAS), "path")[1].ceilings["path"]
    assert encrypted / plain == pytest.approx(TLS)


@pytest.mark.parametrize("queues", ["path", "origin"])
@pytest.mark.parametrize("mtu", [1500, 9000])
@given(limit=st.integers(100, 5000), rtt=st.floats(1, 200))
def test_packets_follow_rates(queues: Literal["path", "origin"], mtu: int, limit: int, rtt: float) -> None:
    """Up to the arithmetic's crossover they grow to super-packets, and beyond they shrink to two segments."""
    p = central(PHYSICS) | {"queue_pacing": np.array(RATIO.low), "queue_delay": np.array(1.0)}
    counts, one = (2, 2000), Parameters(origins=2, rtt=rtt, queue_limit=limit, mtu=mtu)
    cells = model_cells(one.model_copy(update={"streams": streams}) for streams in counts)
    crossover = Setup(delay=rtt, mtu=mtu, limit=limit, queues=2 if queues == "origin" else 1).crossover.low
    sizes = [SUPER_PACKET - HEADERS if streams <= crossover else 2 * (mtu - HEADERS) for streams in counts]
    assert packet(cells, p, queues).tolist() == sizes
    fixed = p | {"queue_segments": np.array(1.0), "queue_pacing": np.array(0.0)}
    assert packet(cells, fixed, queues).tolist() == [mtu - HEADERS] * 2  # packets that do not grow


@pytest.mark.parametrize("name", SHIPPED)
def test_a_claim_has_one_role(name: str) -> None:
    settings = shipped(name)
    assert not set(settings.inputs) & set(settings.assumptions)


CELL = st.builds(
    Parameters,
    streams=st.integers(1, 600),
    origins=st.sampled_from([1, 2, 4, 8]),
    cores=st.sampled_from([None, 0.1, 1, 16, 128]),
    rtt=st.floats(0, 300),
    bandwidth=st.floats(0.1, 800),
    queue_limit=st.sampled_from([None, 10, 1000]),
    mtu=st.sampled_from([1500, 9000]),
    tcp_buffer=st.integers(2**16, 2**31 - 1),
    file_size=st.integers(2**10, 10**11),
    endpoint=st.sampled_from(["redirector", "direct"]),
)


@given(CELL, st.sampled_from(["origin", "path"]))
def test_the_fixed_point_is_one_and_keeps_below_every_ceiling(one: Parameters, queues: str) -> None:
    cells, p = model_cells([one]), central(PHYSICS)
    throughput, at = solve(cells, p, queues)
    assert throughput[0] > 0
    for ceiling in (at.demand, *at.ceilings.values()):
        assert throughput[0] <= float(np.ravel(ceiling)[0]) * (1 + 1e-6)
    larger = one.model_copy(update={"bandwidth": one.bandwidth * 2})
    # A wider path spills more data out of the cache, and never so many that less arrives. Slow start up to a window
    # of its size is on average slower than steady sending, by (log2(1/ln 2) + 1 - 1/ln 2) = 0.09 round trips at most.
    assert fixed_point(larger, queues=queues) >= throughput[0] * (1 - 0.09 / PHYSICS.setup_rtts.value)


def test_draws_stay_in_their_ranges_and_intervals_hold_the_value() -> None:
    for name, values in simulated.random_sets(PHYSICS, 100).items():
        low, high = getattr(PHYSICS, name).range
        if low is not None and low != high:
            assert low <= values.min() < values.max() <= high
    cells = model_cells([Parameters(streams=streams, rtt=20) for streams in (1, 10, 100)])
    low, high = simulated.spread(cells, PHYSICS, "path", 100, 0.95)
    assert (low < 1).all() and (high > 1).all()
    certain = given_values(**{name: getattr(PHYSICS, name).value for name in Physics.model_fields})
    assert np.allclose(simulated.spread(cells, certain, "path", 20, 0.95), 1)


ESTIMATE = {"value": 2, "low": 1, "high": 3, "unit": "s", "source": "made up"}


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("unit 'ms', allowed: 's'", {"parameters": {"setup_time": ESTIMATE | {"unit": "ms"}}}),
        ("2 in a range from 2.5 to 3", {"parameters": {"setup_time": ESTIMATE | {"low": 2.5}}}),
        ("at least 0", {"parameters": {"setup_time": ESTIMATE | {"low": -1}}}),
        ("null, allowed: a number of s", {"parameters": {"setup_time": ESTIMATE | {"value": None}}}),
        ("source", {"parameters": {"setup_time": ESTIMATE | {"source": ""}}}),
        ("not based on this one", {"base": "{folder}/mine.yaml"}),
        ("of kind simulation", {"base": "netns"}),
        ("given 'nowhere', allowed: one of", {"base": "nowhere"}),
        (r"inputs: given 'chep2024\.nothing', allowed: ", {"inputs": ["chep2024.nothing"]}),
        (r"assumptions: given 'chep2024\.nothing'", {"assumptions": {"chep2024.nothing": "x"}}),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, said: str, content: dict[str, Any]) -> None:
    base = str(content.get("base", "simulation")).format(folder=tmp_path)
    with pytest.raises(ConfigurationError, match=said):
        require_supported(on_base(tmp_path, **content | {"base": base}))


def on_base(folder: Path, **content: Any) -> SweepStudy:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({"kind": "simulation", "base": "simulation", **content}))
    return load({"sweep": "smoke", "testbed": str(path), "results": str(folder / "results")}, ROOT)


def test_a_testbed_has_what_its_base_has_and_it_does_not_say_and_other_cells(tmp_path: Path) -> None:
    other = {"chep2024.one_origin": "something else"}
    saying = {"parameters": {"setup_time": ESTIMATE}, "inputs": ["chep2023.saturate"], "assumptions": other}
    of_base, configured = on_base(tmp_path), on_base(tmp_path, **saying)
    mine = configured.testbed
    assert mine.parameters == PHYSICS.model_copy(update={"setup_time": Estimate.model_validate(ESTIMATE)})
    assert mine.inputs == (*shipped().inputs, "chep2023.saturate")
    assert mine.assumptions == {**shipped().assumptions, **other}
    usual, own = (cell_spec(found, found.grid.cells[0]) for found in (of_base, configured))
    assert usual != own == json.loads(json.dumps(own))


IN_FILE = "in config/testbeds/simulation.yaml"


@pytest.mark.parametrize(
    ("testbed", "parameters", "said"),
    [
        ("simulation", {"loss": 0.01}, "given 1 %, allowed: 0 %: testbeds of kind simulation do not support"),
        ("simulation", {"layer": "disk_to_disk"}, f"disk_read_rate and disk_write_rate (null {IN_FILE})"),
        ("simulation", {"layer": "memory_to_disk"}, f"numbers for disk_write_rate (null {IN_FILE})"),
        ("simulation", {"congestion_control": "bbr"}, "given bbr, allowed: cubic: testbeds of kind"),
        ("simulation", IPERF, "gfal-copy or curl or gfal2 or native"),
        ("simulation", {"tool": ["curl", "gfal-copy"]}, "does not tell them apart"),
        ("simulation", {"tcp_streams": 4, "tool": "curl"}, "given 4, allowed: 1: testbeds of kind"),
        ("simulation", {"cores": 500}, f"host_cores {IN_FILE}"),
        ("simulation", {"file_size": "4 TB"}, f"memory {IN_FILE}"),
        ("simulation", {"encryption": "tls"}, "allowed: usual: other encryption"),
        ("simulation-usatlas2007", {"tool": "gfal-copy"}, "globus-url-copy or iperf3"),
        ("simulation-cambridge", GRIDFTP, "allowed: davix-put"),
        ("simulation-cambridge", {"tool": "davix-put", "copy_mode": "push"}, "none: other encryption"),
    ],
)
def test_the_model_refuses(tmp_path: Path, testbed: str, parameters: dict[str, Any], said: str) -> None:
    assert said in " ".join(map(str, check(study_of(tmp_path, testbed, parameters=parameters))))


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> folding.Folded:
    folder = tmp_path_factory.mktemp("sweep")
    asked = {"streams": [1, 8], "rtt": [1, 60], "origins": [1, 2], "cores": 8, "bandwidth": 20}
    study = study_of(folder, "simulation", parameters={**asked, "file_size": "1 GB"})
    return simulating.folded(study, folder)


def test_a_simulated_dataset_says_so(groups: folding.Folded, tmp_path: Path) -> None:
    summary = groups.summary
    assert (summary.status == labels.STATUS.index("ok")).all()
    assert (summary.throughput_low <= summary.throughput).all()
    assert (summary.throughput <= summary.throughput_high).all()
    assert (summary.limit != "").all()
    assert summary.retransmits.isnull().all()
    assert groups.samples.goodput.notnull().any("time").all()
    assert summary.attrs["claims_used_as_inputs"].split() == list(shipped().inputs)
    assert json.loads(summary.attrs["claims_that_follow_from_assumptions"]) == shipped().assumptions
    assert summary.attrs["host"] == ""
    tables.write_table(summary, tmp_path / "cells.csv")
    assert all("simulated" in row for row in (tmp_path / "cells.csv").read_text().splitlines()[1:])


def test_nothing_simulated_is_drawn_without_the_word(groups: folding.Folded) -> None:
    summary = groups.summary
    compared = compare(summary.assign_attrs(testbed_kind="netns", testbed="netns"), summary)
    alone = (figures.heatmap, figures.surface, figures.lines, figures.cpu, figures.limits)
    made = [draw(summary) for draw in alone]
    made += [
        figures.series(summary, groups.samples),
        comparison_plots.forest(compared),
        comparison_plots.ratios(compared),
    ]
    for figure in made:
        assert "simulated" in " ".join(text.get_text() for text in figure.texts)
        for axes in figure.axes:
            label = axes.get_ylabel() + axes.get_xlabel() + getattr(axes, "get_zlabel", str)()
            assert "put (Gbit/s)" not in label or "simulated" in label
    observations = observe(summary)
    assert observations.data_kind == "simulated" and "simulated" in observations.label


def test_simulated_and_measured_cells_are_never_folded_together(tmp_path: Path) -> None:
    axes: dict[str, Any] = {"streams": [1, 2], "repetition": [1]}
    files = synthetic.write_sweep(tmp_path / "measured", axes, missing=[{"streams": 2}])
    files |= synthetic.write_sweep(tmp_path / "simulated", axes, kind="simulation", missing=[{"streams": 1}])
    with pytest.raises(reduction.DatasetError, match="kind"):
        folding.fold(files, axes)


def recorded(summary: xr.Dataset, change: Callable[[dict[str, Any]], object]) -> xr.Dataset:
    """A dataset with something else in the record of its simulation."""
    [record] = [orjson.loads(str(one)) for one in summary["provenance_record"].values]
    change(record["simulation"])
    return summary.assign(provenance_record=("record", [orjson.dumps(record).decode()]))


def test_a_dataset_of_another_version_of_the_model_is_to_be_simulated_again(groups: folding.Folded) -> None:
    other = recorded(groups.summary, lambda it: it["parameters"].update(haste=it["parameters"].pop("spill")))
    with pytest.raises(ValueError, match=r"unknown: haste; missing: spill\): simulate it again"):
        simulated.simulation_settings(other)


def test_datasets_under_drawn_parameters_spread_around_the_simulated_one(groups: folding.Folded) -> None:
    summary = groups.summary
    fewer = recorded(summary, lambda simulation: simulation.update(draws=30))
    throughput = xr.concat([one.throughput for one in simulated.datasets(fewer)], "draw")
    assert throughput.sizes["draw"] == 30
    assert (throughput.min("draw") < summary.throughput).all()
    assert (throughput.max("draw") > summary.throughput).all()
    middle = solve(simulated.cells_in(summary), central(PHYSICS), shipped().queues)[0]
    assert np.allclose(middle, summary.throughput.values.ravel(), rtol=1e-5)
    with pytest.raises(ValueError, match="not a simulated dataset"):
        simulated.simulation_settings(summary.assign_attrs(testbed_kind="netns"))
