# SPDX-License-Identifier: Apache-2.0
"""Findings and advice on datasets whose effects the test alone knows: no sentence says what the data refute."""

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tpcsweep.analysis.claims.claim_cells import claim_cells
from tpcsweep.analysis.claims.predicates import pair_mean
from tpcsweep.data import opening
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import STATUS, flag_masks, flagged
from tpcsweep.data.repetitions import settings_of
from tpcsweep.data.variables import REMEDIES
from tpcsweep.pages.cell_columns import grid_cells
from tpcsweep.pages.content import page_content
from tpcsweep.pages.gains import Forecast, gains
from tpcsweep.pages.remedies import Remedies
from tpcsweep.sweeps.parameters import Value

from tests.support.synthetic import bare, findings_of
from tests.support.workflow import ROOT

WORDS = {"cores": "more cores", "origins": "more origins|cores or origins", "streams": "more streams"}
WORDS |= {"tcp_buffer": "larger tcp buffers", "file_size": "larger files", "bandwidth": "more bandwidth"}
WORDS |= {"loss": "less loss", "queue_limit": "longer queues", "tcp_streams": "more tcp connections"}
"""Words of the changes that raise an axis; those of `loss` lower it."""
AXES: dict[str, Sequence[Value]] = {
    "origins": [1, 2, 4],
    "cores": [0.5, 1.0, 2.0],
    "tcp_buffer": [2**20, 2**22],
}
AXES |= {"streams": [1, 2, 4, 8], "repetition": [1, 2]}
EXAMPLES = [ROOT / "examples/surface.nc", ROOT / "examples/open_questions/rivals.nc"]


def swept(
    rates: np.ndarray, limit: Any, axes: Mapping[str, Sequence[Value]] = AXES, half: float = 0.02
) -> xr.Dataset:
    whole = bare(rates, half * rates, axes).assign(
        limit=(tuple(axes), np.broadcast_to(limit, rates.shape).astype(object))
    )
    empty = xr.full_like(whole["limit"], "")
    return whole.assign(limit_second=empty, message=empty).assign_coords(
        {} if "bandwidth" in axes else {"bandwidth": 10.0}
    )


def recommended(text: str, axis: str) -> bool:
    """Whether a text names a measured gain along an axis; each of its lines has changes of one kind."""
    lines = text.lower().split("\n")
    return any(line.startswith("measured gain: ") and re.search(WORDS[axis], line) for line in lines)


def grid(axes: Mapping[str, Sequence[Value]] = AXES) -> dict[str, np.ndarray]:
    return dict(zip(axes, np.meshgrid(*map(np.array, axes.values()), indexing="ij"), strict=True))


def steps(rates: np.ndarray, axis: str, axes: Mapping[str, Sequence[Value]]) -> np.ndarray:
    """The ratio of each cell to the next known value of an axis; NaN without one."""
    at, found = list(axes).index(axis), np.full(rates.shape, np.nan)
    moved, result = np.moveaxis(rates, at, 0), np.moveaxis(found, at, 0)
    order = np.argsort(np.array(axes[axis], float))[:: -1 if axis == "loss" else 1]
    for first, later in reversed([*itertools.combinations(order, 2)]):
        ratio = moved[later] / moved[first]
        result[first] = np.where(np.isnan(ratio), result[first], ratio)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_a_recommended_change_raises_the_true_throughput_and_a_refuted_one_lowers_it(seed: int) -> None:
    generator, at = np.random.default_rng(seed), grid()
    effects = {
        name: generator.choice([-0.6, -0.2, 0.2, 0.6])
        for name in ("origins", "cores", "tcp_buffer", "streams")
    }
    true = np.prod([at[name].astype(float) ** effect for name, effect in effects.items()], axis=0)
    limit = np.where(
        at["streams"] <= 2, "window", np.where(at["cores"] < 2, "cpu_destination", "between_files")
    )
    summary = swept(true * np.exp(0.02 * generator.normal(size=true.shape)), limit)
    judged = 0
    for found in findings_of(summary):
        named = [
            name
            for name in ("TCP's window", "The destination's CPU", "Time between files")
            if found.text.startswith(name)
        ]
        for axis in effects if named else ():
            if re.search(WORDS[axis], found.text.lower()):
                judged += 1
                assert recommended(found.text, axis) == (effects[axis] > 0), found.text
    assert judged >= 4


