# SPDX-License-Identifier: Apache-2.0
"""Facts of a dataset on its page: the order of blocks, and parameters that all cells share."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from tpcsweep.data.labels import STATUS
from tpcsweep.data.opening import load
from tpcsweep.pages.dataset_facts import dataset_facts
from tpcsweep.pages.encryption import encryption_text
from tpcsweep.pages.shared_settings import varied_settings

from tests.support.blocks import made_up, written
from tests.support.synthetic import bare

ORDERS = (["stock", "fq"], ["fq", "stock"])


@pytest.fixture
def blocks(tmp_path: Path) -> xr.Dataset:
    """Two blocks of two settings, one cell after another; the first cell of the second block was not measured."""
    summary = load(written(tmp_path, made_up({"stock": 0.0, "fq": 0.3}, 2, seed=1)))
    never = np.full(summary["throughput"].shape, np.datetime64("NaT", "ns"))
    started, count = summary["throughput"].copy(data=never), 0
    for block, order in zip(summary["repetition"].values, ORDERS, strict=True):
        for value in order:
            cells = started.loc[{"tuning": value, "repetition": block}]
            minutes = np.arange(count, count + cells.size).reshape(cells.shape).astype("timedelta64[m]")
            started.loc[{"tuning": value, "repetition": block}] = np.datetime64("2026-11-30", "ns") + minutes
            count += cells.size
    started.loc[{"tuning": "fq", "repetition": 2}][0, 0] = np.datetime64("NaT", "ns")
    return summary.assign(started=started)


def test_the_order_of_blocks_is_that_of_their_first_cells(blocks: xr.Dataset) -> None:
    facts = dict(dataset_facts(blocks)["facts"])
    assert facts["order of blocks"] == "1: stock, fq; 2: fq, stock"
    del blocks.attrs["order"]
    assert "order of blocks" not in dict(dataset_facts(blocks)["facts"])


def test_parameters_that_the_head_lacks_are_listed(blocks: xr.Dataset) -> None:
    made = dataset_facts(
        blocks.assign_coords(encryption="usual", checksum="adler32", tool="curl", pair="only")
    )
    others = dict(made["facts"])["other settings"].split(", ")
    assert "checksum adler32" in others and "data encrypted by TLS (usual for curl)" in made["settings"]
    assert not any(text.startswith(("tool ", "pair ")) for text in others)
    assert "tool curl" in made["settings"]


@pytest.mark.parametrize(
    ("kind", "tool", "encryption", "text"),
    [
        ("netns", "curl", "usual", "data encrypted by TLS (usual for curl)"),
        ("netns", "curl", "none", "data not encrypted"),
        ("kubernetes", "xrdcp", "usual", "data not encrypted (usual for xrdcp)"),
        ("endpoints", "curl", "usual", "encryption of data not known, as servers decide it"),
        ("imported", "curl", "usual", ""),
        ("simulation", "curl", "usual", ""),
        ("netns", "other", "usual", ""),
        (
            "netns",
            ["curl", "iperf3"],
            "usual",
            "data encrypted by TLS (usual for curl) and not encrypted (usual for iperf3)",
        ),
        ("netns", "curl", ["none", "tls"], ""),
        ("netns", "curl", None, ""),
    ],
)
def test_encryption_is_claimed_where_tool_and_servers_are_known(
    blocks: xr.Dataset, kind: str, tool: object, encryption: object, text: str
) -> None:
    given = {"tool": tool, "encryption": encryption}
    blocks = blocks.drop_vars(given, errors="ignore").assign_attrs(testbed_kind=kind)
    shown = {
        name: (name, value) if isinstance(value, list) else value for name, value in given.items() if value
    }
    assert encryption_text(blocks.assign_coords(shown)) == text


def test_the_head_tells_the_load_of_hosts(blocks: xr.Dataset) -> None:
    none = blocks.drop_vars([name for name in blocks.data_vars if str(name).startswith("host_")])
    assert "CPUs of hosts" not in dataset_facts(none)["machine"]
    quiet = none.assign({name: 0 * none["throughput"].fillna(0) for name in ("host_cpu", "host_others")})
    quiet["host_cpu"].values.flat[:2] = 0.55, np.nan
    measured = int((none["status"] != STATUS.index("not_measured")).sum())
    assert dataset_facts(quiet)["machine"].endswith(
        "CPUs of hosts busy for at most 55 % of the time, by all programs, with no other traffic seen "
        "(not known in 1 cell)"
    )
    quiet["host_others"].values.flat[1] = 0.123
    assert "with at most 0.12 Gbit/s of other traffic seen" in dataset_facts(quiet)["machine"]
    quiet["host_cpu"].values.flat[1:] = np.nan
    assert dataset_facts(quiet)["machine"].endswith(f"(not known in {measured - 1} cells)")


@pytest.mark.parametrize(
    ("senders", "receivers", "text"),
    [
        (["a1"], ["b1", "b2"], "data from host a1 to b1 and b2"),
        (["a1", "b1"], ["a1", "b1"], ""),  # a mesh has links both ways
        ([], ["b1"], ""),
    ],
)
def test_the_head_tells_what_was_varied_and_which_way_data_went(
    blocks: xr.Dataset, senders: list[str], receivers: list[str], text: str
) -> None:
    ends = {"source": {"server": "XrootD/v5.8.1"}, "destination": {"server": "", "implementation": "XRootD"}}
    known = {"sending_hosts": senders, "receiving_hosts": receivers, "endpoints": ends}
    records = [
        json.dumps({**json.loads(each), **known}) for each in blocks["provenance_record"].values.tolist()
    ]
    blocks["provenance_record"] = blocks["provenance_record"].copy(data=np.array(records, object))
    made = dataset_facts(blocks)
    assert "tuning stock, fq" in made["varied"]
    assert [each for each in made["settings"] if each.startswith("data from")] == ([text] if text else [])
    servers = "server of the source XrootD/v5.8.1, server of the destination XRootD (tells no release)"
    assert servers in made["settings"]


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ([["local", "a1", "b1"]], "hosts a1 and b1 on the measuring machine"),
        ([["a1", "b1"], ["local", "c1"]], "hosts a1 and b1 on one machine, host c1 on the measuring machine"),
    ],
)
def test_the_head_tells_which_hosts_share_a_machine(
    blocks: xr.Dataset, groups: list[list[str]], text: str
) -> None:
    records = [json.loads(each) for each in blocks["provenance_record"].values.tolist()]
    known = [json.dumps({**record, "one_machine": groups}) for record in records]
    blocks["provenance_record"] = blocks["provenance_record"].copy(data=np.array(known, object))
    assert text in dataset_facts(blocks)["settings"]


def test_an_axis_of_many_values_is_counted_in_the_head() -> None:
    axes = {"streams": [*range(1, 11)], "rtt": [1.0, 5.0], "repetition": [1]}
    summary = bare(np.ones((10, 2, 1)), 0.1, axes)
    assert varied_settings(summary) == ["streams 10 values", "RTT 1 ms, 5 ms"]
