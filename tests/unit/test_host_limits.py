# SPDX-License-Identifier: Apache-2.0
"""Limits that the records of hosts show, in place of those without a known cause."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from seaborn.utils import relative_luminance  # type: ignore[import-untyped]
from tpcsweep.data.repetitions import settings_of
from tpcsweep.data.variables import LIMIT_NAMES, LIMITS, NOT_VISIBLE
from tpcsweep.data.variables import REMEDIES as LIMIT_REMEDIES
from tpcsweep.pages.cell_columns import grid_cells
from tpcsweep.pages.full_rates import RateOfHost, lines_of_settings
from tpcsweep.pages.host_limits import CONNECTION, MEANINGS, NAMES, host_records
from tpcsweep.pages.limit_colours import (
    LIMIT_COLOURS,
    LIMIT_LETTERS,
    PAGE_COLOURS,
    PAGE_COLOURS_ON_DARK,
    PAGE_LETTERS,
)

from tests.support.synthetic import bare, findings_of

RTT, IN_FLIGHT = 20.0, 250_000.0  # of a busy connection: 0.1 Gbit/s


@pytest.fixture
def hidden() -> xr.Dataset:
    """One and eight streams, whose connections carry 0.1 Gbit/s each and whose limit is hidden from outside."""
    summary = bare(np.array([[0.1], [0.8]]), 0.004, {"streams": [1, 8], "repetition": [1]})
    figures = {"host_in_flight": IN_FLIGHT, "host_rtt": RTT, "host_retransmitted": 0.0}
    figures |= {"host_rwnd_limited": 0.05, "host_sndbuf_limited": 0.0}
    for name, value in figures.items():
        summary[name] = xr.full_like(summary["throughput"], value)
    summary["limit"] = xr.full_like(summary["throughput"], NOT_VISIBLE, object)
    return summary


def limits(summary: xr.Dataset) -> list[str]:
    settings = settings_of(summary)
    cells = grid_cells(settings)
    return list(host_records(summary, settings, cells).explained(cells).limit)


def test_each_connection_limits_where_more_of_them_carry_more_over_the_same_way(hidden: xr.Dataset) -> None:
    assert limits(hidden) == [CONNECTION, NOT_VISIBLE]
    [text] = [found.text for found in findings_of(hidden) if "pace of each connection limits" in found.text]
    assert "More streams reach 8 times as much over the same hosts and path, so these are not full" in text
    assert (
        "Measured gain: more streams (8 instead of 1), 8 times" in text and "rate limit: shaper" not in text
    )


@pytest.mark.parametrize(
    ("figure", "value"), [("host_rwnd_limited", 0.5), ("host_retransmitted", 0.01), ("host_in_flight", 1e6)]
)
def test_windows_losses_or_pauses_leave_the_cause_open(hidden: xr.Dataset, figure: str, value: float) -> None:
    hidden[figure][:] = value
    assert limits(hidden) == [NOT_VISIBLE] * 2


def test_a_rate_may_be_full_only_while_data_is_under_way() -> None:
    """Then less time without data raises the throughput, too."""
    rate = RateOfHost("a rate limit on dtn1's ens1", np.array([0.8, 0.96, 0.5]), np.array([0.9, 1.0, 1.0]))
    assert (rate.full.tolist(), rate.at_times.tolist()) == ([True, True, False], [True, False, False])
    assert rate.in_settings(np.ones(3, bool)) == (
        "A rate limit on dtn1's ens1 is full in 1 setting: throughput is 96 % of it. "
        "While data is under way, a rate limit on dtn1's ens1 is full in 1 setting: throughput is 80 % of it."
    )
    first, second, third = lines_of_settings([rate], np.array([NOT_VISIBLE] * 3))
    assert "is full while data is under way: throughput is 80 % of it." in first and "less time" in first
    assert second.endswith("Only a higher rate there raises it.") and "which is not full" in third


def test_each_limit_has_letters_a_colour_a_remedy_and_a_name_for_people() -> None:
    tables: tuple[Any, ...] = LIMIT_LETTERS, LIMIT_COLOURS, LIMIT_REMEDIES, LIMIT_NAMES
    assert not [table for table in tables if not set(LIMITS) <= set(table)]
    of_pages: tuple[Any, ...] = PAGE_LETTERS, PAGE_COLOURS, PAGE_COLOURS_ON_DARK, MEANINGS, NAMES
    assert [set(table) for table in of_pages] == [{*LIMITS, "host_rate", "connection"}] * len(of_pages)
    assert all(len({*table.values()}) == len(table) for table in (PAGE_LETTERS, PAGE_COLOURS, NAMES))
    assert not any("_" in name for name in NAMES.values())
    unknown = [PAGE_COLOURS_ON_DARK[limit] for limit in ("none_found", "not_visible")]
    assert max(map(relative_luminance, unknown)) < min(
        relative_luminance(colour) for colour in PAGE_COLOURS_ON_DARK.values() if colour not in unknown
    )
