# SPDX-License-Identifier: Apache-2.0
"""Verdicts on datasets in which a claim is true, in which it is false, and in which noise hides which."""

import json
import math
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import yaml
from tpcsweep.analysis.claims.before_2023 import RECOVERIES, exact_share
from tpcsweep.analysis.claims.claim import Outcome, Verdict, write_verdicts
from tpcsweep.analysis.claims.claim_cells import UNTRUSTED, claim_cells
from tpcsweep.analysis.claims.judging import CLAIMS, judge
from tpcsweep.data import effects
from tpcsweep.data.effects import largest_level, mean_ratio, peak
from tpcsweep.data.labels import MASKS
from tpcsweep.data.publications import claim_names
from tpcsweep.measuring.tcp import recovery_time

from docs import claims as documented
from tests.support.claim_worlds import NULLS, STREAMS, Formula, verdict, world

Case = namedtuple("Case", ["axes", "true", "false", "unclear", "noise", "figures"], defaults=[{}])
"""The levels of three worlds over the same axes, the noise of the unclear one, and other figures of all."""
WORLDS = """
chep2023.saturate: [{bandwidth: [400.0], rtt: [3.0], streams: [40, 520]}, 395, 300, 380, 0.05, {duration: 3600.0}]
chep2023.little_fluctuation: [{bandwidth: [400.0], rtt: [3.0], streams: [520]}, 395, 300, 380, 0.05,
  {duration: 3600.0, throughput_max: 410.0}]
chep2023.streams_required: [{bandwidth: [400.0], rtt: [3.0], streams: [40, 130, 260, 520]},
  300 if streams < 520 else 395, 395, 375 if streams < 520 else 395, 0.03]
# Throughput rises to four streams and falls past them, less so the longer the path; or rises only, or hardly.
chep2023.streams_peak: [{streams: [1, 4, 16, 64], cores: [1.0, 4.0], rtt: [1.0, 2.0]},
  &peak cores * streams / (1 + (streams / (4 + rtt)) ** 2),
  &rising "cores * streams ** 0.5", &hardly cores * (1.3 if streams == 4 else 1), 0.15]
chep2023.origins_help: &origins [{origins: [1, 2, 4], rtt: [5.0, 20.0, 50.0], streams: [1, 4]},
  0.1 * streams * origins ** 0.5, 0.1 * streams, 0.1 * streams * origins ** 0.08, 0.1]
chep2023.rtt_fivefold: [{rtt: [0.1, 10.0], streams: [1, 2, 4]},
  10 if rtt < 1 else 2, 10 if rtt < 1 else 9, 10 if rtt < 1 else 3.3, 0.1]
chep2023.rtt_not_linear: [{rtt: [10.0, 30.0, 60.0], streams: [1, 2, 4]},
  rtt ** -0.3, 1 / rtt, rtt ** -0.85, 0.1, {destination_cpu: 0.5 * cores}]
chep2023.rtt120_cap: [{origins: [2], cores: [256.0], rtt: [120.0], streams: [1, 10, 100, 500]},
  1.0, 0.1 * streams, 1.4, 0.1]
chep2023.streams_stop_helping: [{rtt: [10.0, 60.0, 90.0, 120.0], streams: [1, 16, 32, 64]},
  "min(streams, 16) if rtt > 20 else streams", streams, 1 if streams < 64 else 1.05, 0.05,
  {destination_cpu: 0.5 * cores}]
chep2023.terabit: [{bandwidth: [1000.0], rtt: [0.0, 10.0], streams: [1, 100]},
  990 if rtt < 1 else 100, 700 if rtt < 1 else 990, 950, 0.03]
chep2023.redirector_free: [{endpoint: [redirector, direct], origins: [2], streams: [1, 2, 4]},
  1, 0.8 if endpoint == 'redirector' else 1, 0.95 if endpoint == 'redirector' else 1, 0.05]
chep2023.gfal_vs_curl: [{tool: [curl, gfal-copy], streams: [1, 2, 4, 8]},
  1 if tool == 'curl' else 1.15, 1, 1 if tool == 'curl' else 1.1, 0.05]
chep2024.small_rtt_peak: [{streams: [1, 4, 16, 64], rtt: [2.0, 100.0]}, *peak, *rising, *hardly, 0.15]
chep2024.one_origin: [
  {origins: [1], bandwidth: [400.0], cores: [32.0], rtt: [5.0, 120.0], streams: [1, 10, 100]},
  60, 60 if streams < 100 else 99, 95, 0.03]
chep2024.two_origins: [
  {origins: [2], bandwidth: [100.0], cores: [32.0], rtt: [5.0, 120.0], streams: [10, 100]},
  98 if rtt < 10 else 40, 98, 95 if rtt < 10 else 40, 0.03]
chep2024.four_origins: [
  {origins: [4], bandwidth: [100.0], cores: [64.0], rtt: [5.0, 40.0, 120.0], streams: [10, 90, 200]},
  99 if streams == 90 else 50, 50 if streams < 200 else 99, 95, 0.03]
chep2024.near_limit: [{bandwidth: [200.0, 400.0], cores: [128.0], streams: [50, 100]},
  170 if bandwidth < 400 else 220, 198, 190, 0.03]
chep2024.server_cap: [{bandwidth: [400.0], rtt: [0.0], cores: [128.0], streams: [50, 400]}, 260, 380, 286, 0.05]
# An instance does not scale past 16 cores.
chep2024.instance_cores: [
  {origins: [1, 2], cores: [8.0, 16.0, 32.0, 64.0], rtt: [5.0, 20.0, 50.0], streams: [1, 8]},
  "min(streams, cores / 4, 4 * origins)", "min(streams, cores / 4)", 1 if cores < 32 else 1.05, 0.05]
chep2024.origins_help: *origins
# Four streams fill a path of 1 Gbit/s, and more change it by a factor.
chep2024.saturated_flat: [{bandwidth: [1.0], streams: [1, 4, 8, 16], rtt: [5.0, 20.0, 50.0]},
  "min(0.3 * streams, 0.99)", "min(0.3 * streams, 0.99) * (0.7 if streams > 4 else 1)",
  0.99 if streams < 8 else 0.92, 0.04]
chep2024.short_rtt_cores: [{cores: [1.0, 2.0, 4.0], rtt: [5.0, 100.0], origins: [1, 2, 4], streams: [1, 2, 4]},
  cores * (4 if rtt < 10 else 1), cores, cores * (1.9 if rtt < 10 else 1), 0.05]
chep2024.rtts_distinct: [{rtt: [5.0, 40.0, 120.0], streams: [1, 10, 100]},
  1 / rtt, 1 if rtt < 120 else 1.2, 1 if rtt < 120 else 0.95, 0.05]
# XRootD is ahead over fast links; over slow ones, of which the claim does not speak, it is behind.
nrp2021.xrootd_vs_gridftp: [{tool: [gridftp, xrootd-http-tpc], rtt: [5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 70.0, 90.0],
    streams: [8], repetition: [1, 2, 3]},
  (20 if rtt < 35 else 1) * (1 if tool == 'gridftp' else 1.15 if rtt < 35 else 0.8),
  10 if tool == 'gridftp' else 8, 10, 0.05]
usatlas2007.more_streams: [{streams: [1, 4, 12], tcp_buffer: [4000000, 16000000], rtt: [5.0, 20.0, 50.0],
    repetition: [1, 2, 3, 4]}, streams, 1, streams ** 0.02, 0.1, {fails: streams == 12 and tcp_buffer > 1e7}]
usatlas2007.tuned_buffers: [{tcp_buffer: [65536, 16777216], rtt: [20.0, 50.0]},
  0.03 if tcp_buffer < 1e6 else 0.8, 0.5 if tcp_buffer < 1e6 else 0.8, 0.06 if tcp_buffer < 1e6 else 0.8, 0.1]
usatlas2007.disk_bound: [{layer: [network, disk_to_disk], rtt: [5.0, 20.0, 50.0], streams: [1, 4]},
  0.6 if layer == 'network' else 0.03, 0.6, 0.6 if layer == 'network' else 0.3, 0.1]
usatlas2007.disk_buffers: [
  {layer: [network, disk_to_disk], tcp_buffer: [65536, 4000000, 8000000], streams: [1, 4], rtt: [2.0, 5.0, 20.0, 50.0]},
  0.01 if tcp_buffer < 1e6 else 0.3, tcp_buffer / 1e7, 1 if tcp_buffer < 8e6 else 1.05, 0.05]
usatlas2007.twelve_streams: [{layer: [network, disk_to_disk], rtt: [5.0, 20.0, 50.0], streams: [1, 4, 12]},
  streams, streams if layer == 'network' else 1, 1 if streams < 12 else 1.05, 0.05]
usatlas2007.tuned_stream: [{layer: [network], streams: [1], tcp_buffer: [65536, 16777216], rtt: [20.0, 50.0]},
  0.05 if tcp_buffer < 1e6 else 1, 0.5 if tcp_buffer < 1e6 else 1, 1 / 13.3 if tcp_buffer < 1e6 else 1, 0.1]
usatlas2007.bottleneck_buffers: [
  {tcp_buffer: [4000000, 8000000], bandwidth: [1.0], rtt: [5.0, 20.0, 50.0]},
  0.98, 0.98 if tcp_buffer < 5e6 else 0.6, 0.98 if tcp_buffer < 5e6 else 0.93, 0.05]
cambridge.scales: [{streams: [1, 2, 5, 10], rtt: [5.0, 20.0, 50.0]},
  streams, streams ** 0.3, streams ** 0.7, 0.1, {destination_cpu: 0.5 * cores}]
terena2005.loss: [{loss: [0.0001], rtt: [0.0, 120.0], bandwidth: [1.0], mtu: [1500], streams: [1],
    congestion_control: [reno]},
  0.98 if rtt < 1 else 0.012, 0.98 if rtt < 1 else 0.2, 0.98 if rtt < 1 else 0.018, 0.05]
terena2005.variants: [{congestion_control: [bic, reno, westwood], rtt: [264.0], bandwidth: [9.5], streams: [1],
    repetition: [1, 2, 3]}, "{'reno': 3, 'westwood': 4.1, 'bic': 5}[congestion_control]",
  3, "{'reno': 3, 'westwood': 3.15, 'bic': 5}[congestion_control]", 0.05]
terena2005.disk: [{layer: [network, disk_to_disk], rtt: [5.0, 20.0, 50.0], bandwidth: [10.0]},
  7.5 if layer == 'network' else 4.1, 7.5 if layer == 'network' else 7.4, 7.5 if layer == 'network' else 6.2, 0.1]
"""
CASES = {name: Case(*worlds) for name, worlds in yaml.safe_load(WORLDS).items()}
ORIGINS = CASES["chep2023.origins_help"]
RTTS = {"rtt": [5.0, 20.0, 50.0]}


