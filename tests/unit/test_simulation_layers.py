# SPDX-License-Identifier: Apache-2.0
"""Layers and tools of simulated cells: disks, streams without files, data without TLS; SimGrid and the fixed point."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text
from tpcsweep import dataset
from tpcsweep.configuration.loading import load
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.physics import Estimate, Physics
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.published import FIGURES
from tpcsweep.published.base import Caption, Data
from tpcsweep.published.cambridge import PUBLISHED_LAST, flows, rates, sums
from tpcsweep.testbeds.simulation.engine import Engine
from tpcsweep.testbeds.simulation.model import HEADERS, TLS, central, model_cells, solve

from tests.support.projects import study_of
from tests.support.simulating import ROOT, fixed_point, folded, shipped, simulated_course

CLOSE = 0.02
TESTBED = shipped("simulation-usatlas2007")
PHYSICS = TESTBED.parameters
READ, WRITE = (getattr(PHYSICS, f"disk_{what}_rate").value for what in ("read", "write"))
PATH = {"rtt": 20, "bandwidth": 1, "mtu": 1500, "tcp_buffer": 8_000_000}
FILES = {"file_size": 5 * 10**9, "source_content": "random"}
GRIDFTP = Parameters(tool="globus-url-copy", copy_mode="push", **PATH, **FILES)
SECONDS = Measurement(until="seconds", seconds=120)
FULL = (1500 - HEADERS) / 1538 * PHYSICS.saturation.value
WINDOW = PHYSICS.window_share.value * 65536 * 8e-9 / 0.02


def physics(read: float, write: float) -> Physics:
    known = {"disk_read_rate": read, "disk_write_rate": write}
    made = {name: Estimate(value=value, unit="Gbit/s", source="made up") for name, value in known.items()}
    return PHYSICS.model_copy(update=made)


IPERF = {"layer": "network", "tool": "iperf3"}
CLOSED = {
    "a path without TLS": ({"streams": 4, "layer": "memory_to_memory"}, PHYSICS, FULL),
    "a disk that several streams share": ({"streams": 8, "layer": "memory_to_disk"}, PHYSICS, WRITE),
    "the slower of two disks": ({"streams": 2, "layer": "disk_to_disk"}, physics(read=0.1, write=0.2), 0.1),
    "a disk that is not read": ({"streams": 2, "layer": "memory_to_disk"}, physics(read=0.1, write=0.2), 0.2),
    "windows of streams without files": (IPERF | {"streams": 3, "tcp_buffer": 65536}, PHYSICS, 3 * WINDOW),
    "a path that one stream without files fills": (IPERF | {"streams": 1}, PHYSICS, FULL),
}


@pytest.mark.parametrize("case", CLOSED)
def test_simple_cases_are_their_closed_forms(simgrid: Engine, case: str) -> None:
    given_parameters, known, expected = CLOSED[case]
    one = GRIDFTP.model_copy(update=given_parameters)
    assert fixed_point(one, known) == pytest.approx(expected, rel=CLOSE)
    assert simulated_course(simgrid, one, SECONDS, known).throughput == pytest.approx(expected, rel=CLOSE)


def test_simgrid_and_the_fixed_point_agree_over_the_tests_of_2007(simgrid: Engine) -> None:
    published = load({"sweep": "config/published/usatlas2007.yaml", "testbed": "netns"}, ROOT)
    for one in (cell.parameters for cell in published.grid.cells[::7]):
        found = simulated_course(simgrid, one, SECONDS, PHYSICS).throughput
        # A file of 5 GB takes longer than a cell on most layers, and its set-up is in no figure then.
        assert found == pytest.approx(fixed_point(one, PHYSICS), rel=0.05), one


LAYERS = st.sampled_from(["memory_to_memory", "memory_to_disk", "disk_to_disk"])


@settings(max_examples=25)
@given(st.integers(1, 40), LAYERS, st.floats(0.01, 10), st.floats(0.01, 10), st.integers(10**6, 10**11))
def test_disks_bound_what_uses_them(streams: int, layer: str, read: float, write: float, size: int) -> None:
    one = GRIDFTP.model_copy(update={"streams": streams, "layer": layer, "file_size": size})
    known = physics(read=read, write=write)
    in_memory = fixed_point(one.model_copy(update={"layer": "memory_to_memory"}), known)
    found = fixed_point(one, known)
    bound = {"memory_to_memory": np.inf, "memory_to_disk": write, "disk_to_disk": min(read, write)}[layer]
    assert found <= bound * (1 + 1e-9)
    # Slow start to a lower rate may end a little earlier than it takes less: its last round trip is not a whole one.
    assert found <= in_memory * 1.03
    if bound >= in_memory * 100:
        assert found == pytest.approx(in_memory)


@settings(max_examples=25)
@given(st.integers(1, 40), st.floats(0, 200), st.integers(2**16, 2**30))
def test_streams_without_files_have_no_set_up_and_no_tls(streams: int, rtt: float, buffer: int) -> None:
    path = {"streams": streams, "rtt": rtt, "tcp_buffer": buffer}
    network = GRIDFTP.model_copy(update=IPERF | path)
    large = GRIDFTP.model_copy(update=path | {"layer": "memory_to_memory", "file_size": 10**15})
    assert fixed_point(network, PHYSICS) == pytest.approx(fixed_point(large, PHYSICS), rel=1e-3)
    cells, p = model_cells([network, network.model_copy(update={"tool": "davix-put"})]), central(PHYSICS)
    ceilings = solve(cells, p, "path")[1].ceilings["path"]
    assert ceilings[1] / ceilings[0] == pytest.approx(TLS)


def simulated(name: str, folder: Path, **fewer: Any) -> Data:
    """The dataset of a published sweep with fewer values of some parameters, as a run makes it."""
    content = yaml.safe_load((ROOT / f"config/published/{name}.yaml").read_text())
    content["parameters"] |= fewer
    study = study_of(folder, f"simulation-{name}", **content)
    dataset.write(folded(study, folder), folder / "dataset.nc")
    return Data(folder / "dataset.nc")


def test_the_tests_of_2007_say_what_bound_them(tmp_path: Path) -> None:
    data = simulated("usatlas2007", tmp_path, tcp_buffer=["64 KiB", "8 MB"], streams=[1, 12])
    tuned = data.summary.isel(repetition=0).sel(tcp_buffer=8_000_000, streams=12)
    bound = {str(at): {*tuned.limit.sel(layer=at).values.tolist()} - {""} for at in tuned.layer.values}
    assert bound["network"] == bound["memory_to_memory"] == {"bandwidth"}
    assert bound["memory_to_disk"] == bound["disk_to_disk"] == {"disk"}
    untuned = data.summary.isel(repetition=0).sel(tcp_buffer=65536, streams=1, layer="network", tool="iperf3")
    assert (untuned.limit, untuned.transfers, untuned.fairness.isnull()) == ("window", 0, True)
    assert (data.summary.duration.fillna(120) == 120).all()
    # GridFTP of memory reaches less with its ramp-up than after it; a test never reaches more than its maximum.
    found = data.summary.dropna("tool", how="all")
    missing = found.throughput.isnull()
    assert (missing | (found.throughput_average <= found.throughput + 1e-9)).all()
    assert (missing | (found.throughput <= found.throughput_max * 1.001)).all()


def test_davix_flows_are_drawn_with_their_table_and_the_word(tmp_path: Path) -> None:
    data = simulated("cambridge", tmp_path, rtt=[0, "1 ms"], streams=[5, 10])
    table = flows(data)
    assert len(table) == 10 + 2
    assert table.loc["0", "startup"] == pytest.approx(0.88, abs=0.01)
    assert table.loc["sum", "rate"] == pytest.approx(10 * table.loc["mean", "rate"])
    # As published, bytes over the time of sending, which is without the start-up.
    assert table.loc["0", "rate"] == pytest.approx(800 / table.loc["0", "sending"])
    ten = sums(data).set_index(["rtt", "streams"]).loc[(0.0, 10)]
    assert ten["sum"] == pytest.approx(table.loc["sum", "rate"])
    assert ten["last"] == pytest.approx(8000 / table.loc["0", "total"], rel=0.01)
    assert PUBLISHED_LAST[10] == pytest.approx(38, abs=0.1)  # 1 TB in 3 min 30 s
    assert (data.summary["encryption"], data.summary["layer"]) == ("none", "disk_to_disk")
    ends, rate = rates(data, 5)
    assert rate.sum() * ends[0] == pytest.approx(5 * 800)  # five flows of 100 GB
    drawn = FIGURES["cambridge"].draw(data, Caption("a title; simulated on x", (), ()))
    said = " ".join(text.get_text() for text in drawn.findobj(Text))
    assert "simulated total rate (Gbit/s)" in said and "simulated transfers" in said
    assert "computed from a model, not measured" in " ".join(said.split())