@pytest.mark.parametrize("seed", range(4))
def test_the_advice_for_a_setting_is_true_of_its_own_pairs(seed: int) -> None:
    """The effect of an axis differs from setting to setting, as where a further core only helps many streams."""
    generator, at = np.random.default_rng(seed), grid()
    turns = {name: generator.normal(size=2) for name in ("origins", "cores", "streams")}
    true = np.exp(
        sum(
            a * np.log(at[name]) + b * np.log(at[name]) * np.log(at["streams"])
            for name, (a, b) in turns.items()
        )
    )
    summary = swept(true / true.max(), "cpu_destination", half=0.01)
    empty = xr.Dataset({"goodput": (("time",), np.zeros(0))}, {"time": np.zeros(0)})
    advice = page_content(summary.assign_attrs(ATTRIBUTES), empty, TRANSFERS)["data"]["points"]["advice"]
    texts = [advice["texts"][place] for place in advice["at"]]
    for axis in ("origins", "cores"):
        for text, ratio in zip(texts, steps(true, axis, AXES)[..., 0].ravel(), strict=True):
            if np.isfinite(ratio):
                assert recommended(text, axis) == (ratio > 1 + 0.1) or 0.9 < ratio < 1.15, text


@pytest.mark.parametrize(
    ("limited", "line"),
    [
        (["baseline", "cap"], r"tuning \(network instead of baseline\), 1\.3\d? times in these settings"),
        (["cap"], r"tuning \(network instead of cap\), 2\.[67]\d? times in these settings"),
        (["cap", "slow"], r"tuning \(network instead of (cap|slow)\), 2\.[67]\d? times in these settings"),
    ],
)
def test_the_gain_of_a_setting_of_hosts_is_that_over_one_value(limited: Sequence[str], line: str) -> None:
    """No mean over the reference and over values that are losses themselves."""
    axes = {"tuning": ["baseline", "network", "cap", "slow"], "streams": [4, 8, 16, 32], "repetition": [1, 2]}
    rates = np.broadcast_to(np.array([1.0, 1.35, 0.5, 0.5])[:, None, None], (4, 4, 2))
    limit = np.where(np.isin(axes["tuning"], limited), "none_found", "bandwidth")[:, None, None]
    texts = [found.text for found in findings_of(swept(rates, limit, axes)) if "tuning" in found.text]
    [gain] = [text for text in texts if text.startswith("No known cause")]
    assert re.search(line, gain), gain


ATTRIBUTES = {
    "sweep": "s",
    "testbed_kind": "netns",
    "testbed": "netns",
    "measured_from": "unknown",
    "measured_until": "unknown",
}
TRANSFERS = xr.Dataset(
    {name: (("transfer",), np.zeros(0)) for name in ("cell", "stream", "start", "end", "rate", "ok")}
)
TRANSFERS["message"] = ("transfer",), np.zeros(0, object)