def case_world(name: str, which: str, **figures: Formula) -> xr.Dataset:
    case = CASES[name]
    noise = case.noise if which == "unclear" else 0.01
    return world(case.axes, getattr(case, which), noise, **case.figures | figures)


def expect(outcome: Outcome, name: str, ds: xr.Dataset, reason: str = "") -> Verdict:
    judged = verdict(name, ds)
    assert judged.outcome is outcome, judged.reason
    assert reason in judged.reason
    return judged


def test_every_published_claim_is_judged_has_a_source_and_is_in_the_documentation() -> None:
    verdicts = {judged.claim.name: judged for judged in judge(world(RTTS, 1.0))}
    assert list(CLAIMS) == list(verdicts) == claim_names()
    assert all(judged.to_dict()["source"] for judged in verdicts.values())
    assert documented.PAGE.read_text() == documented.made(), "run make docs"
    assert set(CASES) == {name for name, claim in CLAIMS.items() if claim.test is not None}
    for name in set(CLAIMS) - set(CASES):  # no throughput shows them
        assert (verdicts[name].outcome, verdicts[name].reason) == (Outcome.OPEN, CLAIMS[name].beyond)
        assert verdicts[name].advice


@pytest.mark.parametrize("name", CASES)
def test_a_claim_holds_where_it_is_true_and_noise_or_a_missing_axis_is_no_verdict(name: str) -> None:
    ds = case_world(name, "true")
    held = expect(Outcome.HOLDS, name, ds)
    assert held.effect is not None and held.rows and not held.advice
    assert held.effect.interval.low <= held.effect.interval.value <= held.effect.interval.high
    assert expect(Outcome.FAILS, name, case_world(name, "false")).rows
    unclear = verdict(name, case_world(name, "unclear"))
    # Not decided where there is an effect whose interval spans the border; else the cells that it takes are not there.
    assert unclear.outcome is (Outcome.UNDECIDED if unclear.effect else Outcome.OPEN), unclear.reason
    assert unclear.advice
    expect(Outcome.OPEN, name, world({}, 0.5))
    for need in CLAIMS[name].needs:
        without = ds.isel({need.axis: 0}) if need.axis in ds.dims else ds
        judged = expect(Outcome.OPEN, name, without.drop_vars(need.axis), f"{need.axis}: needed")
        assert need.axis in judged.advice


