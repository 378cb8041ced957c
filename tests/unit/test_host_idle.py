# SPDX-License-Identifier: Apache-2.0
"""Time in which streams of endpoints had no data under way, by the kernels of sending hosts."""

import numpy as np
import pytest
import xarray as xr
from tpcsweep.data.variables import NOT_VISIBLE
from tpcsweep.pages.host_idle import host_idle


def settings(busy: list[float], connections: list[float]) -> xr.Dataset:
    """Settings of one and of eight streams; `connections` is their mean number, and they are busy for a share of it."""
    figures = {"throughput": [0.1, 0.2], "host_busy": busy, "host_connections": connections}
    return xr.Dataset({name: ("streams", values) for name, values in figures.items()}, {"streams": [1, 8]})


def test_streams_are_idle_while_their_connections_are_closed_or_have_nothing_to_send() -> None:
    idle = host_idle(settings([0.5, 1.0], [0.8, 6.0]), np.array([NOT_VISIBLE] * 2))
    assert idle.shares.tolist() == pytest.approx([0.6, np.nan], nan_ok=True), "a quarter is usual"
    first, second = idle.lines()
    assert (
        first.startswith("By the record of hosts no data was under way for 60 % of the streams' time")
        and not second
    )
    every = np.ones(2, bool)
    assert idle.in_settings(every).startswith(
        "In 1 setting, by the record of hosts no data was under way for 60 %"
    )
    assert not idle.in_settings(~every)


def test_connections_of_others_make_no_negative_time() -> None:
    idle = host_idle(settings([0.2, 0.2], [3.0, 40.0]), np.array([NOT_VISIBLE] * 2))
    assert idle.shares.tolist() == pytest.approx([0.8, 0.8])


def test_a_known_limit_or_no_record_says_nothing() -> None:
    known = host_idle(settings([0.1, 0.1], [1.0, 8.0]), np.array(["window", "bandwidth"]))
    bare = host_idle(settings([0.1, 0.1], [1.0, 8.0])[["throughput"]], np.array([NOT_VISIBLE] * 2))
    assert known.lines() == bare.lines() == ["", ""]