def test_values_with_warnings_are_not_called_unmeasured() -> None:
    axes: dict[str, Sequence[Value]] = {"streams": [1, 2, 4], "rtt": [1.0, 2.0], "repetition": [1, 2]}
    summary = swept(np.ones((3, 2, 2)), "window", axes).assign_attrs(ATTRIBUTES)
    summary["flags"][{"streams": 2}] = flag_masks(summary)["not_steady"]
    empty = xr.Dataset({"goodput": (("time",), np.zeros(0))}, {"time": np.zeros(0)})
    advice = page_content(summary, empty, TRANSFERS)["data"]["points"]["advice"]
    texts = [advice["texts"][place] for place in advice["at"]]
    assert ["Without a trustworthy measurement: more streams, from 2 on" in text for text in texts] == (
        2 * [False] + 2 * [True] + 2 * [False]
    )
    assert all("Not measured: more streams, from 4 on" in text for text in texts[4:])


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_no_shipped_example_gets_a_remedy_that_its_own_pairs_refute(file: Path) -> None:
    summary = opening.load(file)
    settings = settings_of(summary)
    axes = {str(name): settings[name].values.tolist() for name in settings["throughput"].dims}
    loud = flagged(settings, *graded(FLAGS, "warning", "invalid"))
    good = (settings["status"] == STATUS.index("ok")) & ~loud
    rates = settings["throughput"].where(good).values
    checked = 0
    for found in findings_of(summary):
        for axis in WORDS.keys() & axes.keys() if re.match("[^.]* limits ", found.text) else ():
            partial = "below 90 %" in found.text
            ratios = steps(rates, axis, axes).ravel()[list(found.settings)]
            if recommended(found.text, axis) and not partial:
                checked += 1
                assert np.exp(np.nanmean(np.log(ratios))) > 1, found.text
    assert checked


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_first_finding_names_no_winner_among_equals(file: Path) -> None:
    summary = opening.load(file)
    first, settings = findings_of(summary)[0], settings_of(summary)
    low, high, rate = (
        settings[name].values.ravel() for name in ("throughput_low", "throughput_high", "throughput")
    )
    best = max(first.settings, key=lambda place: rate[place])
    equal = [place for place in first.settings if high[place] >= low[best]]
    assert len(equal) > 1 and "fill the path" in first.text


RATES = {
    "origins": [1, 2],
    "cores": [1.0, 2.0],
    "rtt": [5.0, 50.0],
    "streams": [1, 4],
    "copy_mode": ["pull", "push"],
}


def test_the_cheapest_of_equals_is_named_at_each_rtt_and_a_choice_without_a_difference_is_not() -> None:
    axes = {**RATES, "repetition": [1]}
    at = grid(axes)
    rates = np.where((at["cores"] == 2) & ((at["rtt"] == 5) | (at["streams"] == 4)), 0.9, 0.5)
    generator = np.random.default_rng(1)
    text = findings_of(swept(rates * (1 + 0.01 * generator.normal(size=rates.shape)), "window", axes))[0].text
    assert "12 settings, its own included, are equal to it" in text
    assert "2 cores, 1 origin, 1 stream at RTT 5 ms; 2 cores, 1 origin, 4 streams at RTT 50 ms." in text
    assert "copy mode" not in text
    rates[1, 1, 0, 0, 0] = 1.2  # one setting is faster than all others
    assert findings_of(swept(rates, "window", axes))[0].text.endswith(
        "with 2 origins, 2 cores, RTT 5 ms, 1 stream, copy mode pull."
    )
    wide = swept(rates, "window", axes)
    wide["throughput_high"][:] = 2.0
    wide["throughput_low"][:] = 0.1
    assert re.search("The intervals of 31 other settings include it.$", findings_of(wide)[0].text)


def test_no_setting_is_the_cheapest_of_equally_cheap_ones() -> None:
    axes = {"tuning": ["baseline", "network", "storage"], "streams": [1, 8], "repetition": [1]}
    rates = np.array([[0.1, 0.2], [0.1, 0.25], [0.1, 0.25]])[..., None]
    text = findings_of(swept(rates, "window", axes))[0].text
    assert "2 settings, its own included, are equal to it" in text
    assert "cheapest" not in text
    rates[1, 0] = 0.25
    assert (
        "The cheapest of them: 1 stream, tuning network." in findings_of(swept(rates, "window", axes))[0].text
    )


def test_the_cpu_for_each_gigabit_is_told_for_sides_where_it_is_known() -> None:
    axes = {"streams": [1, 2, 4, 8], "repetition": [1]}
    summary = swept(np.array([[1.0], [2.0], [4.0], [0.0]]), "window", axes)
    assert not [found for found in findings_of(summary) if "Each Gbit/s" in found.text]
    summary["throughput"].values[3] = 5.0
    known = summary.assign(
        source_cpu=0.5 * summary["throughput"], destination_cpu=np.nan * summary["throughput"]
    )
    [found] = [found for found in findings_of(known) if "Each Gbit/s" in found.text]
    assert found.text.startswith("Each Gbit/s takes 0.5 cores of the source's servers (0.5): median")