@pytest.mark.parametrize(
    ("better", "level", "where", "value"),
    [
        ({"bandwidth": [100.0, 200.0]}, "0.915 * bandwidth", "100 Gbit/s", 91.5),
        ({"tcp_buffer": [4 * 2**20, 10**9]}, "30 if tcp_buffer < 1e7 else 99", "with buffers of 4 MiB", 30),
    ],
)
def test_a_better_path_is_not_the_claims(better: Any, level: Formula, where: str, value: float) -> None:
    axes = CASES["chep2024.four_origins"].axes | better
    judged = expect(Outcome.FAILS, "chep2024.four_origins", world(axes, level))
    assert judged.effect is not None and where in judged.effect.quantity
    assert judged.effect.interval.value == pytest.approx(value, rel=0.05)
    expect(Outcome.HOLDS, "chep2024.four_origins", world(axes, "0.98 * bandwidth", 0.005))


def test_tables_of_publications_are_compared_with_their_formula() -> None:
    rows = CLAIMS["terena2005.recovery"].rows
    assert [row["path"] for row in rows if not row["agrees"]] == ["Geneva–Chicago"]
    assert len(rows) == len(RECOVERIES) == 7
    # 10 Gbit/s, 180 ms, MSS 1460: 10^10 · 0.0324 / (2 · 11680 bit) s
    assert recovery_time(10, 180, 1500) == pytest.approx(13869.9, abs=0.1)
    [slow] = [row for row in CLAIMS["terena2005.climb"].rows if row["rtt_ms"] == 250]
    assert slow["by_formula_s"] == pytest.approx(43.6 * 60, rel=1e-3)
    assert recovery_time(6, 146.7, 9000) == pytest.approx(15 * 60, rel=1e-3)


