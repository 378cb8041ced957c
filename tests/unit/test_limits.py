# SPDX-License-Identifier: Apache-2.0
"""The rules of limits: on cells made up so that one thing binds, and on any numbers whatever."""

import csv
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.measure import limits
from tpcsweep.measure.limits import EQUALS, NONE_FOUND, RULES, find_limit, loss_rate, numbers, ramp_seconds
from tpcsweep.variables import LIMITS, SAMPLES, SOURCES, SUMMARY, TRANSFERS

from tests.support.workflow import ROOT

NUMBERS = sorted({number for rules in RULES.values() for rule in rules for number in rule})
MEANS = {"goodput": 0.5, "wire_throughput": 0.51, "sent": 0.51, "rtt_idle": 20.0, "rtt_loaded": 21.0}
MEANS |= {"busy": 3.9, "source_thread": 0.2, "destination_thread": 0.3, "machine_cpu": 0.4}
MEANS |= dict.fromkeys(("rwnd_limited", "sndbuf_limited", "resent", "client_thread", "machine_steal"), 0.0)
MEANS |= dict.fromkeys(("source_waiting", "destination_waiting"), 0.0)
SUMMED = {"duration": 10.0, "source_cpu_busiest": 0.2, "destination_cpu_busiest": 0.3, "path_cpu": 0.1}
SUMMED |= dict.fromkeys(("source_throttled", "destination_throttled"), 0.0)
TOTALS = {"client_throttled": 0, "client_periods": 0, "path_drops": 0, "path_queue_drops": 0}
WANTED = Parameters(streams=4, rtt=20.0, bandwidth=1.0, cores=1.0)


def found(
    means: Mapping[str, float] = {},
    summed: Mapping[str, float] = {},
    totals: Mapping[str, int | None] = {},
    transfers: tuple[float, ...] = (5.0,),
    **parameters: Any,
) -> str:
    """The limit of a cell that nothing binds but what is given."""
    known = {**SUMMED, **summed}
    wanted = WANTED.model_copy(update=parameters)
    signs = numbers(wanted, known, {**MEANS, **means}, {**TOTALS, **totals}, transfers)
    summary = {n: v if v is not None and math.isfinite(v) else None for n, v in {**known, **signs}.items()}
    return find_limit(summary)[0]


@pytest.mark.parametrize(
    ("expected", "cell"),
    [
        ("none_found", {}),
        ("bandwidth", {"means": {"wire_throughput": 0.97}}),
        ("bandwidth", {"means": {"wire_throughput": 0.97, "machine_cpu": 1.0}}),
        ("cpu_destination", {"summed": {"destination_cpu_busiest": 0.97}}),
        ("cpu_destination", {"summed": {"destination_cpu_busiest": 0.45}, "origins": 2, "cores": 0.98}),
        ("cpu_destination", {"means": {"destination_thread": 0.98, "machine_cpu": 0.97}}),
        ("cpu_source", {"summed": {"source_throttled": 0.8}}),
        # Among equals the furthest beyond its threshold binds.
        ("cpu_source", {"summed": {"source_cpu_busiest": 0.99, "destination_cpu_busiest": 0.95}}),
        ("cpu_destination", {"summed": {"source_cpu_busiest": 0.95, "destination_cpu_busiest": 0.99}}),
        ("client", {"totals": {"client_throttled": 80, "client_periods": 90}}),
        ("disk", {"means": {"destination_waiting": 3.0}}),
        ("window", {"means": {"rwnd_limited": 3.0}, "tcp_buffer": 2**20}),
        ("window", {"means": {"sndbuf_limited": 3.0, "machine_cpu": 0.99}, "tcp_buffer": 2**20}),
        ("window", {"tcp_buffer": 2**19}),  # whatever the kernel says of the waiting
        # The reader is slow: the window closes, though the buffer would do for the path.
        ("none_found", {"means": {"rwnd_limited": 3.0, "rtt_idle": 0.1}}),
        ("slow_start", {"transfers": (0.1, 0.2, 0.25), "file_size": 2**20}),
        ("none_found", {"transfers": (0.1, 0.2, 0.25), "file_size": 2**20, "means": {"rtt_idle": 0.1}}),
        ("loss", {"means": {"resent": 0.005}, "totals": {"path_drops": 100}, "mtu": 9000}),
        ("path_queue", {"means": {"resent": 0.005}, "totals": {"path_drops": 9, "path_queue_drops": 8}}),
        # A machine that is busy loses packets too, but the reader is what is waited for.
        ("machine", {"means": {"resent": 0.005, "rwnd_limited": 3, "rtt_idle": 0.1, "machine_cpu": 1}}),
        # Real networks do not say what they drop.
        ("loss", {"means": {"resent": 0.005}, "totals": {"path_drops": None, "path_queue_drops": None}}),
        ("none_found", {"means": {"resent": 0.005}, "congestion_control": "bbr"}),
        ("machine", {"means": {"machine_cpu": 0.9, "machine_steal": 0.08}}),
        ("machine", {"summed": {"path_cpu": 0.95}}),
    ],
)
def test_what_binds_alone_is_found(expected: str, cell: dict[str, Any]) -> None:
    assert found(**cell) == expected


def test_every_limit_and_figure_that_is_computed_is_in_the_tables() -> None:
    assert {*RULES, NONE_FOUND, "server", "not_visible"} == set(LIMITS)
    assert set(EQUALS) < set(RULES)
    assert set(NUMBERS) <= set(SUMMARY)
    computed = numbers(WANTED, SUMMED, MEANS, TOTALS, (5.0,))
    assert {name for name, figure in SUMMARY.items() if figure.source == "limits"} == set(computed)
    sources = {figure.source for table in (SUMMARY, SAMPLES, TRANSFERS) for figure in table.values()}
    assert sources == set(SOURCES)