def test_a_path_that_is_full_at_times_is_no_full_path() -> None:
    axes = {"streams": [1, 2, 4, 8], "repetition": [1]}
    summary = swept(np.array([[2.5], [5.0], [9.6], [9.7]]), "bandwidth", axes)
    shares = {
        "bandwidth": [0.4, 0.5, 0.95, 0.97],
        "between_files": [0.35, 0.4, 0.03, 0.02],
        "window": [0.25, 0.1, 0.02, 0.01],
    }
    for limit, share in shares.items():
        summary[f"share_{limit}"] = xr.zeros_like(summary["throughput"]) + np.array(share)[:, None]
    [found] = [found for found in findings_of(summary) if "bandwidth limits" in found.text]
    assert found.text.startswith(
        "The path's bandwidth limits 4 of 4 settings. It is filled to 90 % or more in every"
    )
    assert "every setting with 4 streams or more (2 settings), for 96 % of their time" in found.text
    rest = "In 2 other settings with this limit, below 90 % of its bandwidth, the path was full for 40 to 50 % of"
    assert f"{rest} the time; the second limit is time between files (2)." in found.text
    assert "Measured gain: more streams, 1.96 times in these settings" in found.text
    summary["throughput"][:] = 5.0
    [found] = [found for found in findings_of(summary) if "bandwidth" in found.text and "full" in found.text]
    assert found.text.startswith("In 4 of 4 settings below 90 %") and "bandwidth limits" not in found.text


@pytest.mark.parametrize(("good", "enough"), [(1, False), (3, False), (5, False), (6, True), (16, True)])
def test_a_few_cells_without_warnings_do_not_speak_for_a_sweep(good: int, enough: bool) -> None:
    axes = {"streams": [1, 2, 4, 8], "rtt": [1.0, 2.0, 4.0, 8.0], "repetition": [1]}
    summary = swept(np.full((4, 4, 1), 0.5), "window", axes)
    summary["flags"].values.flat[good:] = flag_masks(summary)["not_steady"]
    texts = [found.text for found in findings_of(summary)]
    assert (
        texts[0] == f"Too few settings without warnings ({good} of 16) for findings about the sweep."
    ) != enough
    assert any(" limits " in text for text in texts) == enough
    assert good == 16 or not any("every setting with " in text or "every setting (" in text for text in texts)


@pytest.mark.parametrize(
    ("axis", "values", "limit", "rates", "text"),
    [
        (
            "loss",
            [0.0, 0.01, 0.02],
            "loss",
            [4, 2, 1],
            "Measured gain: a path with less loss, 2 times in these settings",
        ),
        (
            "queue_limit",
            [10.0, 50.0, np.inf],
            "path_queue",
            [1, 2, 4],
            "Measured gain: longer queues on the path, 2 times in these settings",
        ),
        (
            "bandwidth",
            [1.0, 2.0, 4.0],
            "bandwidth",
            [0.95, 1.9, 3.8],
            "Measured gain: a path with more bandwidth, 2 times in these settings",
        ),
        (
            "tool",
            ["curl", "gfal-copy", "native"],
            "client",
            [1, 1.2, 3],
            "Measured gain: a lighter tool (native), 2.74 times in these settings",
        ),
        (
            "congestion_control",
            ["cubic", "reno"],
            "path_queue",
            [1, 1],
            "No clear effect, measured: paced senders",
        ),
        (
            "file_size",
            [8, 4, 1],
            "between_files",
            [3, 2, 1],
            "Measured gain: larger files, 1.46 times in these settings for each doubling (",
        ),
        (
            "file_size",
            [1, 2, 8, 32],
            "between_files",
            [1, 2**0.5, 8**0.5, 32**0.5],
            "Measured gain: larger files, 1.42 times in these settings for each doubling (",
        ),
        (
            "file_size",
            [8, 2],
            "between_files",
            [3, 2],
            "larger files (8 B instead of 2 B), 1.5 times in these settings (",
        ),
        (
            "loss",
            [0.0, 0.01, 0.02],
            "loss",
            [4, 2, 1],
            "a path with less loss, 2 times in these settings for each step to the next measured value (",
        ),
        (
            "streams",
            [1],
            "window",
            [1],
            "Not measured: larger TCP buffers; more streams; more TCP connections a stream.",
        ),
        ("streams", [1, 2], "machine", [1, 2], "Not measured: a machine with nothing else to do; more CPUs."),
    ],
)
def test_the_effect_of_each_kind_of_axis_is_measured(
    axis: str, values: list[Any], limit: str, rates: list[float], text: str
) -> None:
    axes = {axis: values, "rtt": [1.0, 2.0, 4.0], "repetition": [1, 2]}
    noise = np.exp(0.005 * np.random.default_rng(3).normal(size=(len(values), 3, 2)))
    summary = swept(np.array(rates, float)[:, None, None] * noise, limit, axes)
    assert any(text in found.text for found in findings_of(summary))