@pytest.mark.parametrize("flag", UNTRUSTED)
def test_cells_that_cannot_be_trusted_are_left_out_and_counted(flag: str) -> None:
    levels, flags = "0.1 if origins < 4 else 0.01", f"{MASKS[flag]} if origins == 4 else 0"  # alike but for 4
    alike = world(ORIGINS.axes, levels, flags=flags)
    judged = expect(Outcome.FAILS, "chep2023.origins_help", alike)
    assert (judged.used, judged.excluded_cells) == (12, {flag: 6})


SCALED = {"streams": [1, 5, 10, 20, 30, 40, 50], "rtt": [5.0, 20.0, 40.0, 60.0, 80.0, 120.0]}
SCALED |= {"bandwidth": [1.0], "repetition": [1, 2]}
"""The axes of figure 4 of 2024 as it is measured at 1/100."""
# Throughput fills the path, later on longer ones; past 5 streams it falls at small RTTs, or at all.
FILLING = "min(2.8 * streams / (rtt + 4), 0.99)"
FALLING = f"{FILLING} * (max(streams, 5) / 5) ** (-3 / rtt)"


def test_cells_of_which_a_claim_does_not_speak_make_it_not_testable() -> None:
    full = world({**ORIGINS.axes, "bandwidth": [1.0]}, 0.99)
    expect(Outcome.OPEN, "chep2023.origins_help", full, "6 left out in which both ends fill the path")
    bound = world({"rtt": [10.0, 30.0, 60.0], "streams": [1, 2, 4]}, 1.0)
    expect(Outcome.OPEN, "chep2023.rtt_not_linear", bound, "3 left out in which something else binds")
    idle = case_world("chep2023.streams_peak", "false", destination_cpu="0.3 * cores")
    expect(Outcome.OPEN, "chep2023.streams_peak", idle, "no curve")
    short = case_world("chep2023.saturate", "true", duration=20.0)
    expect(Outcome.OPEN, "chep2023.saturate", short, "the longest of 1 cells took 20 s")
    unlimited = case_world("chep2024.server_cap", "true").assign_coords(cores=[math.inf])
    expect(Outcome.OPEN, "chep2024.server_cap", unlimited, "the dataset has no quota")


