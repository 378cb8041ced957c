# SPDX-License-Identifier: Apache-2.0
"""The attribution of a cell's time to limits: on series made up so that one thing binds, and on any series."""

import csv
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.data.variables import (
    LIMIT_REMEDIES,
    LIMITS,
    NONE_FOUND,
    SAMPLES,
    SHARES,
    SOURCES,
    SUMMARY,
    TRANSFERS,
    UNEXPLAINED,
)
from tpcsweep.measuring import limits
from tpcsweep.measuring.limits import (
    attribute,
    binding,
    evidence,
    growth_seconds,
    loss_rate,
    ramp_seconds,
)
from tpcsweep.sweeps.parameters import Parameters

from tests.support.workflow import ROOT

RECORDED = json.loads((ROOT / "tests/support/recorded_limits.json").read_text(encoding="utf-8"))
"""Cells of `benchmarks.limits_blind`, each with the limit that it was built for."""
COUNT = 100
SERIES = {"wire_throughput": 0.5, "goodput": 0.5, "busy": 4.0, "machine_cpu": 0.4}
SERIES |= dict.fromkeys(("rwnd_limited", "sndbuf_limited", "machine_steal", "path_cpu"), 0.0)
SERIES |= dict.fromkeys(("source_thread", "destination_thread", "client_thread"), 0.1)
SERIES |= dict.fromkeys(("source_waiting", "destination_waiting", "timeouts"), 0.0)
# Four connections use their congestion windows of 70 segments of 8948 bytes: 1 Gbit/s by 20 ms.
SERIES |= {"sent": 0.95, "cwnd": 70.0}
# A quota of cores has ten periods a second, in the first sample's interval the end of one, and so on.
SERIES |= {f"{side}_periods": 1.0 for side in ("source", "destination")}
SIGNS = {"rtt_idle": 20.0, "source_quota_used": 0.2, "destination_quota_used": 0.3}
SIGNS |= dict.fromkeys(("source_throttled", "destination_throttled", "client_throttled"), 0.0)
SIGNS |= {"loss_used": 0.0, "queue_drops": 0.0, "client_quota_used": math.nan}
WANTED = Parameters(streams=4, rtt=20.0, bandwidth=1.0, cores=1.0)
BURSTS = {"wire_throughput": np.tile([0.99] * 7 + [0.0] * 3, COUNT // 10)}
USED_UP = {"source_throttled": 0.9, "source_quota_used": 1}
NEARLY_USED = {"destination_quota_used": 0.93, "destination_throttled": 0.1}


def shares(
    series: Mapping[str, Any] = {}, signs: Mapping[str, float] = {}, moving: Any = 1.0, **parameters: Any
) -> dict[str, float]:
    """The shares of a cell that nothing binds but what is given."""
    values = {**SERIES, **series}.items()
    samples = {name: np.broadcast_to(value, COUNT).astype(float) for name, value in values}
    for side in ("source", "destination"):
        out = samples[f"{side}_periods"] * {**SIGNS, **signs}[f"{side}_throttled"]
        samples.setdefault(f"{side}_throttled_periods", out)
    wanted = WANTED.model_copy(update=parameters)
    for side in ("source", "destination"):
        used = {**SIGNS, **signs}[f"{side}_quota_used"] * (wanted.cores or 1)
        samples[f"{side}_origin_cpu"] = np.full((1, COUNT), used)
    return attribute(wanted, samples, np.broadcast_to(moving, COUNT).astype(float), {**SIGNS, **signs})


@pytest.mark.parametrize(
    ("expected", "cell"),
    [
        ("none_found", {}),
        ("not_visible", {"signs": dict.fromkeys(("source_quota_used", "destination_quota_used"), math.nan)}),
        (
            "not_visible",
            {
                "series": {"machine_cpu": 1.0},
                "signs": dict.fromkeys(("source_quota_used", "destination_quota_used"), math.nan),
            },
        ),
        ("bandwidth", {"series": {"wire_throughput": 0.97}}),
        ("bandwidth", {"series": {"wire_throughput": 0.97, "machine_cpu": 1.0}}),
        # Others wait for their next files meanwhile, which changes nothing.
        ("bandwidth", {"series": {"wire_throughput": 0.97, "busy": 1.0}, "moving": 0.25}),
        ("cpu_destination", {"signs": {"destination_throttled": 0.97}}),
        ("cpu_destination", {"series": {"destination_thread": 0.98, "machine_cpu": 0.97}}),
        ("cpu_source", {"signs": {"source_throttled": 0.8}}),
        ("cpu_source", {"signs": {"source_throttled": 0.9, "destination_throttled": 0.3}}),
        # A small quota that is used up before files move keeps them from moving.
        ("cpu_source", {"signs": USED_UP, "moving": 0.1, "series": {"busy": 0.4}}),
        # Exclusive CPUs have no quota, and so no throttled period.
        ("cpu_source", {"signs": {"source_quota_used": 0.995}, "cores": 2.0}),
        ("cpu_destination", {"signs": {"destination_quota_used": 0.97}, "cores": 2.0, "moving": 0.1}),
        ("client", {"signs": {"client_quota_used": 0.99}, "moving": 0.2}),
        ("between_files", {"signs": {"client_quota_used": 0.6}, "moving": 0.2}),
        # A quota that is nearly used, but does not run out, does not bind.
        ("window", {"signs": NEARLY_USED, "tcp_buffer": 2**19}),
        ("client", {"signs": {"client_throttled": 0.9}, "moving": 0.2}),
        ("client", {"series": {"client_thread": 0.95}}),
        ("none_found", {"signs": {"client_throttled": 0.9}}),  # which does nothing while files move
        ("disk", {"series": {"destination_waiting": 3.0}}),
        ("window", {"series": {"rwnd_limited": 3.0}, "tcp_buffer": 2**20}),
        ("window", {"series": {"sndbuf_limited": 3.0, "machine_cpu": 0.99}, "tcp_buffer": 2**20}),
        ("window", {"tcp_buffer": 2**19}),  # whatever the kernel says of the waiting
        # The reader is slow: the window closes, though the buffer would do for the path.
        ("none_found", {"series": {"rwnd_limited": 3.0}, "signs": {"rtt_idle": 0.1}}),
        ("between_files", {"moving": 0.3}),
        ("loss", {"signs": {"loss_used": 0.9}}),
        ("path_queue", {"signs": {"loss_used": 0.9, "queue_drops": 0.9}}),
        # Real networks do not say what they drop, and no law is known of every congestion control.
        ("loss", {"signs": {"loss_used": 0.9, "queue_drops": math.nan}}),
        ("none_found", {"signs": {"loss_used": math.nan}}),
        # Losses do not bind connections that use less than half of their windows, unless they wait for a timeout.
        ("none_found", {"series": {"sent": 0.4}, "signs": {"loss_used": 0.9}}),
        ("loss", {"series": {"sent": 0.4, "timeouts": 0.2}, "signs": {"loss_used": 0.9}}),
        # Bursts of a small quota fill the path for a part of each second.
        ("cpu_source", {"series": BURSTS, "signs": {"source_throttled": 1.0}}),
        ("bandwidth", {"series": BURSTS, "signs": {"source_throttled": 0.2}}),
        ("bandwidth", {"series": {"wire_throughput": 0.97}, "signs": {"source_throttled": 1.0}}),
        # Files under way whose origin has no quota left have nothing to send.
        ("cpu_source", {"series": {"busy": 0.8}, "signs": {"source_throttled": 1.0}}),
        # Memory holds bytes that the disk has not written.
        ("disk", {"series": {"wire_throughput": 0.97, "destination_waiting": 4.0}}),
        ("bandwidth", {"series": {"wire_throughput": 0.97, "goodput": 0.95, "destination_waiting": 4.0}}),
        ("machine", {"series": {"machine_cpu": 0.9, "machine_steal": 0.08}}),
        ("machine", {"series": {"path_cpu": 0.95}}),
        # A machine that is busy need not bind anything.
        ("path_queue", {"series": {"machine_cpu": 1.0}, "signs": {"loss_used": 0.9, "queue_drops": 0.9}}),
    ],
)
def test_what_binds_alone_is_found(expected: str, cell: dict[str, Any]) -> None:
    assert binding(shares(**cell))[0] == expected


@pytest.mark.parametrize("cell", RECORDED, ids=[f"{cell['built']}: {cell['cell']}" for cell in RECORDED])
def test_recorded_cells_have_the_limit_that_they_were_built_for(cell: dict[str, Any]) -> None:
    """Their causes are close, or bursts, slow starts and standing servers make them look like others."""
    wanted, begin = Parameters(**cell["parameters"]), cell["warmup"]
    length = np.shape(cell["samples"]["goodput"])
    # A number stands for equal samples.
    samples = {name: np.array(values, float) + np.zeros(length) for name, values in cell["samples"].items()}
    summary, means = (
        {name: math.nan if value is None else value for name, value in cell[key].items()}
        for key in ("summary", "means")
    )
    signs = evidence(wanted, summary, means, samples, ()) | means | summary
    after = {name: values[..., begin:] for name, values in samples.items()}
    moving = np.broadcast_to(np.array(cell["moving"]), after["goodput"].shape)
    assert binding(attribute(wanted, after, moving, signs))[0] == cell["built"]


def test_drops_count_by_samples_and_losses_by_reduced_windows() -> None:
    """A slow start that overshoots loses hundreds of packets in a moment, and reduces one window."""
    anything: dict[str, Any] = defaultdict(lambda: 1)
    samples = defaultdict(lambda: np.zeros(COUNT), path_drops=np.zeros(COUNT), recoveries=np.zeros(COUNT))
    samples["path_drops"][:10] = [500, *[1] * 9]
    samples["path_queue_drops"] = np.where(samples["path_drops"] > 1, 500.0, 0.0)
    samples["recoveries"][:10] = 1.0
    found = evidence(WANTED, anything, anything | {"sent": 0.5}, samples, (5.0,))
    assert found["queue_drops"] == pytest.approx(0.1)
    assert found["loss_signals"] == pytest.approx(10 / (0.5 * 125e6 / 8948))
    assert found["loss_used"] == pytest.approx(8948 / 9000 / loss_rate(WANTED, found["loss_signals"], 1.0))


def test_a_stream_that_fills_the_path_between_pauses_is_bound_by_it_and_says_how_long_they_are() -> None:
    moving = np.tile([1, 1, 1, 1, 1, 1, 1, 0.4, 0, 1], COUNT // 10)
    rate = {"wire_throughput": 0.996 * moving, "goodput": 0.95 * moving, "busy": moving}
    found = shares(rate, moving=moving, streams=1, rtt=5.0, signs={"rtt_idle": 5.0}, tcp_buffer=2**20)
    assert found["bandwidth"] == pytest.approx(0.84, abs=0.01)
    assert found["between_files"] == pytest.approx(0.16, abs=0.01)
    assert binding(found) == ("bandwidth", "")


def test_without_the_kernels_counters_files_show_the_busy_streams() -> None:
    for unknown in (math.nan, 0.0):
        without = dict.fromkeys(("busy", "rwnd_limited", "sndbuf_limited"), unknown)
        found = shares(without, moving=0.8, tcp_buffer=2**19)
        assert found["window"] == pytest.approx(0.8) and found["between_files"] == pytest.approx(0.2)


def test_two_limits_within_a_tenth_of_each_other_are_both_named() -> None:
    nothing = dict.fromkeys(SHARES, 0.0)
    assert binding(nothing | {"window": 0.5, "bandwidth": 0.42, "loss": 0.08}) == ("window", "bandwidth")
    assert binding(nothing | {"window": 0.52, "bandwidth": 0.41, "loss": 0.07}) == ("window", "")
    half = np.arange(COUNT) < COUNT // 2
    first, second = binding(shares({"wire_throughput": np.where(half, 0.97, 0.5)}, tcp_buffer=2**19))
    assert {first, second} == {"bandwidth", "window"}


ANY = st.one_of(st.just(math.nan), st.floats(0, 10))


@given(
    st.fixed_dictionaries(dict.fromkeys(SERIES, st.lists(ANY, min_size=4, max_size=4))),
    st.fixed_dictionaries(dict.fromkeys(SIGNS, ANY)),
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
    st.integers(1, 8),
)
def test_shares_add_up_to_the_whole(
    series: dict[str, list[float]], signs: dict[str, float], moving: list[float], streams: int
) -> None:
    tiled = {name: np.tile(values, COUNT // 4) for name, values in series.items()}
    found = shares(tiled, signs, np.tile(moving, COUNT // 4), streams=streams)
    assert set(found) == set(SHARES)
    assert all(0 <= share <= 1 for share in found.values())
    assert sum(found.values()) == pytest.approx(1)
    assert found[binding(found)[0]] == max(found.values())


def test_every_limit_and_figure_that_is_computed_is_in_the_tables() -> None:
    assert set(SHARES) == set(LIMITS) == set(LIMIT_REMEDIES) > {*UNEXPLAINED}
    assert all(LIMIT_REMEDIES.values())
    anything: dict[str, Any] = defaultdict(lambda: 1)
    samples = defaultdict(lambda: np.ones(COUNT))
    computed = evidence(WANTED, anything, anything, samples, (5.0,))
    assert {name for name, figure in SUMMARY.items() if figure.source == "limits"} == set(computed)
    assert {name for name, figure in SUMMARY.items() if figure.source == "shares"} == set(SHARES.values())
    assert set(shares()) == set(SHARES) and NONE_FOUND in SHARES
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
    assert limits.means(found, np.array([0, 0.5, 0.5])) == pytest.approx(expected, nan_ok=True)


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


def test_the_law_of_loss_is_that_of_the_publications() -> None:
    reno = Parameters(congestion_control="reno", mtu=1500)
    # MSS / RTT × √(3/2) / √p
    assert loss_rate(reno, 1e-4, 100.0) == pytest.approx(1448 * 8e-9 / 0.1 * 1.2247 * 100, rel=1e-3)
    # RFC 9438, section 5.1, table 1: at an RTT of 0.1 s a loss of 1e-4 leaves CUBIC a window of 187 segments.
    cubic = loss_rate(Parameters(mtu=1500), 1e-4, 100.0)
    assert cubic * 0.1 / (1448 * 8e-9) == pytest.approx(187, rel=0.01)
    assert math.isinf(loss_rate(reno, 0.0, 100.0))
    assert np.isnan(loss_rate(Parameters(congestion_control="bbr"), 1e-4, 100.0))


def test_more_connections_leave_each_a_smaller_share_of_the_path_to_grow_to() -> None:
    one, four, both = (
        Parameters(rtt=50, bandwidth=1, file_size=2**30, tcp_buffer=2**30, streams=streams, tcp_streams=each)
        for streams, each in ((1, 1), (4, 1), (2, 2))
    )
    # A window four times smaller takes two round trips less, but for the first one's part.
    assert ramp_seconds(one, 50.0) - ramp_seconds(four, 50.0) == pytest.approx(0.1, abs=0.01)
    assert ramp_seconds(both, 50.0) == ramp_seconds(four, 50.0)


@pytest.mark.parametrize(
    ("seconds", "growth"),
    [
        # 8 streams behind a shaper of 0.26 Gbit/s: a window of 0.16 MB is enough for 16 MiB in 4 s.
        (4.1, 2.74 * 0.04),
        (0.65, 8.03 * 0.04),
        (0.6, 9.18 * 0.04),  # no time is left beyond handshakes and slow start
        (math.nan, 9.18 * 0.04),  # no transfer ended
    ],
)
def test_a_file_that_takes_long_needs_no_large_window(seconds: float, growth: float) -> None:
    wanted = Parameters(streams=8, mtu=1500, file_size=2**24, tcp_buffer=2**26)
    undeclared = wanted.model_copy(update={"bandwidth": math.nan})
    assert growth_seconds(undeclared, 40.0, seconds) == pytest.approx(growth, rel=0.01)
    declared = wanted.model_copy(update={"bandwidth": 0.26})
    assert growth_seconds(declared, 40.0, seconds) == growth_seconds(declared, 40.0)
    handshakes = ramp_seconds(undeclared, 40.0, seconds) - growth_seconds(undeclared, 40.0, seconds)
    assert handshakes == pytest.approx(6 * 0.04)


def test_the_page_says_how_often_the_limit_was_right_on_cells_that_the_rule_was_not_developed_on() -> None:
    lines = (ROOT / "examples/limits_blind.csv").read_text(encoding="utf-8").splitlines()
    cells = list(csv.DictReader(lines))
    for row in cells:
        found = {limit: float(row[share]) for limit, share in SHARES.items() if row.get(share)}
        if row["found"] != "failed":
            assert sum(found.values()) == pytest.approx(1, abs=1e-4)
            assert found[row["found"]] == max(found.values())
    page = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    for causes in ("close", "far"):
        right = [row["found"] == row["built"] for row in cells if row["causes"] == causes]
        assert f"{causes} causes: {sum(right)} of {len(right)}, {100 * sum(right) / len(right):.0f} %" in page
