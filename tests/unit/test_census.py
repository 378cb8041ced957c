# SPDX-License-Identifier: Apache-2.0
"""Intervals of rates, shares and means, and the census of crashes that is made with them."""

from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import xarray as xr
from scipy import stats
from tpcsweep import dataset
from tpcsweep.comparing.census import TABLE, census, rate_interval
from tpcsweep.dataset.labels import MASKS, STATUS
from tpcsweep.dataset.tables import write_csv
from tpcsweep.flags import BROKEN

from tests.support import synthetic


@pytest.mark.parametrize("truth", [0.3, 2.0, 20.0])
def test_the_interval_of_a_rate_holds_it_as_often_as_it_says(truth: float) -> None:
    counts = np.arange(200)
    held = [low <= truth <= high for low, high in (rate_interval(int(count), 1.0) for count in counts)]
    assert stats.poisson.pmf(counts[held], truth).sum() >= 0.95
    assert rate_interval(0, 1.0) == pytest.approx((0, 3.689), abs=1e-3)  # as in Garwood's table
    assert rate_interval(0, 0.0) == (0, np.inf)


@pytest.fixture
def summary(tmp_path: Path) -> xr.Dataset:
    """Four repetitions of two releases on two origins, 12 s each: nothing broke."""
    axes = {"xrootd": ["5.5.3", "5.8.1"], "origins": [2], "streams": [8], "repetition": [1, 2, 3, 4]}
    made = dataset.fold(synthetic.write_sweep(tmp_path, axes), axes).summary
    none = made["throughput"] * 0
    return made.assign(transfers=none + 10, transfers_failed=none)


def broke(summary: xr.Dataset, repetition: int, message: str, status: str = "failed") -> None:
    values = {"status": STATUS.index(status), "flags": MASKS[BROKEN], "message": message}
    for name, value in values.items():
        summary[name].loc[{"xrootd": "5.5.3", "repetition": repetition}] = value


def test_a_server_that_died_is_counted_by_what_it_died_of(summary: xr.Dataset) -> None:
    broke(summary, 1, "dst1: xrootd was killed by SIGSEGV; its last words: ssl3_finish_mac")
    broke(summary, 2, "srcm: cmsd was killed by SIGABRT", "ok")
    broke(summary, 3, "Error: container xrootd ended with exit code 139 on node a")
    broke(summary, 4, "client was killed by SIGKILL")
    table = census(summary, "xrootd").set_index("xrootd")
    first, second = table.loc["5.5.3"], table.loc["5.8.1"]
    counts = ["cells", "crashes", "otherwise_broken", "whole_cells", "died_of"]
    assert first[counts].tolist() == [4, 3, 1, 0, "SIGSEGV 1, SIGABRT 1, exit code 139 1"]
    assert second[counts].tolist() == [4, 0, 0, 4, ""]
    # Two origins on each of two sides, four cells of 12 s.
    assert second["server_hours"] == pytest.approx(4 * 4 * 12 / 3600)
    assert first["crashes_per_hour"] == pytest.approx(3 / first["server_hours"])
    assert second["crashes_per_hour_low"] == 0
    assert second["crashes_per_hour_high"] == pytest.approx(3.689 / second["server_hours"], rel=1e-3)


def test_failed_transfers_and_cells_that_were_not_measured(summary: xr.Dataset, tmp_path: Path) -> None:
    summary["message"][:] = "xrootd was killed by SIGSEGV"  # only a flag makes a crash of it
    summary["transfers_failed"][0, 0, 0, 1] = 3
    summary["status"][1, 0, 0, 0] = STATUS.index("not_measured")
    table = census(summary, "xrootd")
    counts = ["cells", "transfers", "transfers_failed", "cells_with_failures", "whole_cells", "crashes"]
    assert table[counts].to_numpy().tolist() == [[4, 43, 3, 1, 3, 0], [3, 30, 0, 0, 3, 0]]
    write_csv(table, tmp_path / "census.csv")
    assert list(pd.read_csv(tmp_path / "census.csv")) == ["xrootd", *TABLE]
    # A census is of any axis and of fixed parameters.
    assert census(summary, "streams")["cells"].tolist() == [7]
    assert census(summary.sel(origins=2), "origins")["cells"].tolist() == [7]
