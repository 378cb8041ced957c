# SPDX-License-Identifier: Apache-2.0
"""Findings about the cells to trust less: outliers among repetitions, wide intervals, and missing cells."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import xarray as xr
from tpcsweep.data.labels import STATUS, flag_masks
from tpcsweep.sweeps.parameters import Value

from tests.support.synthetic import bare, doubts_of

AXES: Mapping[str, Sequence[Value]] = {
    "streams": [1, 2, 4, 8],
    "rtt": [1.0, 50.0],
    "repetition": [1, 2, 3, 4, 5],
}
SHAPE = tuple(map(len, AXES.values()))


def repeated(scatter: float, half: float = 0.02, seed: int = 1) -> xr.Dataset:
    """A sweep whose repetitions scatter, with intervals of a share of the throughput."""
    rates = 0.5 * np.exp(scatter * np.random.default_rng(seed).normal(size=SHAPE))
    whole = bare(rates, half * rates, AXES)
    texts = {
        name: xr.full_like(whole["throughput"], "", object) for name in ("limit", "limit_second", "message")
    }
    return whole.assign(texts).assign_coords(bandwidth=10.0)


def about(summary: xr.Dataset, start: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(found.text, found.settings) for found in doubts_of(summary) if found.text.startswith(start)]


def test_a_repetition_far_from_the_others_is_named_with_what_was_unlike() -> None:
    summary = repeated(0.01)
    summary["throughput"][2, 1, 3] = 0.3
    busy = xr.full_like(summary["throughput"], 0.4)
    busy[2, 1, 3] = 0.97
    [(text, settings)] = about(summary.assign(host_cpu=busy, machine_others=0 * busy), "Unlike the")
    assert settings == (5,)
    assert "streams 4, RTT 50 ms, repetition 4: 0.3 Gbit/s, the median is 0.498" in text
    assert text.endswith("; a host's CPU was busy for 97 % of the time, 40 % in the median of the others")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scatter", [0.001, 0.03, 0.3])
def test_repetitions_that_scatter_alike_are_no_outliers(scatter: float, seed: int) -> None:
    """40 deviations of more than 3.5 standard deviations are rare; the median of five hides few."""
    assert sum(text.count("\n") for text, _ in about(repeated(scatter, seed=seed), "Unlike the")) <= 1


def wide(summary: xr.Dataset) -> list[tuple[str, tuple[int, ...]]]:
    return [(found.text, found.settings) for found in doubts_of(summary) if "wider than" in found.text]


def test_settings_without_an_interval_that_tells_much_are_counted() -> None:
    summary = repeated(0.01)
    assert not wide(summary)
    summary["throughput_low"][0, 0], summary["throughput_high"][0, 0] = -0.2, 1.2
    [(text, settings)] = wide(summary)
    assert settings == (0,)
    assert text.startswith(
        "1 setting that findings use has an interval wider than ±25 %, at worst 0.501 Gbit/s ("
    )


def test_cells_that_a_stopped_run_left_out_are_told_from_failed_ones() -> None:
    summary = repeated(0.01)
    summary["status"][3, :, 4] = STATUS.index("not_measured")
    [(text, settings)] = about(summary, "40 cells")
    assert text == (
        "40 cells: 2 were not measured. Nothing is recorded of cells that were not measured: the run was stopped "
        "before them."
    )
    assert settings == (6, 7)
    summary["status"][3, :, 4] = STATUS.index("failed")
    summary["message"][3, :, 4] = "no route to host"
    [(text, _)] = about(summary, "40 cells")
    assert text == "40 cells: 2 failed."


def test_cells_of_a_loaded_machine_are_compared_with_the_other_repetitions() -> None:
    summary = repeated(0.0).assign_attrs(testbed_kind="endpoints")
    slowed, busy = xr.zeros_like(summary["throughput"]), xr.zeros_like(summary["throughput"])
    slowed[0, 0, 0], busy[1, 1, 2] = 0.4, 1.0
    summary["throughput"][0, 0, 0] = 0.45
    [(text, settings)] = about(summary.assign(machine_slowed=slowed, machine_cpu=busy), "2 cells on a slow")
    assert (
        text
        == "2 cells on a slow or full machine: throughput is 0.9 to 1 times the median of the other repetitions."
    )
    assert settings == (0, 3)
    assert not about(summary, "2 cells on a slow")
    single = summary.isel(repetition=[0]).assign(machine_slowed=slowed.isel(repetition=[0]))
    [(text, _)] = about(single, "1 cell on a slow")
    assert text == "1 cell on a slow or full machine.", "nothing to compare it with"


def test_settings_to_trust_less_are_counted_once_before_the_reasons() -> None:
    """A load that did not change the throughput speaks against no setting."""
    summary = repeated(0.0).assign_attrs(testbed_kind="endpoints")
    summary["flags"][0, 0, 0] = flag_masks(summary)["not_steady"]
    for name, end in (("throughput_low", 0.2), ("throughput_high", 1.8)):
        summary[name][:2, 0] = end * summary["throughput"][:2, 0]
    loaded = xr.zeros_like(summary["throughput"])
    loaded[3, 1, 0] = 1.0
    [(text, settings)] = about(summary.assign(machine_cpu=loaded), "To trust less")
    assert text.startswith(
        "To trust less: 2 of 8 measured settings, by warnings (1), wide intervals (2), some by several of these."
    )
    assert settings == (0, 2)
    summary["throughput"][3, 1, 0] *= 0.8
    [(text, settings)] = about(summary.assign(machine_cpu=loaded), "To trust less")
    assert "load of the machine (1)" in text and settings == (0, 2, 7)
    alike = " No repetition's throughput is far from that of the others of its setting."
    assert alike not in text
    [(text, _)] = about(repeated(0.0), "No measured setting has a warning or a wide interval.")
    assert text.endswith(alike)
    assert not about(
        repeated(0.0).isel(repetition=[0]), f"No measured setting has a warning or a wide interval.{alike}"
    )


def test_few_cells_with_a_warning_are_listed_themselves() -> None:
    """A setting has many repetitions, and its others may be good."""
    summary = repeated(0.0)
    summary["flags"][2, 1, 3] = flag_masks(summary)["not_steady"]
    [found] = [each for each in doubts_of(summary) if each.topic == "warnings"]
    assert (found.settings, found.cells) == ((5,), (28,))


def test_missing_cells_tell_what_stopped_the_run() -> None:
    summary = repeated(0.01).assign_attrs(stopped="by a signal, such as that of Ctrl-C")
    summary["status"][3, :, 4] = STATUS.index("not_measured")
    [(text, _)] = about(summary, "40 cells")
    assert text.endswith("the run was stopped before them by a signal, such as that of Ctrl-C.")
