# SPDX-License-Identifier: Apache-2.0
"""What a scraper of the client pod gets, as OpenMetrics' own parser reads it, and over HTTP."""

import http.client
import math
import re
from contextlib import closing
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tpcsweep.measure.machine import Condition
from tpcsweep.testbeds.kubernetes.pod.metrics import METRICS, TYPE, CellMetrics, serve_metrics
from tpcsweep.testbeds.kubernetes.pod.places import METRICS_PATH, Sample
from tpcsweep.variables import SAMPLES, SUMMARY

WHOSE = {"sweep": "demo", "testbed": 'a "far" one'}
CELL = {"deployment": "abc123", "streams": "4", "rtt": "20"}
LOOK = {"time": 1.0, "rx_bytes": 2000, "tx_bytes": 50, "cpu": 1.5, "thread": math.nan, "waiting": 0.0}
LOOK |= {f"machine_{name}": 0.0 for name in Condition._fields if name != "tasks"}
LOOK |= {"periods": 0, "throttled": 0}


def sample(**changes: Any) -> list[Any]:
    """As an agent sends it."""
    return list(Sample(**{**LOOK, **changes}))


@pytest.fixture
def running() -> CellMetrics:
    """A cell under way: one origin a side, two transfers that have ended, of which one failed."""
    made = CellMetrics()
    made.begin(WHOSE, CELL)
    made.update({"client": {"event": "prepared"}})
    made.update({"sample": sample(sent=900, retransmits=7, rtt_loaded=21.5, connections=4), "of": "src1"})
    for payload in (900, 800):  # the last counts
        made.update({"sample": sample(payload=payload, periods=100, throttled=30), "of": "dst1"})
    made.update({"sample": Sample(**{**LOOK, "cpu": 0.25}), "of": "client"})
    for failure in (None, "refused"):
        made.update({"client": {"event": "end", "failure": failure}})
    return made


def text(running: CellMetrics) -> str:
    return "".join(f"{line}\n" for line in running.lines())


def scraped(running: CellMetrics) -> dict[str, dict[str, float]]:
    """Values by the names of samples and their origins; all samples have the sweep's labels, one the cell's."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text(running)):
        for each in family.samples:
            assert each.labels.items() >= WHOSE.items()
            assert each.name != "tpcsweep_cell_info" or each.labels == WHOSE | CELL
            found.setdefault(each.name, {})[each.labels.get("origin", "")] = each.value
    return found


def test_a_running_cell_shows_what_has_arrived_and_what_it_took(running: CellMetrics) -> None:
    found = {
        "goodput_bytes_total": {"dst1": 800},
        "wire_bytes_total": {"dst1": 2000},
        "sent_bytes_total": {"src1": 900},
        "retransmits_total": {"src1": 7},
        "rtt_loaded_seconds": {"src1": 0.0215},
        "connections": {"src1": 4},
        "source_cpu_seconds_total": {"src1": 1.5},
        "destination_throttled_periods_total": {"dst1": 30},
        "client_cpu_seconds_total": {"client": 0.25},
        "streams": {"": 4},
        "transfers_total": {"": 1},
        "transfers_failed_total": {"": 1},
        "cell_info": {"": 1},
    }
    assert {f"tpcsweep_{name}": value for name, value in found.items()}.items() <= scraped(running).items()


def test_between_cells_counters_stay_and_no_cell_is_shown(running: CellMetrics) -> None:
    running.update({"client": {"event": "stopped"}})
    found = scraped(running)
    assert "tpcsweep_cell_info" not in found
    assert found["tpcsweep_streams"] == {"": 0}
    assert found["tpcsweep_goodput_bytes_total"] == {"dst1": 800}
    assert [*CellMetrics().lines()] == ["# EOF"]  # nothing before the first cell


def test_figures_have_the_names_of_the_dataset() -> None:
    counted = {"wire": "wire_throughput"}  # of which the dataset has rates
    for metric in METRICS:
        called = re.sub("(_throttled)?_periods", "_throttled", counted.get(metric.called, metric.called))
        assert called in {*SUMMARY, *SAMPLES}, metric


def test_metrics_are_got_over_http_and_nothing_else_is(running: CellMetrics) -> None:
    with serve_metrics(running, 0) as server:

        def answer(method: str, path: str) -> tuple[int, str | None, str]:
            port = server.server_address[1]
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
                connection.request(method, path)
                got = connection.getresponse()
                return got.status, got.getheader("Content-Type"), got.read().decode()

        assert answer("GET", METRICS_PATH) == (200, TYPE, text(running))
        assert answer("GET", "/")[0] == 404
        assert answer("POST", METRICS_PATH)[0] == 501
        server.shutdown()
