# SPDX-License-Identifier: Apache-2.0
"""Hosts and their settings on a page: states, restorations, load and rate limits."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from bs4 import BeautifulSoup
from tpcsweep.analysis import comparison, host_effects
from tpcsweep.analysis.claims.claim_cells import claim_cells
from tpcsweep.data import folding, made_with
from tpcsweep.data.labels import TRANSFERS_GROUP
from tpcsweep.data.opening import load
from tpcsweep.data.repetitions import settings_of
from tpcsweep.data.variables import NONE_FOUND, SHARES
from tpcsweep.pages import making
from tpcsweep.pages.content import page_content
from tpcsweep.pages.full_rates import lines_of_settings, rates_of_hosts
from tpcsweep.pages.host_changes import host_changes
from tpcsweep.pages.setting_states import host_tables

from tests.support import synthetic

Dataset = Callable[..., Path]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """A function that writes a dataset over tuning and streams, with the hosts of each value of tuning."""

    def write(name: str, recorded: dict[str, Any], repetitions: Sequence[int] = (1,)) -> Path:
        axes = {"tuning": list(recorded), "rtt": [5.0], "streams": [1, 4], "repetition": repetitions}
        folder = tmp_path / name
        files = synthetic.write_sweep(folder, axes)
        for file, spec in files.items():
            content = synthetic.cell(spec)
            tuning = spec["parameters"]["tuning"]
            content["provenance"] |= {"hosts": recorded[tuning], "deployment": tuning}
            synthetic.write_cell(file, spec, provenance=content["provenance"])
        folding.write(folding.fold(files, axes), folder / "dataset.nc")
        return folder / "dataset.nc"

    return write


def tuned(qdisc: str, **more: Any) -> dict[str, Any]:
    return {"dtn1": {"kernel": "5.14.0", "interfaces": {"ens1": {"qdisc": qdisc, "mtu": 9000}}}, **more}


def test_settings_of_hosts_that_differ_are_named(dataset: Dataset) -> None:
    old = dataset("old", {"stock": tuned("mq"), "fq": tuned("fq", gone={"not_recorded": "exit code 255"})})
    new = dataset("new", {"stock": tuned("mq", dtn2={"kernel": "6.12"}), "fq": tuned("fq maxrate 2Gbit")})
    name = "hosts.dtn1.interfaces.ens1.qdisc"
    summaries = [
        comparison.load_side(comparison.ComparedSide("base", str(file), file, {})) for file in (old, new)
    ]
    assert made_with.differing_host_keys(summaries[0], "tuning") == {name: {"stock": "mq", "fq": "fq"}}
    compared = comparison.compare(*summaries)
    assert compared.to_dict()["made_with"] == [
        {"name": name, "before": "fq, mq", "after": "fq maxrate 2Gbit, mq"}
    ], "a host that one side did not record has no differing settings"
    sides = [summaries[0].sel(tuning=value) for value in ("stock", "fq")]
    assert [each.name for each in comparison.compare(*sides).made_with] == [name]


def test_a_value_without_a_measured_cell_differs_in_nothing(dataset: Dataset) -> None:
    """In a run under way all of its states would differ."""
    summary = load(dataset("one", {"stock": tuned("mq"), "fq": tuned("fq"), "cap": tuned("cake")}))
    is_cap = (summary["tuning"] == "cap").broadcast_like(summary["provenance"])
    summary["provenance"] = summary["provenance"].where(~is_cap, -1)
    assert host_changes(summary) == {}, "no settings were applied"
    keys = made_with.differing_host_keys(summary, "tuning")
    assert keys == {"hosts.dtn1.interfaces.ens1.qdisc": {"stock": "mq", "fq": "fq"}}


def test_cells_that_fill_a_rate_of_a_host_are_full_for_claims(dataset: Dataset) -> None:
    """As those that fill the path: more streams cannot scale there."""
    summary = load(
        dataset("one", {"stock": tuned("mq"), "cap": tuned("tbf rate 260Mbit burst 16Kb lat 50ms")})
    )
    is_cap = (summary["tuning"] == "cap").broadcast_like(summary["throughput"])
    summary["throughput"] = xr.where(is_cap, 0.25, 0.1).transpose(*summary["throughput"].dims)
    cells = claim_cells(summary)
    for rows in (cells.every, cells.points(cells.trusted)):
        assert rows["full"].tolist() == (rows["tuning"] == "cap").tolist()


def test_the_page_lists_hosts(dataset: Dataset, tmp_path: Path) -> None:
    file = dataset(
        "one", {"stock": tuned("mq"), "fq": tuned("fq<b>", gone={"not_recorded": "exit code 255"})}
    )
    making.make_page(file, tmp_path / "page.html")
    page = " ".join((tmp_path / "page.html").read_text().split())
    assert "<summary>Host dtn1: 3 settings</summary>" in page
    assert "Host dtn1: between deployments differ interfaces.ens1.qdisc (fq&lt;b&gt; | mq)." in page
    assert "<summary>Host gone: 1 setting</summary>" in page
    assert "exit code 255" in page


def test_the_page_tells_this_machine_from_its_namespaces_and_whether_it_was_the_same(
    dataset: Dataset,
) -> None:
    """The servers of a testbed of namespaces do not have the MTU and the congestion control of the machine."""
    local = {"local": {"kernel": "6.12", "interfaces": {"eth0": {"mtu": 1400}}}}
    summary = load(dataset("one", {"stock": tuned("mq", **local), "fq": tuned("fq", **local)}))
    summary.attrs["testbed_kind"] = "netns"
    dtn, here = host_tables(summary)
    assert (dtn["title"], dtn["same"]) == ("Host dtn1", "")
    assert here["title"] == "This machine, outside the namespaces"
    assert here["same"] == ", the same in all deployments"
    summary.attrs["testbed_kind"] = "endpoints"
    assert host_tables(summary)[1]["title"] == "The measuring machine"


SAME = {"restored": "as before"}


@pytest.mark.parametrize(
    ("records", "line"),
    [
        (
            [{"verified": "fq"} | SAME, {"verified": "fq"} | SAME],
            "States verified after every cell: unchanged since they were applied. restore runs after every deployment: "
            "tune old. Hosts afterwards: restored; verify printed the same as before the change.",
        ),
        (
            [{"verified": "fq"} | SAME, {"verified": "fq", "changed": "mq"}],
            "States verified after every cell: changed after 2 cells. restore runs after every deployment: tune old. "
            "Hosts afterwards: after the deployments of 2 cells: not recorded; after a job that was killed, the next "
            "run or tpcsweep reap restores and reports it; after the deployments of 2 cells: restored;",
        ),
        (
            [{}, {}],
            "States not verified: the testbed has no command for it. restore runs after every deployment: tune old. "
            "Hosts afterwards: not recorded",
        ),
        (
            [{"restored": "failed"}, {"verified": "fq"} | SAME],
            "States verified in some deployments: unchanged since they were applied. restore runs after every "
            "deployment: tune old. Hosts afterwards: after the deployments of 2 cells: not restored, because restore "
            "failed;",
        ),
        (
            [{"restored": "another state", "before": "mq 7\nmtu 9000", "after": "fq 8\nmtu 9000"}] * 2,
            "Hosts afterwards: left in another state than before, though restore did not fail. Left in another state "
            "by the deployment of tuning stock, repetition 1; tuning stock, repetition 2; tuning fq, repetition 1; "
            "tuning fq, repetition 2. Lines of verify that differ: before it mq 7 after it fq 8 all that",
        ),
        (
            [{"restored": "another state", "before": "mq", "after": "fq"}, {"verified": "fq"} | SAME],
            "; after the deployments of 2 cells: restored; verify printed the same as before the change; after the "
            "last deployment: restored; verify printed the same as before the change. Left in another state by the "
            "deployment of tuning stock, repetition 1; tuning fq, repetition 1. Lines",
        ),
    ],
)
def test_the_page_tells_whether_states_were_verified_and_restored(
    tmp_path: Path, records: Sequence[Mapping[str, str]], line: str
) -> None:
    axes: dict[str, Sequence[Any]] = {"tuning": ["stock", "fq"], "streams": [1], "repetition": [1, 2]}
    files = synthetic.write_sweep(tmp_path, axes)
    for file, spec in files.items():
        setting = {"value": spec["parameters"]["tuning"], "command": "tune", "restore": "tune old"}
        settings = {"tuning": setting | records[spec["repetition"] - 1]}
        started = {"started": f"2026-11-30T12:0{spec['repetition']}:00Z"}
        provenance = synthetic.cell(spec)["provenance"] | {"settings": settings} | started
        synthetic.write_cell(file, spec, provenance=provenance)
    folding.write(folding.fold(files, axes), tmp_path / "dataset.nc")
    making.make_page(tmp_path / "dataset.nc", tmp_path / "page.html")
    page = BeautifulSoup((tmp_path / "page.html").read_text(), "html.parser")
    assert line in " ".join(page.get_text(" ").split()).replace(" .", ".").replace(" ;", ";")


def test_the_page_explains_settings_by_their_commands_and_outputs(tmp_path: Path) -> None:
    commands = {"stock": "tune stock", "fq": f"tune fq {'<b>' * 200}"}
    outputs = {"stock": ["qdisc mq\nmtu 9000"], "fq": ["qdisc fq<i>\nmtu 9000", "qdisc fq\nmtu 1500"]}
    axes: dict[str, Sequence[Any]] = {"tuning": ["stock", "fq"], "streams": [1], "repetition": [1, 2]}
    files = synthetic.write_sweep(tmp_path, axes)
    for file, spec in files.items():
        value, at = spec["parameters"]["tuning"], spec["repetition"] - 1
        texts = outputs[value]
        content = synthetic.cell(spec)["provenance"] | {"hosts": tuned("mq" if value == "stock" else "fq")}
        settings = {"value": value, "command": commands[value], "verified": texts[at % len(texts)]}
        synthetic.write_cell(file, spec, provenance=content | {"settings": {"tuning": settings}})
    folding.write(folding.fold(files, axes), tmp_path / "dataset.nc")
    making.make_page(tmp_path / "dataset.nc", tmp_path / "page.html")
    page = BeautifulSoup((tmp_path / "page.html").read_text(), "html.parser")
    stock, fq = page.select(".states > div")
    assert stock.h4 is not None and stock.h4.get_text() == "tuning stock"
    assert [text.get_text() for text in stock.find_all("pre")] == [
        "tune stock",
        "qdisc mq",
        outputs["stock"][0],
    ]
    # A long command is folded, and both outputs of the deployments are there.
    assert fq.summary is not None and "a command of 608 letters" in fq.summary.get_text()
    assert [text.get_text() for text in fq.find_all("pre")] == [commands["fq"], "qdisc fq<i>", *outputs["fq"]]
    table = page.select_one("#h-settings ~ details table")
    assert table is not None
    rows = [[cell.get_text() for cell in row.find_all(["th", "td"])] for row in table.find_all("tr")]
    assert rows == [["state", "stock", "fq"], ["dtn1's ens1 qdisc", "mq", "fq"]]


def test_values_with_one_state_of_a_host_are_named_together(dataset: Dataset) -> None:
    file = dataset("three", {"stock": tuned("mq"), "fq": tuned("fq"), "again": tuned("mq")})
    [line] = host_effects.host_notes(load(file), "tuning", "stock")
    assert line == "dtn1.interfaces.ens1.qdisc: mq at stock, again; fq at fq"


@pytest.mark.parametrize("seed", range(3))
def test_foreign_load_is_a_covariate_of_effects(dataset: Dataset, seed: int) -> None:
    """A setting gains 10 %, each Gbit/s of others takes 5 %, and the setting met more of it."""
    file = dataset("loaded", {"stock": tuned("mq"), "fq": tuned("fq")}, repetitions=[*range(1, 9)])
    summary = load(file)
    random = np.random.default_rng(seed)
    throughput = summary["throughput"]
    is_fq = summary["tuning"] == "fq"
    foreign = throughput.copy(data=random.uniform(0, 4, throughput.shape)) + 2 * is_fq
    noise = throughput.copy(data=random.normal(0, 0.01, throughput.shape))
    logs = np.log(1.1) * is_fq - 0.05 * foreign + noise
    order = throughput.dims
    changed = summary.assign(host_others=foreign.transpose(*order), throughput=np.exp(logs).transpose(*order))
    *_, line = host_effects.host_notes(changed, "tuning", "stock")
    assert line.startswith("fq: ratio 1.")
    assert (
        "interfaces.ens1.qdisc: mq at stock; fq at fq"
        in host_effects.host_notes(changed, "tuning", "stock")[0]
    )
    low, high = map(float, re.findall(r"\(([\d.]+) to ([\d.]+)\)", line)[0])
    assert low <= 1.1 <= high
    assert high < 1.1 * low
    assert host_effects.host_notes(changed.isel(repetition=slice(3)), "tuning", "stock")[1:] == []


@pytest.mark.parametrize(
    ("qdisc", "gbit", "full"),
    [
        (
            "tbf rate 260Mbit burst 16Kb lat 50ms",
            0.25,
            "(tbf, 0.26 Gbit/s) is full in 2 settings: throughput is 96.2 %",
        ),
        ("tbf rate 260Mbit burst 16Kb lat 50ms", 0.2, ""),
        (
            "mq; fq limit 10000p flow_limit 100p maxrate 2Gbit x4",
            1.98,
            "(fq, 2 Gbit/s for each flow) is full",
        ),
        (
            "cake bandwidth 1Gbit besteffort",
            0.97,
            "(cake, 1 Gbit/s) is full in 2 settings: throughput is 97 %",
        ),
        ("mq; fq_codel limit 10240p", 1.0, ""),
    ],
)
def test_a_rate_limit_of_a_host_that_is_full_is_a_finding(
    dataset: Dataset, qdisc: str, gbit: float, full: str
) -> None:
    """The measuring machine's own limits do not count: third-party copies do not pass it."""
    local = {"local": tuned("tbf rate 50Mbit burst 16Kb lat 50ms")["dtn1"]}
    summary = load(dataset("one", {"stock": tuned("mq", **local), "cap": tuned(qdisc, **local)}))
    rates = xr.DataArray([0.05, gbit], {"tuning": ["stock", "cap"]}, ("tuning",))
    summary["throughput"] = rates.broadcast_like(summary["throughput"]).transpose(*summary["throughput"].dims)
    texts = [one.text for one in synthetic.findings_of(summary) if "rate limit on" in one.text]
    assert len(texts) == bool(full)
    bare = summary.drop_vars("tcp_streams", errors="ignore")  # as in datasets of other tools
    assert [each.words for each in rates_of_hosts(bare)] == [each.words for each in rates_of_hosts(summary)]
    lines = lines_of_settings(rates_of_hosts(summary), settings_of(summary)["limit"].values.ravel())
    assert sum("rate limit on dtn1's ens1" in line for line in lines) == bool(full) * (
        1 if "each flow" in full else 2
    )
    assert all(text.startswith("A rate limit on dtn1's ens1 (") and full in text for text in texts), texts


