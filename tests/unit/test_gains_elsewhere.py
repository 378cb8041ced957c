# SPDX-License-Identifier: Apache-2.0
"""What the page says beside the remedies of limits: gains along other axes, and limits that took little time."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import xarray as xr
from tpcsweep.data.repetitions import settings_of
from tpcsweep.data.variables import SHARES
from tpcsweep.pages.answer import answer
from tpcsweep.pages.cell_columns import grid_cells
from tpcsweep.pages.remedies import Remedies
from tpcsweep.sweeps.parameters import Value

from tests.support.synthetic import bare, findings_of

AXES: Mapping[str, Sequence[Value]] = {
    "origins": [1, 2, 4],
    "rtt": [5.0, 50.0],
    "streams": [1, 2],
    "repetition": [1, 2],
}


def limited(limit: str, power: float, shares: Mapping[str, float] | None = None) -> xr.Dataset:
    """A sweep with one limit, whose throughput is a power of the number of origins, and lower at the longer RTT."""
    origins, rtts, _, _ = np.meshgrid(*map(np.array, AXES.values()), indexing="ij")
    rates = 0.2 * origins.astype(float) ** power * np.where(rtts > 5, 0.5, 1.0)
    whole = bare(rates, 0.01 * rates, AXES)
    texts = {name: xr.full_like(whole["throughput"], "", object) for name in ("limit_second", "message")}
    texts["limit"] = xr.full_like(whole["throughput"], limit, object)
    times = {SHARES[name]: 0 * whole["throughput"] + share for name, share in (shares or {}).items()}
    return whole.assign(texts | times).assign_coords(bandwidth=10.0, endpoint="direct")


def advice(summary: xr.Dataset, at: int) -> list[str]:
    return [*Remedies(grid_cells(settings_of(summary))).of_settings()][at].split("\n")


def test_the_best_value_of_an_axis_that_no_remedy_names_is_offered() -> None:
    """Fewer origins are no remedy of time between files; one in place of four gives twice as much here."""
    summary = limited("between_files", -0.5)
    lines = advice(summary, -1)
    assert (
        sum(
            line.startswith("Measured gain: 1 origin instead of 4, 2 times from this setting (")
            for line in lines
        )
        == 1
    )
    assert not any("RTT" in line for line in lines), "nobody chooses an RTT"
    assert not any("origin" in line for line in advice(summary, 0)), "it has the best value"


@pytest.mark.parametrize("power", [0.0, 0.01])
def test_no_gain_is_offered_where_values_do_not_differ(power: float) -> None:
    assert not any("Measured gain" in line for line in advice(limited("between_files", power), 0))


def test_limits_that_took_little_time_are_named_with_what_would_help_little() -> None:
    summary = limited("between_files", 0.0, {"between_files": 0.8, "window": 0.15, "loss": 0.05, "disk": 0.0})
    [text] = [found.text for found in findings_of(summary) if "less than a quarter" in found.text]
    assert "limited by TCP's window (15 %), random loss (5 %)." in text
    assert text.endswith("larger TCP buffers; more TCP connections a stream; a path with less loss.")
    assert "more streams" not in text, "time between files has this remedy, and it was varied"


def test_nothing_is_known_of_limits_where_a_cause_is_hidden() -> None:
    summary = limited("not_visible", 0.0, {"not_visible": 0.5, "between_files": 0.4, "window": 0.1})
    assert not any("less than a quarter" in found.text for found in findings_of(summary))


def test_changes_have_a_factor_for_each_doubling_at_each_rtt() -> None:
    [changes] = [found.changes for found in findings_of(limited("between_files", -0.5)) if found.changes]
    known = {change.words: (change.ratio, change.doublings) for change in changes}
    assert known["4 origins instead of 1"] == pytest.approx((0.5, 2.0))
    assert known["RTT 50 ms: 4 origins instead of 1"] == pytest.approx((0.5, 2.0))


def test_the_highest_throughput_is_named_beside_the_settings_that_fill_the_path() -> None:
    summary = limited("bandwidth", 0.0).assign_coords(bandwidth=0.2)
    text = findings_of(summary)[0].text
    assert text.startswith("The highest throughput is 0.2 Gbit/s (")
    assert "6 of 12 settings fill the path: they reach 95 % of its bandwidth or more." in text


def answer_of(summary: xr.Dataset) -> str:
    settings = settings_of(summary)
    cells = grid_cells(settings)
    return answer(settings, cells, Remedies(cells))


def test_the_answer_names_the_limits_of_the_other_settings() -> None:
    summary = limited("between_files", -0.5)
    assert "others" not in answer_of(summary)
    summary["limit"][0], summary["limit"][1, 0, 0] = "window", "client"
    assert answer_of(summary).startswith("Time between files limits 7 of 12 settings.")
    assert answer_of(summary).endswith("Limits of the others: TCP's window (4), the client's CPU (1).")


def test_the_answer_tells_what_each_doubling_of_streams_gives_whatever_limits() -> None:
    axes: Mapping[str, Sequence[Value]] = {"rtt": [1.0, 50.0], "streams": [1, 4, 16], "repetition": [1]}
    rates = np.array([[1.0, 1.0, 1.0], [0.1, 0.4, 1.6]])[..., None]
    summary = bare(rates, 0.01 * rates, axes).assign_coords(bandwidth=10.0)
    summary["limit"] = xr.full_like(summary["throughput"], "between_files", object)
    told = "Over all settings, each doubling of streams gives 1 times at RTT 1 ms, 2 times at RTT 50 ms."
    assert told in answer_of(summary)
    assert "each doubling of streams gives 2 times." in answer_of(summary.isel(rtt=[1]))
    assert "doubling of streams" not in answer_of(summary.isel(streams=[1]))
