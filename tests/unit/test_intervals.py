# SPDX-License-Identifier: Apache-2.0
"""Intervals of cells whose streams transfer one file after another."""

import numpy as np
import pytest
from tpcsweep.measuring.steady import analyse

from benchmarks.series import FAMILIES, INTERVAL, drawn

DRAWS = 60


@pytest.mark.parametrize(
    ("series", "seconds", "widest"),
    [
        ("files of 1.5 s in lock-step, gaps of 1 s", 18, 0.1),
        ("files of 1.5 s in lock-step, gaps of 1 s", 30, 0.07),
        ("eight streams of such files", 18, 0.05),
        ("files of 4 s in lock-step, gaps of 0.3 s", 30, 0.02),
        ("files of 4 s in lock-step, gaps of 0.3 s", 11, 0.2),  # fewer than three cycles: wide, but right
    ],
)
def test_pauses_between_files_do_not_widen_an_interval(series: str, seconds: int, widest: float) -> None:
    draw, truth = FAMILIES[series]
    cells = drawn(draw, np.random.default_rng(seconds), DRAWS, seconds)
    found = [analyse(cell.goodput, INTERVAL, 0.95, course=cell.course()) for cell in cells]
    assert np.median([one.half_width / one.mean for one in found]) < widest
    assert np.mean([one.low <= truth <= one.high for one in found]) > 0.85