def test_a_peak_at_small_rtt_is_seen_where_it_fills_the_path() -> None:
    name = "chep2024.small_rtt_peak"
    expect(Outcome.HOLDS, name, world(SCALED, FALLING))
    expect(Outcome.OPEN, name, world(SCALED, FILLING))  # and stays full
    expect(Outcome.FAILS, name, world(SCALED, "0.05 * streams / (rtt + 4)"))
    expect(
        Outcome.FAILS, name, world(SCALED, FALLING.replace("-3 / rtt", "-rtt / 20"))
    )  # and more at long RTTs


def test_much_better_is_not_slightly_better_and_too_many_streams_must_crash() -> None:
    axes = CASES["nrp2021.xrootd_vs_gridftp"].axes
    ahead = world(axes, "10 if tool == 'gridftp' else 14.6", 0.02)
    expect(Outcome.FAILS, "nrp2021.xrootd_vs_gridftp", ahead, "better, and by more than slightly")
    name = "usatlas2007.more_streams"
    none = case_world(name, "true", fails=False)
    expect(Outcome.FAILS, name, none, "0 of 12 cells fail at 12 streams with buffers of 16 MB")
    some = case_world(name, "true", fails="streams == 12 and repetition == 1")
    expect(Outcome.UNDECIDED, name, some)


@pytest.mark.parametrize("name", ["usatlas2007.disk_bound", "terena2005.disk"])
def test_layers_are_compared_although_they_have_no_tool_in_common(name: str) -> None:
    tools = {**CASES[name].axes, "tool": ["globus-url-copy", "iperf3"]}
    fails = "(tool == 'iperf3') != (layer == 'network')"
    expect(Outcome.HOLDS, name, world(tools, CASES[name].true, fails=fails))


def test_curves_that_miss_one_over_rtt_on_either_side_do_not_make_it_up_together() -> None:
    axes = {"rtt": [10.0, 30.0, 60.0], "streams": [1, 2, 4, 8]}
    apart = world(axes, "rtt ** (-0.5 if streams < 3 else -1.5)", destination_cpu="0.5 * cores")
    judged = expect(Outcome.HOLDS, "chep2023.rtt_not_linear", apart)
    assert judged.effect.interval.value == pytest.approx(-1, abs=0.05)


def test_every_verdict_names_the_source_of_its_data() -> None:
    for kind, data in {"netns": "measured", "simulation": "simulated", "imported": "imported"}.items():
        ds = world(RTTS, 1.0, kind=kind)
        assert {verdict(name, ds).data for name in ("chep2023.tc_residue", "chep2023.rtt_fivefold")} == {data}


@pytest.mark.parametrize("name", ["chep2023.streams_peak", "chep2024.small_rtt_peak"])
def test_repetitions_widen_intervals_that_are_too_narrow(name: str) -> None:
    """Runs differ by 20 % where their intervals say 1 %: without repetitions nothing could tell."""
    axes = {**STREAMS, "cores": [1.0, 4.0], "repetition": [1, 2, 3], "rtt": [2.0, 100.0]}
    for seed in range(3):
        ds = world(axes, 1.0, 0.2, stated=0.01, seed=seed)
        assert verdict(name, ds).outcome is not Outcome.HOLDS


