# SPDX-License-Identifier: Apache-2.0
"""Time between files is no limit where other streams fill it: n streams would have n times the throughput of one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tpcsweep.data.repetitions import settings_of
from tpcsweep.data.variables import SHARES
from tpcsweep.pages.cell_columns import grid_cells, limits_of_cells
from tpcsweep.pages.remedies import Remedies

from tests.support.synthetic import bare, findings_of


def paused(rates: Sequence[float], streams: Sequence[int] = (1, 2, 8, 16), **about: Any) -> xr.Dataset:
    """Cells whose streams wait between files for 0.7 of the time, at two settings of the hosts."""
    axes = {"tuning": ["stock", "fq"], "streams": [*streams], "repetition": [1, 2]}
    shape = (2, len(streams), 2)
    values = np.array([1.0, 1.02])[:, None, None] * np.array(rates)[:, None] * np.ones(shape)
    summary = bare(values, about.pop("half", 0.02) * values, axes)
    shares = {name: np.zeros(shape) for name in SHARES.values()}
    shares |= {"share_between_files": np.full(shape, 0.7), "share_window": np.full(shape, 0.3)}
    words = {"limit": np.full(shape, about.pop("limit", "between_files"), object)}
    words |= {name: np.full(shape, "", object) for name in ("limit_second", "message")}
    content = {name: (tuple(axes), each) for name, each in {**shares, **words}.items()}
    return summary.assign(content).assign_coords(bandwidth=10.0).assign_attrs(about)


def limits(summary: xr.Dataset) -> list[str]:
    return [str(limit) for limit in settings_of(summary)["limit"].values[0]]


@pytest.mark.parametrize(
    ("rates", "shared"),
    [
        ([0.03, 0.06, 0.24, 0.48], [False] * 4),  # streams do not know of each other
        ([0.11, 0.21, 0.25, 0.25], [False, False, True, True]),  # a shaper of 0.26 Gbit/s
        ([0.24, 0.25, 0.25, 0.25], [False, False, True, True]),
        ([0.03, 0.05, 0.13, 0.2], [False, False, False, True]),
    ],
)
def test_streams_that_share_a_rate_fill_the_pauses_of_each_other(
    rates: Sequence[float], shared: Sequence[bool]
) -> None:
    expected = ["not_visible" if each else "between_files" for each in shared]
    summary = paused(rates)
    assert limits(summary) == expected
    assert limits(paused(rates, limit="window")) == ["window"] * 4
    assert limits(paused(rates, testbed_kind="simulation")) == ["between_files"] * 4
    seen = summary.assign(source_cpu=0.1 * summary["throughput"])
    assert limits(seen) == [name.replace("not_visible", "none_found") for name in expected]
    backwards = summary.isel(streams=slice(None, None, -1))
    assert limits(backwards) == expected[::-1]


def test_the_share_of_filled_pauses_has_no_known_cause() -> None:
    settings = settings_of(paused([0.11, 0.21, 0.25, 0.25])).isel(tuning=0)
    assert settings["share_between_files"].values == pytest.approx([0.7, 0.7, 0, 0])
    assert settings["share_not_visible"].values == pytest.approx([0, 0, 0.7, 0.7])
    assert sum(settings[name] for name in SHARES.values()).values == pytest.approx(1)


def test_wide_intervals_and_a_single_number_of_streams_decide_nothing() -> None:
    assert limits(paused([0.11, 0.21, 0.25, 0.25], half=1.0))[2] == "between_files"
    assert limits(paused([0.25], streams=[8])) == ["between_files"]


@pytest.mark.parametrize("known", [True, False])
def test_the_page_says_that_nothing_shows_whether_pauses_are_filled(known: bool) -> None:
    summary = paused([0.11, 0.21], streams=[1, 2] if known else [2, 4])
    if not known:
        summary = summary.isel(streams=slice(None, 1))
    about = "Other streams may fill these pauses: no setting with fewer streams was measured to show it"
    [text] = [
        found.text for found in findings_of(summary) if found.text.startswith("Time between files limits")
    ]
    assert (f"{about}, in 2 settings." in text) == (not known)
    advice = [*Remedies(grid_cells(settings_of(summary))).of_settings()]
    assert all(each.startswith(f"{about}.") == (not known) for each in advice)
    fixed = summary.isel(streams=0, drop=True).assign_coords(streams=2)
    assert settings_of(fixed)["undecided_pauses"].all()
    assert not settings_of(fixed.assign_coords(streams=1))["undecided_pauses"].any()


def test_the_page_advises_no_larger_files_where_other_streams_fill_the_pauses() -> None:
    summary = paused([0.11, 0.21, 0.25, 0.25])
    texts = [found.text for found in findings_of(summary)]
    [about] = [text for text in texts if "hidden from outside limits" in text]
    assert "4 settings of these" in about.replace("In 4 settings of these", "4 settings of these")
    assert "other streams fill the pauses" in about and "shaper, pacing, disk, or another device" in about
    assert "larger files" not in about
    settings = settings_of(summary)
    advice = [*Remedies(grid_cells(settings)).of_settings()]
    assert ["larger files" in text for text in advice] == [True, True, False, False] * 2
    cells = limits_of_cells(summary, settings).reshape(summary["limit"].shape)
    assert (cells == settings["limit"].values[..., None]).all()
