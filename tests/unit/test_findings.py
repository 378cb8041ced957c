# SPDX-License-Identifier: Apache-2.0
"""Findings and advice on datasets whose effects the test alone knows: no sentence says what the data refute."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tpcsweep.data import opening
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.labels import STATUS, flag_masks, flagged
from tpcsweep.pages.content import page_content
from tpcsweep.pages.findings import findings
from tpcsweep.pages.gains import gains
from tpcsweep.sweeps.parameters import Value

from tests.support.synthetic import bare
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


def clauses(text: str) -> Iterator[str]:
    """The clauses of a text after the description of cells, as they recommend or refute a change."""
    yield from re.split(r"[;\n]|\. ", text.lower())


def recommended(text: str, axis: str) -> bool:
    """Whether a text recommends a change along an axis, and does not say that its effect is unknown."""
    unsure = ("not ", "no clear effect")
    said = (clause.strip() for clause in clauses(text) if re.search(WORDS[axis], clause))
    return any(not clause.startswith(unsure) and "not measured" not in clause for clause in said)


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
    for found in findings(summary):
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
def test_the_advice_for_a_cell_is_true_of_its_own_pairs(seed: int) -> None:
    """The effect of an axis differs from cell to cell, as where a further core only helps many streams."""
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
    advice = page_content(summary.assign_attrs(ATTRIBUTES), empty, TRANSFERS)["data"]["cells"]["advice"]
    texts = [advice["texts"][place] for place in advice["at"]]
    for axis in ("origins", "cores"):
        for text, ratio in zip(texts, steps(true, axis, AXES).ravel(), strict=True):
            if np.isfinite(ratio):
                assert recommended(text, axis) == (ratio > 1 + 0.1) or 0.9 < ratio < 1.15, text


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


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_no_shipped_example_gets_a_remedy_that_its_own_pairs_refute(file: Path) -> None:
    summary = opening.load(file)
    axes = {str(name): summary[name].values.tolist() for name in summary["throughput"].dims}
    loud = flagged(summary, *graded(FLAGS, "warning", "invalid"))
    good = (summary["status"] == STATUS.index("ok")) & ~loud
    rates = summary["throughput"].where(good).values
    checked = 0
    for found in findings(summary):
        for axis in WORDS.keys() & axes.keys() if re.match("[^.]* limits ", found.text) else ():
            for line in found.text.split("\n")[-1:]:
                partial = "below 90 %" in found.text
                ratios = steps(rates, axis, axes).ravel()[list(found.cells)]
                if recommended(line, axis) and not partial:
                    checked += 1
                    assert np.exp(np.nanmean(np.log(ratios))) > 1, found.text
    assert checked


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_first_finding_names_no_winner_among_equals(file: Path) -> None:
    summary = opening.load(file)
    first = findings(summary)[0]
    low, high, rate = (
        summary[name].values.ravel() for name in ("throughput_low", "throughput_high", "throughput")
    )
    best = max(first.cells, key=lambda cell: rate[cell])
    equal = [cell for cell in first.cells if high[cell] >= low[best]]
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
    text = findings(swept(rates * (1 + 0.01 * generator.normal(size=rates.shape)), "window", axes))[0].text
    assert "12 cells are equal to it" in text
    assert "2 cores, 1 origin, 1 stream at RTT 5 ms; 2 cores, 1 origin, 4 streams at RTT 50 ms." in text
    assert "copy mode" not in text
    rates[1, 1, 0, 0, 0] = 1.2  # one setting is faster than all others
    assert findings(swept(rates, "window", axes))[0].text.endswith(
        "with 2 origins, 2 cores, RTT 5 ms, 1 stream, copy mode pull."
    )
    wide = swept(rates, "window", axes)
    wide["throughput_high"][:] = 2.0
    wide["throughput_low"][:] = 0.1
    assert re.search("The intervals of 31 other cells include it.$", findings(wide)[0].text)


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
    [found] = [found for found in findings(summary) if "bandwidth limits" in found.text]
    assert "limits every cell with 4 streams or more (2 cells), for 96 % of their time" in found.text
    rest = "In 2 other cells below 90 % of its bandwidth, the path was full for 40 to 50 % of the time"
    assert f"{rest}; the second limit is time between files (2)." in found.text
    assert "More streams: 1.96 times here" in found.text
    summary["throughput"][:] = 5.0
    [found] = [found for found in findings(summary) if "bandwidth" in found.text and "full" in found.text]
    assert found.text.startswith("In 4 of 4 cells below 90 %") and "bandwidth limits" not in found.text


@pytest.mark.parametrize(("good", "enough"), [(1, False), (3, False), (5, False), (6, True), (16, True)])
def test_a_few_cells_without_warnings_do_not_speak_for_a_sweep(good: int, enough: bool) -> None:
    axes = {"streams": [1, 2, 4, 8], "rtt": [1.0, 2.0, 4.0, 8.0], "repetition": [1]}
    summary = swept(np.full((4, 4, 1), 0.5), "window", axes)
    summary["flags"].values.flat[good:] = flag_masks(summary)["not_steady"]
    texts = [found.text for found in findings(summary)]
    assert (
        texts[0] == f"Too few cells without warnings ({good} of 16) for findings about the sweep."
    ) != enough
    assert any(" limits " in text for text in texts) == enough
    assert good == 16 or not any("every cell with " in text or "every cell (" in text for text in texts)


@pytest.mark.parametrize(
    ("axis", "values", "limit", "rates", "text"),
    [
        ("loss", [0.0, 0.01, 0.02], "loss", [4, 2, 1], "A path with less loss: 2 times here"),
        (
            "queue_limit",
            [10.0, 50.0, np.inf],
            "path_queue",
            [1, 2, 4],
            "Longer queues on the path: 2 times here",
        ),
        (
            "bandwidth",
            [1.0, 2.0, 4.0],
            "bandwidth",
            [0.95, 1.9, 3.8],
            "A path with more bandwidth: 2 times here",
        ),
        (
            "tool",
            ["curl", "gfal-copy", "native"],
            "client",
            [1, 1.2, 3],
            "A lighter tool (native): 2.74 times here",
        ),
        ("congestion_control", ["cubic", "reno"], "path_queue", [1, 1], "no clear effect of paced senders"),
        ("file_size", [8, 4, 1], "between_files", [3, 2, 1], "Larger files: 1.73 times here"),
        ("streams", [1], "window", [1], "more streams, or more TCP connections a stream: not measured here"),
        ("streams", [1, 2], "machine", [1, 2], "A machine with nothing else to do, or more CPUs."),
    ],
)
def test_the_effect_of_each_kind_of_axis_is_measured(
    axis: str, values: list[Any], limit: str, rates: list[float], text: str
) -> None:
    axes = {axis: values, "rtt": [1.0, 2.0, 4.0], "repetition": [1, 2]}
    noise = np.exp(0.005 * np.random.default_rng(3).normal(size=(len(values), 3, 2)))
    summary = swept(np.array(rates, float)[:, None, None] * noise, limit, axes)
    assert any(text in found.text for found in findings(summary))


def test_a_model_fills_in_where_nothing_was_measured_and_names_gains_alone() -> None:
    axes = {"streams": [1, 2], "rtt": [1.0, 2.0, 4.0], "repetition": [1]}
    summary = swept(np.ones((2, 3, 1)), "window", axes)
    summary["throughput"][1] = np.nan
    for factor, told in ((3.0, True), (0.7, False)):
        fitted = xr.DataArray(
            [[1.0] * 3, [factor] * 3], {"streams": [1, 2], "rtt": [1.0, 2.0, 4.0]}, ("streams", "rtt")
        )
        text = "\n".join(found.text for found in findings(summary, gains(summary, fitted)))
        assert ("More streams: not measured here, 3 times in the median by the fitted model" in text) == told
        assert ("by the fitted model" in text) == told