def test_a_model_fills_in_where_nothing_was_measured_and_names_gains_alone() -> None:
    axes = {"streams": [1, 2], "rtt": [1.0, 2.0, 4.0], "repetition": [1]}
    summary = swept(np.ones((2, 3, 1)), "window", axes)
    summary["throughput"][1] = np.nan
    for factor, told in ((3.0, True), (0.7, False)):
        fitted = xr.DataArray(
            [[1.0] * 3, [factor] * 3], {"streams": [1, 2], "rtt": [1.0, 2.0, 4.0]}, ("streams", "rtt")
        )
        text = "\n".join(found.text for found in findings_of(summary, gains(settings_of(summary), fitted)))
        assert (
            "Predicted gain: more streams, 3 times in the median of 3 settings by the fitted model." in text
        ) == told
        assert ("by the fitted model" in text) == told


@pytest.mark.parametrize("limit", REMEDIES)
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_the_advice_for_a_setting_predicts_nothing_without_a_gain(limit: str, factor: float) -> None:
    """The remedies of some limits are no axis, as a look at the servers."""
    axes = {"streams": [1, 2], "repetition": [1]}
    summary = swept(np.ones((2, 1)), limit, axes).assign_attrs(ATTRIBUTES)
    summary["throughput"][1] = np.nan
    empty = xr.Dataset({"goodput": (("time",), np.zeros(0))}, {"time": np.zeros(0)})
    forecast = Forecast(xr.DataArray([1.0, factor], {"streams": [1, 2]}, ("streams",)), {"plans": None})
    content = page_content(summary, empty, TRANSFERS, forecast=forecast)
    advice = "\n".join(content["data"]["points"]["advice"]["texts"])
    for line in advice.splitlines():
        assert not line.startswith("Predicted gain") or re.search(r": \+[0-9]+ %", line), line


@pytest.mark.parametrize(
    ("axis", "turn", "at_values"),
    [
        ("rtt", 0.0, ["RTT 1 ms: ", "RTT 100 ms: "]),
        ("rtt", 0.5, ["RTT 1 ms: ", "RTT 100 ms: "]),
        ("file_size", 0.0, []),
        ("file_size", 0.5, ["file size 1 B: ", "file size 100 B: "]),
    ],
)
def test_an_effect_is_shown_at_each_rtt_and_along_an_axis_where_it_differs(
    axis: str, turn: float, at_values: Sequence[str]
) -> None:
    """Cores help at short RTTs or with small files alone, or everywhere as much."""
    axes: dict[str, Sequence[Value]] = {"cores": [1.0, 4.0], axis: [1, 100], "streams": [1, 2, 4, 8, 16]}
    axes["repetition"] = [1, 2]
    at, generator = grid(axes), np.random.default_rng(1)
    helps = 1 - turn * (at[axis] > 1)
    rates = at["cores"].astype(float) ** helps * np.exp(0.01 * generator.normal(size=helps.shape))
    [about] = [found for found in findings_of(swept(rates, "", axes)) if found.changes]
    cores = [change for change in about.changes or () if change.words.endswith("4 cores instead of 1")]
    assert [change.words for change in cores] == [f"{at}4 cores instead of 1" for at in ("", *at_values)]
    truths = [4 ** (1 - turn / 2), 4, 4 ** (1 - turn)]
    assert all(
        change.low < truth < change.high for change, truth in zip(cores, truths[: len(cores)], strict=True)
    )


