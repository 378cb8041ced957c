# SPDX-License-Identifier: Apache-2.0
"""Pairs that are found by a selector, on four nodes of which two have slower links: used side by side, told apart."""

import datetime
import itertools
from collections.abc import Iterator

import pytest
import xarray as xr
from tpcsweep.analysis.hardware import node_effects

from tests.cluster import local, sweeps
from tests.cluster.sweeps import ONE, RATE, ClusterSweep, Space, local_testbed, recipe

FAST, SLOW = ("n1", "n2"), ("n3", "n4")
RATES = [RATE / 5] * 2 + [RATE / 20] * 2
"""Gbit/s of the nodes' links: paths are what binds, two deployments at a time, on a busy machine too."""


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    """The namespace of an account with the shipped rights and no other."""
    folder = tmp_path_factory.mktemp("four")
    with (
        local.cluster(folder, 4, rtt=[0.0] * 4, bandwidth=RATES) as started,
        sweeps.account(started.kubeconfig, "tpcsweep-pairs", folder) as account,
    ):
        yield account


@pytest.fixture(scope="module")
def measured(four: Space, tmp_path_factory: pytest.TempPathFactory) -> ClusterSweep:
    """Two settings in four deployments, two at a time."""
    settings = local_testbed(four.name, bandwidth=RATES[0], **recipe("pairs"))
    del settings["client"]
    sweep = four.sweep(
        tmp_path_factory.mktemp("measured"),
        settings,
        measurement={"max_time": "12 s", "precision": "50 %"},
        parameters={**ONE, "file_size": "1 MiB", "streams": [1, 2]},
        repetitions=4,
        repeat="deployments",
    )
    four.allow_listing_nodes()
    figure = str(sweep.results / "figures/hardware.png")
    done = sweep.run("--cores", "2", "cells", figure, timeout=1800)
    assert done.returncode == 0, done.stdout
    return sweep


def test_every_cell_is_measured_on_one_pair_beside_its_client(measured: ClusterSweep, four: Space) -> None:
    cells = measured.good_records()
    assert len(cells) == 8
    for cell in cells:
        nodes = cell["provenance"]["nodes"]
        assert (nodes["source"], nodes["destination"]) in (FAST, SLOW)
        assert cell["provenance"]["kubernetes"]["pods"]["client"]["node"] == nodes["source"]
    four.check_empty()


def test_two_pairs_are_used_side_by_side(measured: ClusterSweep) -> None:
    spans: dict[str, list[tuple[float, float]]] = {}
    for cell in measured.records():
        began = datetime.datetime.fromisoformat(cell["provenance"]["started"]).timestamp()
        of = spans.setdefault(cell["provenance"]["nodes"]["source"], [])
        of.append((began, began + cell["summary"]["duration"]))
    fast, slow = (spans[pair[0]] for pair in (FAST, SLOW))
    assert min(begin for begin, _ in fast) < max(end for _, end in slow)
    assert min(begin for begin, _ in slow) < max(end for _, end in fast)
    for of in (fast, slow):  # and each for one deployment at a time
        of.sort()
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(of))


def test_the_dataset_has_the_nodes_and_their_effect_is_found(measured: ClusterSweep) -> None:
    summary = xr.load_dataset(measured.results / "dataset.nc")
    assert set(summary["source_node"].values.ravel()) == {"n1", "n3"}
    assert set(summary["destination_node"].values.ravel()) == {"n2", "n4"}
    found = node_effects(summary)
    assert found.confounded == []
    pairs = found.pairs.set_index("pair")
    assert pairs.loc["n1 → n2", "ratio"] > 1.1 > 0.9 > pairs.loc["n3 → n4", "ratio"]
    assert pairs["deployments"].sum() == 4
    assert (measured.results / "figures/hardware.csv").exists()