def test_means_are_of_what_is_known_after_the_warm_up() -> None:
    found = {
        "wire_throughput": np.array([9.0, 0.2, 0.4]),
        "sent": np.array([1.0, 0.3, 0.2]),
        "rtt_loaded": np.array([math.nan, 2.0, math.nan]),
        "source_origin_cpu": np.full((2, 3), 0.25),
        "cwnd": np.full(3, math.nan),
    }
    expected = {"wire_throughput": 0.3, "rtt_loaded": 2.0, "source_origin_cpu": 0.25, "cwnd": math.nan}
    expected["sent"] = 0.5  # in the warm-up too
    assert limits.means(found, 1) == pytest.approx(expected, nan_ok=True)


@given(st.fixed_dictionaries(dict.fromkeys(NUMBERS, st.none() | st.floats(0, 10))))
def test_the_evidence_explains_the_limit(summary: dict[str, float | None]) -> None:
    limit, evidence = find_limit(summary)
    assert json.loads(json.dumps(evidence)) == evidence
    assert set(evidence) == set(RULES)
    for name, one in evidence.items():
        met = [all(sign["reached"] for sign in rule) for rule in one["signs"]]
        assert one["reached"] == any(met)
        for rule in one["signs"]:
            for sign in rule:
                value = summary[sign["number"]]
                assert sign["value"] == value
                assert sign["reached"] == (value is not None and value >= sign["threshold"])
        if one["reached"]:
            assert rank(limit) <= rank(name)
    assert limit == NONE_FOUND or evidence[limit]["reached"]


def rank(limit: str) -> int:
    order = [name for name in [*RULES, NONE_FOUND] if name not in EQUALS[1:]]
    return order.index(EQUALS[0] if limit in EQUALS else limit)


@given(
    st.builds(
        Parameters,
        rtt=st.floats(0.5, 300),
        file_size=st.integers(1, 2**34),
        streams=st.integers(1, 64),
        tcp_buffer=st.integers(4096, 2**26),
        bandwidth=st.floats(0.01, 100),
    )
)
def test_a_ramp_takes_no_longer_for_smaller_files_and_longer_on_longer_paths(wanted: Parameters) -> None:
    rtt, size = wanted.rtt, wanted.file_size
    took = ramp_seconds(wanted, rtt)
    assert took >= limits.ROUND_TRIPS["pull"] * rtt / 1000
    assert ramp_seconds(wanted.model_copy(update={"file_size": max(1, size // 2)}), rtt) <= took
    assert ramp_seconds(wanted, 2 * rtt) >= took


@pytest.mark.parametrize(
    ("other", "round_trips"),
    # One origin has no redirector, and what pushing to one takes was not measured.
    [({}, 13), ({"origins": 1}, 0), ({"copy_mode": "push"}, 0)],
)
def test_a_pull_between_redirectors_takes_their_round_trips(other: dict[str, Any], round_trips: int) -> None:
    direct, through = (
        Parameters(**{"rtt": 40, "origins": 2, "endpoint": endpoint, **other})
        for endpoint in ("direct", "redirector")
    )
    assert ramp_seconds(through, 40.0) == pytest.approx(ramp_seconds(direct, 40.0) + round_trips * 0.04)


@given(st.floats(1e-7, 0.1), st.floats(0.1, 300), st.sampled_from(["cubic", "reno"]))
def test_more_loss_or_a_longer_path_leave_less(loss: float, rtt: float, control: str) -> None:
    wanted = Parameters(congestion_control=control, mtu=1500)
    less = max(loss_rate(wanted, 2 * loss, rtt), loss_rate(wanted, loss, 2 * rtt))
    assert less < loss_rate(wanted, loss, rtt)


def test_the_law_of_loss_is_that_of_the_publications() -> None:
    reno = Parameters(congestion_control="reno", mtu=1500)
    # MSS / RTT × √(3/2) / √p
    assert loss_rate(reno, 1e-4, 100.0) == pytest.approx(1448 * 8e-9 / 0.1 * 1.2247 * 100, rel=1e-3)
    # RFC 9438, section 5.1, table 1: at an RTT of 0.1 s a loss of 1e-4 leaves CUBIC a window of 187 segments.
    cubic = loss_rate(Parameters(mtu=1500), 1e-4, 100.0)
    assert cubic * 0.1 / (1448 * 8e-9) == pytest.approx(187, rel=0.01)
    assert math.isinf(loss_rate(reno, 0.0, 100.0))
    assert np.isnan(loss_rate(Parameters(congestion_control="bbr"), 1e-4, 100.0))


def test_the_matrix_of_cells_that_no_threshold_was_set_on_is_of_the_rules_as_they_are() -> None:
    lines = (ROOT / "examples/limits_blind.csv").read_text(encoding="utf-8").splitlines()
    cells = {(row["deployment"], row["cell"]): row for row in csv.DictReader(lines)}
    for row in cells.values():
        summary = {number: float(row[number]) if row[number] else None for number in NUMBERS}
        assert find_limit(summary)[0] == row["found"], row
    right = sum(row["found"] == row["built"] for row in cells.values())
    page = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    assert f"**{right} of {len(cells)}: {100 * right / len(cells):.0f} %" in page
