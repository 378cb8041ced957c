# SPDX-License-Identifier: Apache-2.0
"""Verdicts on datasets in which a claim is true, in which it is false, and in which noise hides which."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
import xarray as xr
from tpcsweep.claims import CLAIMS, Outcome, Verdict, judge
from tpcsweep.claims.base import judge_claim
from tpcsweep.claims.cells import UNTRUSTED, WIDEN, cells_of
from tpcsweep.claims.earlier import RECOVERIES
from tpcsweep.claims.table import COLUMNS, evidence, write
from tpcsweep.configuration.testbeds import ClaimName
from tpcsweep.dataset.labels import MASKS, about_flags
from tpcsweep.tcp import recovery_time

from tests.support.notebooks import executed
from tests.support.workflow import ROOT

PUBLISHED = list(get_args(ClaimName))
FIXED: dict[str, Any] = {
    "origins": 1,
    "cores": 4.0,
    "rtt": 10.0,
    "bandwidth": 1000.0,
    "loss": 0.0,
    "mtu": 9000,
    "tcp_buffer": 8 * 2**20,
    "congestion_control": "cubic",
    "tool": "gfal-copy",
    "endpoint": "redirector",
    "tcp_streams": 1,
    "streams": 4,
}
Point = Mapping[str, Any]
Level = Callable[[Point], float]


def world(
    axes: Mapping[str, Sequence[Any]],
    level: Level,
    noise: float = 0.01,
    *,
    seed: int = 1,
    stated: float | None = None,
    duration: float = 20.0,
    cpu: float = 0.95,
    largest: float = math.nan,
    fails: Callable[[Point], bool] = lambda _: False,
    flags: Callable[[Point], int] = lambda _: 0,
    kind: str = "netns",
) -> xr.Dataset:
    """Give a dataset whose cells lie around `level` Gbit/s, with intervals that say so.

    noise: the relative standard error of a cell; stated: that of its interval, if another. cpu: the share of its cores
    that the destination uses; largest: its largest second. Axes that are not given have the value in FIXED.
    """
    generator = np.random.default_rng(seed)
    axes = {**axes, "repetition": axes.get("repetition", [1])}
    shape = tuple(len(values) for values in axes.values())
    names = (
        *("throughput", "throughput_low", "throughput_high", "throughput_max"),
        *("duration", "source_cpu", "destination_cpu"),
    )
    content = {name: np.full(shape, np.nan) for name in names}
    status, marks = np.ones(shape, np.int8), np.zeros(shape, np.int32)
    for place, values in zip(np.ndindex(*shape), itertools.product(*axes.values()), strict=True):
        point = {**FIXED, **dict(zip(axes, values, strict=True))}
        marks[place] = flags(point)
        if fails(point):
            status[place] = 2
            continue
        throughput = level(point) * math.exp(noise * generator.normal())
        half = 1.96 * (noise if stated is None else stated) * throughput / WIDEN
        interval = (throughput, throughput - half, throughput + half)
        figures = (*interval, largest, duration, 0.1, cpu * point["cores"])
        for name, figure in zip(names, figures, strict=True):
            content[name][place] = figure
    dimensions = tuple(axes)
    variables = {name: (dimensions, values) for name, values in content.items()}
    coordinates = {name: (name, list(values)) for name, values in axes.items()}
    fixed = {name: ((), value) for name, value in FIXED.items() if name not in axes}
    return xr.Dataset(
        {**variables, "status": (dimensions, status), "flags": (dimensions, marks, about_flags())},
        {**coordinates, **fixed},
        {"testbed_kind": kind, "measurement_confidence": 0.95},
    )


class Case(NamedTuple):
    """Three worlds over the same axes."""

    axes: dict[str, Sequence[Any]]
    true: Level
    false: Level
    unclear: Level
    noise: float
    """Of the unclear world."""
    how: dict[str, Any] = {}  # noqa: RUF012


def origins(power: float) -> Level:
    return lambda point: 0.1 * point["streams"] * point["origins"] ** power


def peak(point: Point) -> float:
    """Rises to four streams and falls past them; less so the longer the path."""
    return point["cores"] * point["streams"] / (1 + (point["streams"] / (4 + point["rtt"])) ** 2)


def rising(point: Point) -> float:
    return point["cores"] * min(point["streams"], 4)


def fast_links(point: Point) -> float:
    """XRootD is ahead over fast links; over slow ones, of which the claim does not speak, it is behind."""
    level, ahead = (20.0, 1.15) if point["rtt"] < 35 else (1.0, 0.8)
    return level * (1.0 if point["tool"] == "gridftp" else ahead)


def faint(point: Point) -> float:
    return point["cores"] * (1.3 if point["streams"] == 4 else 1.0)


RTTS = {"rtt": [5.0, 20.0, 50.0]}
STREAMS = {"streams": [1, 4, 16, 64]}
LAYERS = {"layer": ["network", "disk_to_disk"], **RTTS}
ORIGINS = Case(
    {"origins": [1, 2, 4], **RTTS, "streams": [1, 4]}, origins(0.5), origins(0), origins(0.08), 0.1
)
CASES = {
    "chep2023.saturate": Case(
        {"bandwidth": [400.0], "rtt": [3.0], "streams": [40, 520]},
        lambda _: 395.0,
        lambda _: 300.0,
        lambda _: 380.0,
        0.05,
        {"duration": 3600.0},
    ),
    "chep2023.little_fluctuation": Case(
        {"bandwidth": [400.0], "rtt": [3.0], "streams": [520]},
        lambda _: 395.0,
        lambda _: 300.0,
        lambda _: 380.0,
        0.05,
        {"duration": 3600.0, "largest": 410.0},
    ),
    "chep2023.streams_required": Case(
        {"bandwidth": [400.0], "rtt": [3.0], "streams": [40, 130, 260, 520]},
        lambda point: 395.0 if point["streams"] == 520 else 300.0,
        lambda _: 395.0,
        lambda point: 395.0 if point["streams"] == 520 else 375.0,
        0.03,
    ),
    "chep2023.streams_peak": Case(
        {**STREAMS, "cores": [1.0, 4.0], "rtt": [1.0, 2.0]}, peak, rising, faint, 0.15
    ),
    "chep2023.origins_help": ORIGINS,
    "chep2023.rtt_fivefold": Case(
        {"rtt": [0.1, 10.0], "streams": [1, 2, 4]},
        lambda point: 10 if point["rtt"] < 1 else 2,
        lambda point: 10 if point["rtt"] < 1 else 9,
        lambda point: 10 if point["rtt"] < 1 else 3.3,
        0.1,
    ),
    "chep2023.rtt_not_linear": Case(
        {"rtt": [10.0, 30.0, 60.0], "streams": [1, 2, 4]},
        lambda point: point["rtt"] ** -0.3,
        lambda point: 1 / point["rtt"],
        lambda point: point["rtt"] ** -0.85,
        0.1,
        {"cpu": 0.5},
    ),
    "chep2023.rtt120_cap": Case(
        {"origins": [2], "cores": [256.0], "rtt": [120.0], "streams": [1, 10, 100, 500]},
        lambda _: 1.0,
        lambda point: 0.1 * point["streams"],
        lambda _: 1.4,
        0.1,
    ),
    "chep2023.streams_stop_helping": Case(
        {"rtt": [10.0, 60.0, 90.0, 120.0], "streams": [1, 16, 32, 64]},
        lambda point: min(point["streams"], 16) if point["rtt"] > 20 else point["streams"],
        lambda point: point["streams"],
        lambda point: 1.05 if point["streams"] == 64 else 1.0,
        0.05,
        {"cpu": 0.5},
    ),
    "chep2023.terabit": Case(
        {"bandwidth": [1000.0], "rtt": [0.0, 10.0], "streams": [1, 100]},
        lambda point: 990.0 if point["rtt"] < 1 else 100.0,
        lambda point: 700.0 if point["rtt"] < 1 else 990.0,
        lambda _: 950.0,
        0.03,
    ),
    "chep2023.redirector_free": Case(
        {"endpoint": ["redirector", "direct"], "origins": [2], "streams": [1, 2, 4]},
        lambda _: 1.0,
        lambda point: 0.8 if point["endpoint"] == "redirector" else 1.0,
        lambda point: 0.95 if point["endpoint"] == "redirector" else 1.0,
        0.05,
    ),
    "chep2023.gfal_vs_curl": Case(
        {"tool": ["curl", "gfal-copy"], "streams": [1, 2, 4, 8]},
        lambda point: 1.15 if point["tool"] == "gfal-copy" else 1.0,
        lambda _: 1.0,
        lambda point: 1.1 if point["tool"] == "gfal-copy" else 1.0,
        0.05,
    ),
    "chep2024.small_rtt_peak": Case({**STREAMS, "rtt": [2.0, 100.0]}, peak, rising, faint, 0.15),
    "chep2024.one_origin": Case(
        {"bandwidth": [400.0], "cores": [32.0], "rtt": [5.0, 120.0], "streams": [1, 10, 100]},
        lambda _: 60.0,
        lambda point: 99.0 if point["streams"] == 100 else 60.0,
        lambda _: 95.0,
        0.03,
    ),
    "chep2024.two_origins": Case(
        {"origins": [2], "bandwidth": [100.0], "cores": [32.0], "rtt": [5.0, 120.0], "streams": [10, 100]},
        lambda point: 98.0 if point["rtt"] < 10 else 40.0,
        lambda _: 98.0,
        lambda point: 95.0 if point["rtt"] < 10 else 40.0,
        0.03,
    ),
    "chep2024.four_origins": Case(
        {
            "origins": [4],
            "bandwidth": [100.0],
            "cores": [64.0],
            "rtt": [5.0, 40.0, 120.0],
            "streams": [10, 90, 200],
        },
        lambda point: 99.0 if point["streams"] == 90 else 50.0,
        lambda point: 99.0 if point["streams"] == 200 else 50.0,
        lambda _: 95.0,
        0.03,
    ),
    "chep2024.near_limit": Case(
        {"bandwidth": [200.0, 400.0], "cores": [128.0], "streams": [50, 100]},
        lambda point: 170.0 if point["bandwidth"] == 200 else 220.0,
        lambda _: 198.0,
        lambda _: 190.0,
        0.03,
    ),
    "chep2024.server_cap": Case(
        {"bandwidth": [400.0], "rtt": [0.0], "cores": [128.0], "streams": [50, 400]},
        lambda _: 260.0,
        lambda _: 380.0,
        lambda _: 286.0,
        0.05,
    ),
    "chep2024.instance_cores": Case(
        {"origins": [1, 2], "cores": [8.0, 16.0, 32.0, 64.0], **RTTS, "streams": [1, 8]},
        lambda point: min(point["streams"], point["cores"] / 4, 4 * point["origins"]),
        lambda point: min(point["streams"], point["cores"] / 4),
        lambda point: 1.05 if point["cores"] > 16 else 1.0,
        0.05,
    ),
    "chep2024.origins_help": ORIGINS,
    "chep2024.saturated_flat": Case(
        {"bandwidth": [1.0], "streams": [1, 4, 8, 16], **RTTS},
        lambda point: min(0.3 * point["streams"], 0.99),
        lambda point: min(0.3 * point["streams"], 0.99) * (0.7 if point["streams"] > 4 else 1),
        lambda point: 0.99 * (0.93 if point["streams"] > 4 else 1),
        0.04,
    ),
    "chep2024.short_rtt_cores": Case(
        {"cores": [1.0, 2.0, 4.0], "rtt": [5.0, 100.0], "origins": [1, 2, 4], "streams": [1, 2, 4]},
        lambda point: point["cores"] * (4 if point["rtt"] < 10 else 1),
        lambda point: point["cores"],
        lambda point: point["cores"] * (1.9 if point["rtt"] < 10 else 1),
        0.05,
    ),
    "chep2024.rtts_distinct": Case(
        {"rtt": [5.0, 40.0, 120.0], "streams": [1, 10, 100]},
        lambda point: 1 / point["rtt"],
        lambda _: 1.0,
        lambda point: 0.95 if point["rtt"] > 100 else 1.0,
        0.05,
    ),
    "nrp2021.xrootd_vs_gridftp": Case(
        {
            "tool": ["gridftp", "xrootd-http-tpc"],
            "rtt": [5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 70.0, 90.0],
            "streams": [8],
            "repetition": [1, 2, 3],
        },
        fast_links,
        lambda point: 10.0 if point["tool"] == "gridftp" else 8.0,
        lambda _: 10.0,
        0.05,
    ),
    "usatlas2007.more_streams": Case(
        {"streams": [1, 4, 12], "tcp_buffer": [4 * 10**6, 16 * 10**6], **RTTS, "repetition": [1, 2, 3, 4]},
        lambda point: point["streams"],
        lambda _: 1.0,
        lambda point: point["streams"] ** 0.02,
        0.1,
        {"fails": lambda point: point["streams"] == 12 and point["tcp_buffer"] > 10**7},
    ),
    "usatlas2007.tuned_buffers": Case(
        {"tcp_buffer": [2**16, 2**24], "rtt": [20.0, 50.0]},
        lambda point: 0.8 if point["tcp_buffer"] > 2**20 else 0.03,
        lambda point: 0.8 if point["tcp_buffer"] > 2**20 else 0.5,
        lambda point: 0.8 if point["tcp_buffer"] > 2**20 else 0.06,
        0.1,
    ),
    "usatlas2007.disk_bound": Case(
        {**LAYERS, "streams": [1, 4]},
        lambda point: 0.03 if point["layer"] != "network" else 0.6,
        lambda _: 0.6,
        lambda point: 0.3 if point["layer"] != "network" else 0.6,
        0.1,
    ),
    "usatlas2007.disk_buffers": Case(
        {
            "layer": ["network", "disk_to_disk"],
            "tcp_buffer": [2**16, 4 * 10**6, 8 * 10**6],
            "streams": [1, 4, 12],
        },
        lambda point: 0.3 if point["tcp_buffer"] > 10**6 else 0.01,
        lambda point: point["tcp_buffer"] / 1e7,
        lambda point: 1.05 if point["tcp_buffer"] == 8 * 10**6 else 1.0,
        0.05,
    ),
    "usatlas2007.twelve_streams": Case(
        {"layer": ["network", "disk_to_disk"], "streams": [1, 4, 12], **RTTS},
        lambda point: point["streams"],
        lambda point: 1.0 if point["layer"] != "network" else point["streams"],
        lambda point: 1.05 if point["streams"] == 12 else 1.0,
        0.05,
    ),
    "usatlas2007.tuned_stream": Case(
        {"layer": ["network"], "streams": [1], "tcp_buffer": [2**16, 2**24], "rtt": [20.0, 50.0]},
        lambda point: 1.0 if point["tcp_buffer"] > 2**20 else 0.05,
        lambda point: 1.0 if point["tcp_buffer"] > 2**20 else 0.5,
        lambda point: 1.0 if point["tcp_buffer"] > 2**20 else 1 / 13.3,
        0.1,
    ),
    "usatlas2007.bottleneck_buffers": Case(
        {"tcp_buffer": [4 * 10**6, 8 * 10**6], "bandwidth": [1.0], **RTTS},
        lambda _: 0.98,
        lambda point: 0.98 if point["tcp_buffer"] < 5 * 10**6 else 0.6,
        lambda point: 0.98 if point["tcp_buffer"] < 5 * 10**6 else 0.93,
        0.05,
    ),
    "cambridge.scales": Case(
        {"streams": [1, 2, 5, 10], **RTTS},
        lambda point: point["streams"],
        lambda point: point["streams"] ** 0.3,
        lambda point: point["streams"] ** 0.7,
        0.1,
        {"cpu": 0.5},
    ),
    "terena2005.loss": Case(
        {
            "loss": [1e-4],
            "rtt": [0.0, 120.0],
            "bandwidth": [1.0],
            "mtu": [1500],
            "streams": [1],
            "congestion_control": ["reno"],
        },
        lambda point: 0.98 if point["rtt"] < 1 else 0.012,
        lambda point: 0.98 if point["rtt"] < 1 else 0.2,
        lambda point: 0.98 if point["rtt"] < 1 else 0.018,
        0.05,
    ),
    "terena2005.variants": Case(
        {
            "congestion_control": ["bic", "reno", "westwood"],
            "rtt": [264.0],
            "bandwidth": [9.5],
            "streams": [1],
            "repetition": [1, 2, 3],
        },
        lambda point: {"reno": 3.0, "westwood": 4.1, "bic": 5.0}[point["congestion_control"]],
        lambda _: 3.0,
        lambda point: {"reno": 3.0, "westwood": 3.15, "bic": 5.0}[point["congestion_control"]],
        0.05,
    ),
    "terena2005.disk": Case(
        {**LAYERS, "bandwidth": [10.0]},
        lambda point: 4.1 if point["layer"] != "network" else 7.5,
        lambda point: 7.4 if point["layer"] != "network" else 7.5,
        lambda point: 6.2 if point["layer"] != "network" else 7.5,
        0.1,
    ),
}


def verdict(name: str, ds: xr.Dataset) -> Verdict:
    return judge_claim(CLAIMS[name], ds, cells_of(ds))


def case_world(name: str, which: str, **how: Any) -> xr.Dataset:
    case = CASES[name]
    noise = case.noise if which == "unclear" else 0.01
    return world(case.axes, getattr(case, which), **{"noise": noise, **case.how, **how})


def test_every_published_claim_is_judged_has_a_source_and_is_in_the_documentation() -> None:
    assert list(CLAIMS) == PUBLISHED
    verdicts = judge(world(RTTS, lambda _: 1.0))
    assert [judged.claim.name for judged in verdicts] == PUBLISHED
    assert all(judged.to_dict()["source"] for judged in verdicts)
    text = (ROOT / "docs/claims.md").read_text()
    assert [name for name in PUBLISHED if f"`{name}`" not in text] == []
    assert set(CASES) == {name for name, claim in CLAIMS.items() if claim.test is not None}


@pytest.mark.parametrize("name", CASES)
def test_a_claim_holds_where_it_is_true_and_noise_or_one_small_cell_is_no_verdict(name: str) -> None:
    held = verdict(name, case_world(name, "true"))
    assert held.outcome is Outcome.HOLDS, held.reason
    assert held.effect is not None
    assert held.effect.interval.low <= held.effect.interval.value <= held.effect.interval.high
    assert held.rows
    assert not held.advice
    failed = verdict(name, case_world(name, "false"))
    assert failed.outcome is Outcome.FAILS, failed.reason
    assert failed.rows
    unclear = verdict(name, case_world(name, "unclear"))
    # Not decided where there is an effect whose interval spans the border; else the cells that it takes are not there.
    assert unclear.outcome is (Outcome.UNDECIDED if unclear.effect else Outcome.OPEN), unclear.reason
    assert unclear.advice
    assert verdict(name, world({}, lambda _: 0.5)).outcome is Outcome.OPEN


def test_a_wider_path_does_not_stand_in_for_that_of_the_claim() -> None:
    case = CASES["chep2024.four_origins"]
    axes = {**case.axes, "bandwidth": [100.0, 200.0]}
    judged = verdict(
        "chep2024.four_origins", world(axes, lambda point: 0.915 * point["bandwidth"], **case.how)
    )
    assert judged.outcome is Outcome.FAILS
    assert judged.effect is not None
    assert "100 Gbit/s" in judged.effect.quantity
    assert judged.effect.interval.value == pytest.approx(91.5, rel=0.05)
    both = verdict("chep2024.four_origins", world(axes, lambda point: 0.98 * point["bandwidth"], **case.how))
    assert both.outcome is Outcome.HOLDS


def test_a_tuned_path_does_not_stand_in_for_one_that_is_not() -> None:
    axes = {**CASES["chep2024.four_origins"].axes, "tcp_buffer": [4 * 2**20, 10**9]}
    judged = verdict(
        "chep2024.four_origins", world(axes, lambda point: 99.0 if point["tcp_buffer"] > 10**7 else 30.0)
    )
    assert judged.outcome is Outcome.FAILS
    assert judged.effect is not None
    assert "with buffers of 4 MiB" in judged.effect.quantity
    assert judged.effect.interval.value == pytest.approx(30, rel=0.05)


@pytest.mark.parametrize("name", CASES)
def test_what_is_needed_and_missing_is_named(name: str) -> None:
    ds = case_world(name, "true")
    for need in CLAIMS[name].needs:
        without = ds.isel({need.axis: 0}) if need.axis in ds.dims else ds
        judged = verdict(name, without.drop_vars(need.axis))
        assert judged.outcome is Outcome.OPEN
        assert f"{need.axis}: needed" in judged.reason
        assert need.axis in judged.advice


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if claim.test is None])
def test_what_no_throughput_shows_says_what_is_needed(name: str) -> None:
    judged = verdict(name, world(RTTS, lambda _: 1.0))
    assert judged.outcome is Outcome.OPEN
    assert judged.reason == CLAIMS[name].beyond
    assert judged.advice


def test_the_recovery_table_is_compared_with_its_formula() -> None:
    rows = verdict("terena2005.recovery", world(RTTS, lambda _: 1.0)).rows
    assert [row["path"] for row in rows if not row["agrees"]] == ["Geneva–Chicago"]
    assert len(rows) == len(RECOVERIES) == 7
    # 10 Gbit/s, 180 ms, MSS 1460: 10^10 · 0.0324 / (2 · 11680 bit) s
    assert recovery_time(10, 180, 1500) == pytest.approx(13869.9, abs=0.1)


@pytest.mark.parametrize("flag", UNTRUSTED)
def test_cells_that_cannot_be_trusted_are_left_out_and_counted(flag: str) -> None:
    mask = MASKS[flag]
    case = CASES["chep2023.origins_help"]

    def broken(point: Point) -> float:
        return 0.01 if point["origins"] == 4 else case.true(point)

    ds = world(case.axes, broken, flags=lambda point: mask if point["origins"] == 4 else 0)
    judged = verdict("chep2023.origins_help", ds)
    assert judged.outcome is Outcome.HOLDS
    assert (judged.used, judged.left_out) == (12, {flag: 6})
    nothing = verdict("chep2023.origins_help", world(case.axes, case.true, flags=lambda _: mask))
    assert nothing.outcome is Outcome.OPEN
    assert (nothing.used, nothing.left_out) == (0, {flag: 18})


@pytest.mark.parametrize(
    ("name", "ds", "reason"),
    [
        (
            "chep2023.origins_help",
            world({**ORIGINS.axes, "bandwidth": [1.0]}, lambda _: 0.99),
            "6 left out in which both ends fill the path",
        ),
        (
            "chep2023.rtt_not_linear",
            world({"rtt": [10.0, 30.0, 60.0], "streams": [1, 2, 4]}, lambda _: 1.0, cpu=0.95),
            "3 left out in which something else binds",
        ),
        ("chep2023.streams_peak", case_world("chep2023.streams_peak", "false", cpu=0.3), "no curve"),
        (
            "chep2023.saturate",
            case_world("chep2023.saturate", "true", duration=20.0),
            "the longest of 1 cells took 20 s",
        ),
        (
            "chep2024.server_cap",
            case_world("chep2024.server_cap", "true").assign_coords(cores=[math.inf]),
            "the dataset has no limit",
        ),
    ],
    ids=["a full path", "CPU binds", "CPU is free", "20 s", "cores without limit"],
)
def test_cells_of_which_a_claim_does_not_speak_make_it_not_testable(
    name: str, ds: xr.Dataset, reason: str
) -> None:
    judged = verdict(name, ds)
    assert judged.outcome is Outcome.OPEN
    assert reason in judged.reason


def test_curves_that_miss_one_over_rtt_on_either_side_do_not_make_it_up_together() -> None:
    axes = {"rtt": [10.0, 30.0, 60.0], "streams": [1, 2, 4, 8]}
    apart = world(axes, lambda point: point["rtt"] ** (-0.5 if point["streams"] < 3 else -1.5), cpu=0.5)
    judged = verdict("chep2023.rtt_not_linear", apart)
    assert judged.outcome is Outcome.HOLDS
    assert judged.effect is not None
    assert judged.effect.interval.value == pytest.approx(-1, abs=0.05)


def test_much_better_is_not_slightly_better() -> None:
    name = "nrp2021.xrootd_vs_gridftp"
    ahead = world(CASES[name].axes, lambda point: 10.0 if point["tool"] == "gridftp" else 14.6, 0.02)
    judged = verdict(name, ahead)
    assert judged.outcome is Outcome.FAILS
    assert "better, and by more than slightly" in judged.reason


def test_too_many_streams_must_crash() -> None:
    name = "usatlas2007.more_streams"
    judged = verdict(name, case_world(name, "true", fails=lambda _: False))
    assert judged.outcome is Outcome.FAILS
    assert "0 of 12 cells fail at 12 streams with buffers of 16 MB" in judged.reason
    sometimes = case_world(
        name, "true", fails=lambda point: point["streams"] == 12 and point["repetition"] == 1
    )
    assert verdict(name, sometimes).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("name", ["usatlas2007.disk_bound", "terena2005.disk"])
def test_layers_are_compared_although_they_have_no_tool_in_common(name: str) -> None:
    case = CASES[name]

    def cannot(point: Point) -> bool:
        return (point["tool"] == "iperf3") != (point["layer"] == "network")

    ds = world({**case.axes, "tool": ["globus-url-copy", "iperf3"]}, case.true, fails=cannot, **case.how)
    assert verdict(name, ds).outcome is Outcome.HOLDS


@pytest.mark.parametrize("kind", ["netns", "kubernetes", "simulation", "imported"])
def test_where_data_are_from_is_said_in_every_verdict(kind: str) -> None:
    data = {"simulation": "simulated", "imported": "imported"}.get(kind, "measured")
    assert {judged.data for judged in judge(world(RTTS, lambda _: 1.0, kind=kind))} == {data}


SCALED = {
    "streams": [1, 5, 10, 20, 30, 40, 50],
    "rtt": [5.0, 20.0, 40.0, 60.0, 80.0, 120.0],
    "bandwidth": [1.0],
    "repetition": [1, 2],
}
"""The axes of figure 4 of 2024 as it is measured at 1/100."""


def filling(point: Point) -> float:
    """Throughput that fills the path, later on longer ones."""
    return min(2.8 * point["streams"] / (point["rtt"] + 4), 0.99)


def past(most: int) -> Level:
    """The same, less with more streams at small RTTs."""
    return lambda point: filling(point) * (max(point["streams"], most) / most) ** (-3 / point["rtt"])


@pytest.mark.parametrize(
    ("level", "outcome"),
    [
        (past(5), Outcome.HOLDS),
        (filling, Outcome.OPEN),
        (lambda point: 0.6 * filling(point), Outcome.FAILS),
        (lambda point: past(5)({**point, "rtt": 5.0}), Outcome.FAILS),
    ],
    ids=["falls from a full path", "full and flat", "flat below the path", "falls at every RTT alike"],
)
def test_a_peak_at_small_rtt_is_seen_where_it_fills_the_path(level: Level, outcome: Outcome) -> None:
    ds = world(SCALED, level, 0.01)
    found = verdict("chep2024.small_rtt_peak", ds)
    assert found.outcome is outcome, found.reason


@pytest.mark.parametrize("seed", range(3))
def test_repetitions_widen_intervals_that_are_too_narrow(seed: int) -> None:
    """Runs differ by 20 % where their intervals say 1 %: without repetitions nothing could tell."""
    axes = {**STREAMS, "cores": [1.0, 4.0], "repetition": [1, 2, 3]}
    for name in ("chep2023.streams_peak", "chep2024.small_rtt_peak"):
        ds = world({**axes, "rtt": [2.0, 100.0]}, lambda _: 1.0, 0.2, stated=0.01, seed=seed)
        assert verdict(name, ds).outcome is not Outcome.HOLDS


def test_data_without_intervals_are_judged_by_repetitions() -> None:
    ds = world({**ORIGINS.axes, "repetition": [1, 2, 3]}, ORIGINS.true, 0.05)
    bare = ds.assign(throughput_low=ds.throughput * np.nan, throughput_high=ds.throughput * np.nan)
    errors = cells_of(bare).trusted["error"] / cells_of(bare).trusted["throughput"]
    assert errors.mean() == pytest.approx(0.05, rel=0.3)
    assert verdict("chep2023.origins_help", bare).outcome is Outcome.HOLDS


NULLS = {
    "chep2023.streams_peak": {**STREAMS, "cores": [1.0, 2.0], "rtt": [2.0, 100.0]},
    "chep2023.origins_help": {"origins": [1, 2], "streams": [1, 4], "rtt": [2.0, 100.0]},
    "chep2024.small_rtt_peak": {**STREAMS, "rtt": [2.0, 20.0, 100.0]},
    "chep2024.short_rtt_cores": {**STREAMS, "cores": [1.0, 2.0], "rtt": [2.0, 100.0], "origins": [1, 2, 4]},
}


@pytest.mark.parametrize("name", NULLS)
def test_pure_noise_hardly_ever_holds(name: str) -> None:
    """At most 5 % are to hold; of 15, more than two would be one chance in 28."""
    count = 15
    held = sum(
        verdict(name, world(NULLS[name], lambda _: 1.0, 0.1, seed=seed)).outcome is Outcome.HOLDS
        for seed in range(count)
    )
    assert held <= 2


def test_verdicts_are_written_as_they_are(tmp_path: Path) -> None:
    verdicts = judge(case_world("chep2023.origins_help", "true"))
    write(verdicts, tmp_path / "claims.csv", tmp_path / "claims.json")
    lines = (tmp_path / "claims.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert len(lines) == 1 + len(PUBLISHED)
    written = {row["claim"]: row for row in json.loads((tmp_path / "claims.json").read_text())}
    held = written["chep2023.origins_help"]
    assert held["verdict"] == "holds"
    assert held["low"] < held["value"] < held["high"]
    assert [row["ratio"] for row in held["evidence"]] == sorted(row["ratio"] for row in held["evidence"])
    shown = evidence(next(judged for judged in verdicts if judged.claim.name == "chep2023.origins_help"))
    assert {"rtt", "streams", "from", "to", "ratio"} <= set(shown.columns)


def test_from_three_to_six_gigabits_is_the_recovery_of_six() -> None:
    rows = verdict("terena2005.climb", world(RTTS, lambda _: 1.0)).rows
    [slow] = [row for row in rows if row["rtt_ms"] == 250]
    assert slow["by_formula_s"] == pytest.approx(43.6 * 60, rel=1e-3)
    assert recovery_time(6, 146.7, 9000) == pytest.approx(15 * 60, rel=1e-3)


def test_the_notebook_runs_on_its_own_and_has_no_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ds = case_world("chep2023.origins_help", "true", kind="simulation").assign_attrs(title="A sweep")
    (tmp_path / "results/demo").mkdir(parents=True)
    ds.to_netcdf(tmp_path / "results/demo/dataset.nc")
    executed(ROOT / "notebooks/claims.ipynb", tmp_path)
    assert "The data are simulated." in capsys.readouterr().out