def test_a_remedy_has_its_effect_at_each_rtt() -> None:
    axes: dict[str, Sequence[Value]] = {
        "rtt": [1.0, 100.0],
        "streams": [1, 2, 4, 8, 16],
        "repetition": [1, 2],
    }
    at = grid(axes)
    rates = at["streams"] ** np.where(at["rtt"] > 1, 1.0, 0.5)
    found = findings_of(swept(rates, "between_files", axes))
    [text] = [each.text for each in found if each.topic == "limit: time between files"]
    assert re.search(r"more streams, 1\.7\d times .*; 1\.41 at 1 ms, 2 at 100 ms\)", text)


def test_findings_and_claims_have_one_interval_for_the_same_pairs() -> None:
    """Pairs whose deployments are the same share the luck of these, in both."""
    summary = opening.load(ROOT / "examples/surface.nc")
    cells = claim_cells(settings_of(summary).expand_dims(repetition=[1], axis=-1))
    mean = pair_mean(cells.pairs(cells.trusted, "rtt").table)
    [changes] = [found.changes for found in findings_of(summary) if found.changes]
    [change] = [change for change in changes if change.words == "RTT 100 ms instead of 2 ms"]
    assert mean is not None and (change.low, change.high) == pytest.approx((mean.low, mean.high), rel=0.05)


def test_a_pair_of_settings_has_one_interval_in_a_finding_and_in_its_panel() -> None:
    axes = {"tuning": ["a", "b", "c"], "streams": [1, 8], "repetition": [1]}
    summary = swept(np.array([[1.0, 4.0], [1.5, 4.0], [2.0, 4.0]])[..., None], "bandwidth", axes)
    summary["limit"].loc[{"tuning": "b", "streams": 1}] = "window"
    cells = grid_cells(settings_of(summary))
    [finding] = [found.text for found in findings_of(summary) if found.topic == "limit: TCP's window"]
    [panel] = [text for text in Remedies(cells).of_settings() if "tuning (c instead of b)" in text]
    found = [
        re.search(r"tuning \(c instead of b\), .*\((.*?)(, 1 pair)?\)", text) for text in (finding, panel)
    ]
    [one, other] = [match[1] for match in found if match]
    assert one == other


def test_a_limit_names_the_effect_of_knobs_that_are_not_its_remedies() -> None:
    """So that a reader sees where more CPU does not help."""
    axes = {"cores": [1.0, 4.0], "streams": [1, 2, 4, 8], "repetition": [1]}
    rates = np.array([[1.0, 2.0, 4.0, 8.0]] * 2)[..., None]
    [text] = [
        found.text
        for found in findings_of(swept(rates, "between_files", axes))
        if "limits every" in found.text
    ]
    assert (
        "No clear effect, measured: more cores (4 instead of 1, on both sides), 1 times in these settings"
        in text
    )


def test_the_limit_of_another_repetition_is_the_second_one_of_a_setting() -> None:
    """Both then have remedies in its panel, as if their shares were within a tenth of each other."""
    axes = {"streams": [1, 2, 4, 8], "repetition": [1, 2, 3]}
    summary = swept(np.full((4, 3), 0.5), "window", axes)
    summary["limit"][0, 2] = "cpu_destination"
    summary["limit_second"][1, 0] = "loss"
    assert settings_of(summary)["limit"].values.tolist() == ["window"] * 4
    assert settings_of(summary)["limit_second"].values.tolist() == ["cpu_destination", "loss", "", ""]