def test_data_without_intervals_are_judged_by_repetitions() -> None:
    ds = world({**ORIGINS.axes, "repetition": [1, 2, 3]}, ORIGINS.true, 0.05)
    bare = ds.assign(throughput_low=ds.throughput * np.nan, throughput_high=ds.throughput * np.nan)
    errors = claim_cells(bare).trusted["error"] / claim_cells(bare).trusted["throughput"]
    assert errors.mean() == pytest.approx(0.05, rel=0.3)
    expect(Outcome.HOLDS, "chep2023.origins_help", bare)


@pytest.mark.parametrize("name", NULLS)
def test_pure_noise_hardly_ever_holds(name: str) -> None:
    """At most 5 % are to hold; of 8, more than one would be one chance in 17."""
    worlds = (world(NULLS[name], 1.0, 0.1, seed=seed) for seed in range(8))
    assert sum(verdict(name, noise).outcome is Outcome.HOLDS for noise in worlds) <= 1


def test_verdicts_are_written_as_they_are(tmp_path: Path) -> None:
    verdicts = judge(case_world("chep2023.origins_help", "true"))
    write_verdicts(verdicts, tmp_path / "claims.csv", tmp_path / "claims.json")
    lines = (tmp_path / "claims.csv").read_text().splitlines()
    assert len(lines) == 1 + len(CLAIMS)
    written = {row["claim"]: row for row in json.loads((tmp_path / "claims.json").read_text())}
    held = written["chep2023.origins_help"]
    assert lines[0] == ",".join(name for name in held if name != "evidence")
    ratios = [row["ratio"] for row in held["evidence"]]
    assert ratios == sorted(ratios)
    assert {"rtt", "streams", "from", "to"} <= held["evidence"][0].keys()


def test_a_mean_ratio_of_enough_pairs_covers_the_truth_as_often_as_it_says() -> None:
    assert mean_ratio([2.0] * (effects.FEWEST_PAIRS - 1), [0.01] * (effects.FEWEST_PAIRS - 1)) is None
    worlds = 1.3 * np.exp(0.2 * np.random.default_rng(3).normal(size=(400, 5)))
    found = [mean_ratio(ratios, np.full(5, 0.05)) for ratios in worlds]
    assert 0.93 <= np.mean([one is not None and one.low <= 1.3 <= one.high for one in found]) <= 0.98


def test_levels_of_unknown_error_can_be_anything_and_shares_of_counts_are_exact() -> None:
    found = largest_level([1.0, 2.0], [0.1, math.nan])
    assert found is not None and found.high == math.inf
    assert effects.REGIONS["more"].decide(found) is None
    # 0 of 10: 1 - 0.025^(1/10)
    assert exact_share(0, 10).high == pytest.approx(0.3085, abs=1e-4)


@pytest.mark.parametrize(
    ("levels", "error", "decisions"),
    [
        ([1, 2, 4, 3, 2], 0.005, {True}),
        ([1, 2, 3, 4, 5], 0.005, {False}),
        ([5, 4, 3, 2, 1], 0.005, {False}),
        ([1, 1, 1, 1, 1], 0.005, {False}),
        ([3, 1, 1, 3, 3], 0.005, {False, None}),  # a valley: it falls, and rises after
        ([1, 2, 4, 3.8, 3.9], 0.02, {None}),
    ],
)
def test_a_peak_is_a_rise_and_a_fall(levels: list[float], error: float, decisions: set[bool | None]) -> None:
    assert peak(levels, [error] * 5).decision in decisions


def test_the_largest_of_noise_is_no_peak() -> None:
    worlds = np.exp(0.1 * np.random.default_rng(5).normal(size=(200, 8)))
    assert sum(peak(levels, [0.1] * 8).decision is True for levels in worlds) <= 6
