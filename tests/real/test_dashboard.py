# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard's queries, answered by a real Prometheus that has read exported runs."""

import contextlib
import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from tpcsweep.exporting import exposition

from tests.support.dashboards import queries
from tests.support.histories import CELLS, folded, times, week, weekly
from tests.support.workflow import background, wait_until

ADDRESS = "127.0.0.1:19091"  # not that of Debian's own service, nor of the one beside clusters
RUNS = 4
VARIABLES = {"sweep": "demo", "testbed": "netns"}
DAY = 86400


def asked(what: str, **arguments: object) -> Any:
    query = urllib.parse.urlencode(arguments)
    with urllib.request.urlopen(f"http://{ADDRESS}/api/v1/{what}?{query}") as answer:
        told = json.load(answer)
    assert told["status"] == "success"
    return told["data"]


@pytest.fixture(scope="module", autouse=True)
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Prometheus that has four runs, a week from each other, the last half as fast and with a cell that failed."""
    folder = tmp_path_factory.mktemp("prometheus")
    runs = weekly(folded(folder), RUNS)
    runs[-1] = times(runs[-1], 0.5)
    runs[-1]["status"][0, 0, 0] = 2
    runs[-1]["throughput"][0, 0, 0] = float("nan")
    for number, run in enumerate(runs):
        text = folder / f"{number}.txt"
        text.write_text("".join(f"{line}\n" for line in exposition(run)))
        blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
        subprocess.run(blocks, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text("global: {}\n")
    storage = [f"--storage.tsdb.path={folder / 'data'}", "--storage.tsdb.retention.time=100y"]
    server = [f"--config.file={folder / 'prometheus.yml'}", f"--web.listen-address={ADDRESS}"]
    command = ["prometheus", *server, *storage]
    with (folder / "log").open("wb") as log, background(command, stdout=log, stderr=log):
        wait_until(_ready, "Prometheus answers")
        yield


def _ready() -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{ADDRESS}/-/ready") as answer:
        return bool(answer.status == 200)
    return False


def ranged(query: str) -> list[dict[str, Any]]:
    end = week(RUNS - 1).timestamp() + 2 * DAY
    return asked("query_range", query=query, start=end - 60 * DAY, end=end, step=DAY)["result"]


def test_every_query_is_one_and_what_is_exported_is_shown() -> None:
    weeks = [title for title, _ in queries(VARIABLES)].index("Goodput")
    for place, (title, query) in enumerate(queries(VARIABLES)):
        found = ranged(query)
        # Nothing runs; that Prometheus takes the query is what can be said of the others.
        assert bool(found) == (place < weeks) or title == "Flags", title


def test_each_run_is_a_point_and_the_last_is_half_as_fast() -> None:
    by_title = dict(queries(VARIABLES))
    [mean] = ranged(by_title["All cells together"])
    *values, last = (float(value) for _, value in mean["values"])
    assert len(values) == RUNS - 1
    assert last < 0.7 * min(values)
    assert len(ranged(by_title["Every cell"])) == CELLS
    [failed] = ranged(by_title["Cells that failed"])
    assert [float(value) for _, value in failed["values"]] == [0, 0, 0, 1]