def test_rate_limits_are_those_of_sending_hosts(dataset: Dataset) -> None:
    """A queueing discipline shapes what a host sends; where nobody knows who sends, each host may."""
    shaped = tuned("tbf rate 260Mbit burst 16Kb lat 50ms")
    summary = load(dataset("one", {"cap": {**shaped, "dtn2": shaped["dtn1"]}}))
    assert {limit.words.split("'")[0] for limit in rates_of_hosts(summary)} == {
        "a rate limit on dtn1",
        "a rate limit on dtn2",
    }
    records = [json.loads(text) for text in summary["provenance_record"].values.tolist()]
    known = [json.dumps({**record, "sending_hosts": ["dtn2"]}) for record in records]
    summary["provenance_record"] = summary["provenance_record"].copy(data=np.array(known, object))
    assert [limit.words.split("'")[0] for limit in rates_of_hosts(summary)] == ["a rate limit on dtn2"]


def test_a_known_rate_that_is_not_full_is_named_where_the_cause_is_unknown(dataset: Dataset) -> None:
    summary = load(dataset("one", {"cap": tuned("tbf rate 260Mbit burst 16Kb lat 50ms")}))
    summary["throughput"] = summary["throughput"] * 0 + 0.19
    summary["limit"] = xr.full_like(summary["throughput"], NONE_FOUND, object)
    words = "73.1 % of a rate limit on dtn1's ens1 (tbf, 0.26 Gbit/s), which is not full"
    assert any(f"throughput is {words}" in found.text for found in synthetic.findings_of(summary))
    limits = settings_of(summary)["limit"].values.ravel()
    lines = lines_of_settings(rates_of_hosts(summary), limits)
    assert lines == [f"Throughput is {words}."] * limits.size
    assert lines_of_settings(rates_of_hosts(summary), np.full(limits.size, "window")) == [""] * limits.size


