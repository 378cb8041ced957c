# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard names what is written: metrics and labels of exported datasets and of running cells."""

import json
import re
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tpcsweep import dataset
from tpcsweep.exporting import exposition
from tpcsweep.testbeds.kubernetes.pod.metrics import Running
from tpcsweep.testbeds.kubernetes.pod.places import Sample
from tpcsweep.variables import SUMMARY

from tests.support.dashboards import asked, dashboard, queries
from tests.support.synthetic import FOUR_AXES, write_sweep

VARIABLES = {"sweep": "demo", "testbed": "netns"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    axes = {name: values[:2] for name, values in FOUR_AXES.items()}
    folded = dataset.fold(write_sweep(tmp_path_factory.mktemp("cells"), axes), axes)
    # What is not known of a made-up cell is written of a real one.
    summary = folded.summary.assign({name: folded.summary[name].fillna(1.0) for name in SUMMARY})
    running = Running()
    running.begin(VARIABLES, {"deployment": "a", "streams": "4"})
    for of in ("src1", "dst1", "client"):
        running.hear({"of": of, "sample": [1.0] * len(Sample._fields)})
    found: dict[str, set[str]] = {}
    for lines in (exposition(summary), running.lines()):
        for family in text_string_to_metric_families("".join(f"{line}\n" for line in lines)):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_query_names_what_is_written(written: dict[str, set[str]]) -> None:
    every = list(queries(VARIABLES))
    assert len(every) > 10
    for title, query in every:
        metrics, labels = asked(query)
        assert metrics and metrics <= set(written), title
        assert {"sweep", "testbed"} <= labels, title
        for metric in metrics:
            assert labels <= written[metric], title


def test_legends_and_variables_name_what_is_written(written: dict[str, set[str]]) -> None:
    content = dashboard()
    for panel in content["panels"]:
        for target in panel.get("targets", ()):
            (metric,) = asked(target["expr"])[0]
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= written[metric], panel["title"]
    for variable in content["templating"]["list"][1:]:
        said = re.fullmatch(r"label_values\(\{__name__=~\"(.+?)\".*\}, (\w+)\)", variable["query"]["query"])
        assert all(said[2] in written[metric] for metric in said[1].split("|"))
    columns = next(panel for panel in content["panels"] if panel["type"] == "table")["transformations"][0]
    hidden = set(columns["options"]["excludeByName"]) - {"Time", "Value", "__name__", "job", "instance"}
    assert hidden | set(columns["options"]["indexByName"]) <= written["tpcsweep_sweep_info"]


def test_grafanas_own_library_reads_all_of_it() -> None:
    register_default_plugins()
    content = dashboard()
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(content)))
    assert common(content, again) == content


def common(ours: Any, theirs: Any) -> Any:
    """The second of two documents, without the keys that the first lacks."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {key: common(ours[key], theirs[key]) for key in ours.keys() & theirs.keys()}
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [common(*pair) for pair in zip(ours, theirs, strict=True)]
    return theirs


def test_panels_have_names_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        squares = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not squares & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= squares
