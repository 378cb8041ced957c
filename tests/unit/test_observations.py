# SPDX-License-Identifier: Apache-2.0
"""The table of what cells say of throughput: every cell once, its error, and why it cannot be used."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tpcsweep.claims.cells import cells_of
from tpcsweep.comparing import compare
from tpcsweep.dataset import STATUS
from tpcsweep.dataset.labels import MASKS
from tpcsweep.dataset.tables import observations
from tpcsweep.flags import FLAGS
from tpcsweep.models import Observations, observe
from tpcsweep.models.observations import SAMPLE

from tests.support import synthetic

AXES = ("rtt", "streams", "repetition")


def made(shape: tuple[int, int, int] = (2, 3, 2), half: float = 0.2) -> xr.Dataset:
    """A dataset whose cells are told apart by their throughput: 1, 2, 3 … Gbit/s ± half."""
    throughput = np.arange(1.0, np.prod(shape) + 1).reshape(shape)
    axes = {name: np.arange(1, size + 1) for name, size in zip(AXES, shape, strict=True)}
    return synthetic.bare(throughput, half, axes).assign_coords(record=[0]).assign_attrs(testbed_kind="netns")


def with_freedom(ds: xr.Dataset, freedom: int) -> xr.Dataset:
    return ds.assign(throughput_freedom=xr.full_like(ds.throughput, freedom))


def test_every_cell_is_a_row_in_the_order_of_the_dimensions() -> None:
    rows = observations(made())
    assert rows["throughput"].tolist() == list(range(1, 13))
    assert rows.loc[7, ["rtt", "streams", "repetition", "tool"]].tolist() == [2, 1, 2, "curl"]
    assert (rows["reason"] == "").all() and not rows[list(FLAGS)].any(axis=None)
    assert not {"record", "status", "flags", "throughput_low", "throughput_high"} & set(rows)


@given(st.floats(0.5, 0.999), st.floats(1e-6, 10), st.integers(1, 30))
@settings(max_examples=8)
def test_an_error_gives_back_its_interval(confidence: float, half: float, freedom: int) -> None:
    ds = made(half=half).assign_attrs(measurement_confidence=confidence)
    unsaid = observations(ds)
    said = observations(with_freedom(ds, freedom))
    for rows, expected in ((unsaid, np.inf), (said, freedom)):  # earlier cells do not say their freedom
        assert (rows["freedom"] == expected).all()
        ends = stats.t.interval(confidence, rows["freedom"], rows["throughput"], rows["error"])
        assert np.allclose(ends, [rows["throughput"] - half, rows["throughput"] + half])


def test_claims_count_few_degrees_of_freedom_as_more_error() -> None:
    ds = made((2, 3, 1))
    few, many = (cells_of(with_freedom(ds, freedom)).trusted["error"] for freedom in (4, 16))
    assert (few > many).all()
    half = 0.2 / stats.t.ppf(0.975, 4)
    assert np.allclose(few * stats.norm.ppf(0.9995), half * stats.t.ppf(0.9995, 4))


def test_intervals_whose_confidence_is_not_said_are_of_95_percent_to_everybody() -> None:
    said = made((2, 3, 1))
    unsaid = said.assign_attrs()
    del unsaid.attrs["measurement_confidence"]
    tables = ((observe(ds).frame, cells_of(ds).trusted, compare(ds, ds).cells) for ds in (unsaid, said))
    for found, expected in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(found, expected)


def test_without_an_interval_the_error_is_not_known() -> None:
    bare = observations(made()[["throughput"]])
    assert bare["error"].isna().all() and (bare["reason"] == "").all()
    half = made()
    half["throughput_low"][0, 0, 0] = np.nan
    assert observations(half)["error"].isna().tolist() == [True] + [False] * 11


def test_reasons_are_the_first_that_holds() -> None:
    ds = made()
    at = {"rtt": 1, "streams": 1}
    ds["status"].loc[at] = [STATUS.index("not_measured"), STATUS.index("failed")]
    ds["throughput"].loc[{"rtt": 1}] = np.where(np.arange(3)[:, None] < 2, np.nan, 7.0)
    ds["flags"].loc[{"rtt": 1, "streams": 3}] = MASKS["disturbed"] | MASKS["path_slow"]
    rows = observations(ds, untrusted=("path_slow", "disturbed"))
    expected = ["not measured", "failed", *["without throughput"] * 2, *["path_slow"] * 2, *[""] * 6]
    assert rows["reason"].tolist() == expected
    # What is untrusted is the caller's to say.
    assert observations(ds)["reason"].tolist()[4:] == [""] * 8
    assert np.flatnonzero(rows["disturbed"]).tolist() == [4, 5]


def test_flags_have_the_bits_that_the_dataset_says() -> None:
    ds = made()
    ds["flags"][0, 0, 0] = 4
    ds["flags"].attrs.update(flag_meanings="disturbed", flag_masks=np.array([4]))
    rows = observations(ds)
    assert np.argwhere(rows[list(FLAGS)]).tolist() == [[0, list(FLAGS).index("disturbed")]]


def test_more_columns_are_there_also_where_the_dataset_has_none() -> None:
    rows = observations(made().assign(limit=xr.full_like(made()["throughput"], 3.0)), also=("limit", "cores"))
    assert (rows["limit"] == 3).all() and rows["cores"].isna().all()


@pytest.mark.parametrize("selection", [{"repetition": 1}, {"repetition": 1, "rtt": 0, "streams": 2}])
def test_a_part_of_a_dataset_has_the_same_rows(selection: dict[str, int]) -> None:
    whole, part = observations(made()), observations(made().isel(selection))
    chosen = whole[np.all([whole[name] == at + 1 for name, at in selection.items()], axis=0)]
    rows = part[list(chosen)], chosen.reset_index(drop=True)
    pd.testing.assert_frame_equal(*rows, check_dtype=False, check_names=False)
    bare = observations(made().isel(selection).drop_vars("repetition"))
    assert bare["throughput"].tolist() == part["throughput"].tolist()


def test_runs_are_told_apart_by_pauses_and_machines() -> None:
    ds = made((1, 4, 1))
    days = ["2026-01-01T22", "2026-01-02T01", "2026-01-02T09", "2026-01-02T10"]
    hosts = ['{"host": "one"}', '{"host": "two"}']
    ds["started"] = AXES, np.array(days, "datetime64[ns]").reshape(1, 4, 1)
    ds["provenance"] = AXES, np.reshape([0, 0, 0, 1], (1, 4, 1))
    ds["provenance_record"] = "record", hosts[:1]
    assert observations(made((1, 4, 1)))["run"].tolist() == [0] * 4
    # Midnight ends no run.
    assert observations(ds)["run"].tolist() == [0, 0, 1, 1]
    ds = ds.drop_dims("record").assign(provenance_record=("record", hosts))
    assert observations(ds)["run"].tolist() == [0, 0, 1, 2]
    # What says it itself is believed.
    assert observations(ds.assign(run=(AXES, np.full((1, 4, 1), 7.0))))["run"].tolist() == [0] * 4


def share(found: Observations) -> np.ndarray:
    """Errors as shares of what was measured, without the floor that is the same for all."""
    floor = 0.05 * np.median(found.throughput)
    return np.asarray(np.sqrt(found.error**2 - floor**2) / found.level)


@given(st.floats(0.02, 0.4), st.sampled_from([4, 8]))
@settings(max_examples=5)
def test_without_intervals_errors_are_a_share_that_repetitions_tell(spread: float, repetitions: int) -> None:
    level = np.geomspace(0.1, 10, 12)[None, :, None]
    noise = np.random.default_rng(0).standard_normal((1, 12, repetitions))
    ds = xr.Dataset({"throughput": (AXES, level * (1 + spread * np.maximum(noise, -2)))})
    ds = ds.assign_coords(rtt=[1], streams=range(12), repetition=range(repetitions))
    found = observe(ds)
    assert np.allclose(share(found), max(spread, 0.05), rtol=0.6)
    # The error of the fastest is not that of the slowest.
    assert found.error[-1] > 20 * spread * found.error[0]
    # And where nothing is repeated it is a share too.
    assert np.allclose(share(observe(ds.isel(repetition=[0]))), 0.2)


def test_runs_that_measured_other_cells_are_not_compared() -> None:
    ds = made((2, 3, 2))
    runs = {axis: observe(ds.assign(run=ds[axis].broadcast_like(ds.throughput))).runs for axis in AXES}
    assert [axis for axis in AXES if runs[axis] is not None] == ["repetition"]


@given(st.integers(1, 2000), st.integers(1, 2000))
@settings(max_examples=6)
def test_of_many_cells_a_sample_is_taken_that_is_the_same_each_time(cells: int, most: int) -> None:
    ds = made((1, cells, 1))
    found, again = (observe(ds, most) for _ in range(2))
    taken = cells if cells <= most else min(most, SAMPLE)
    assert len(found) == taken
    assert found.throughput.tolist() == again.throughput.tolist() == sorted(set(found.throughput))
    assert (f"{taken} of {cells} cells chosen at random" in found.label) == (cells > most)