def test_a_full_rate_stands_in_place_of_an_unknown_cause(dataset: Dataset) -> None:
    file = dataset("one", {"stock": tuned("mq"), "cap": tuned("tbf rate 260Mbit burst 16Kb lat 50ms")})
    summary = load(file)
    rates = xr.DataArray([0.05, 0.25], {"tuning": ["stock", "cap"]}, ("tuning",))
    summary["throughput"] = rates.broadcast_like(summary["throughput"]).transpose(*summary["throughput"].dims)
    summary["limit"] = xr.full_like(summary["throughput"], NONE_FOUND, object)
    for limit in SHARES:
        summary[SHARES[limit]] = summary["throughput"] * 0 + (limit == NONE_FOUND)
    page = page_content(summary, load(file, "samples"), load(file, TRANSFERS_GROUP))
    names = [limit["name"] for limit in page["data"]["limits"]]
    of_settings = [names[place] for place in page["data"]["points"]["limit"]]
    mean = settings_of(summary)["throughput"]
    capped = (mean["tuning"].broadcast_like(mean).transpose(*mean.dims) == "cap").values.ravel().tolist()
    assert of_settings == ["a host's rate limit" if is_capped else "no known cause" for is_capped in capped]
    of_cells = [names[place] for place in page["data"]["cells"]["limit"]]
    assert of_cells == [name for name in of_settings for _ in summary["repetition"].values]
    shares = [
        [(names[place], percent) for place, percent in each] for each in page["data"]["points"]["shares"]
    ]
    assert shares == [[(name, 100)] for name in of_settings]
    texts = [found["text"] for found in page["findings"]]
    half = len(capped) // 2
    for start in ("A host's rate limit limits", "No known cause limits"):
        assert any(text.startswith(f"{start} {half} of {len(capped)} settings") for text in texts), texts
