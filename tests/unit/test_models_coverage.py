# SPDX-License-Identifier: Apache-2.0
"""Intervals of one more measurement hold as many as they say, for laws that are known.

Intervals that are narrower by a third hold 91 % at most. More seeds: `python -m benchmarks.models coverage`;
docs/models.md has what was found.
"""

from functools import partial

import numpy as np
import pytest
from tpcsweep.models import MODELS, fit, fit_process

from tests.support.coverage import LAWS, Fitter, of_new_run, of_same

OUTLIERS = dict(zip(LAWS, (0.0, 0.04, 0.04, 0.0), strict=True))


def fitter_of(law: str) -> Fitter:
    return partial(fit, MODELS[law], resamples=8)


# A process that learns a window takes long, and test_models asks the same of it.
@pytest.mark.parametrize(
    ("law", "knows_the_law"),
    [*((law, True) for law in LAWS), *((law, False) for law in LAWS if law != "window")],
)
def test_one_more_measurement(law: str, knows_the_law: bool) -> None:
    fitter = fitter_of(law) if knows_the_law else fit_process
    found = [of_same(law, fitter, seed, OUTLIERS[law]) for seed in range(4)]
    assert 0.93 <= np.mean(found) <= 0.975


def new_runs(law: str, outliers: float = 0.0, *, told: bool = True) -> float:
    return float(np.mean([of_new_run(law, fitter_of(law), seed, outliers, told=told) for seed in range(4)]))


def test_a_run_that_was_not_seen() -> None:
    told, untold = (new_runs("window", told=known) for known in (True, False))
    assert 0.93 <= told <= 0.975
    assert untold < told - 0.03


@pytest.mark.parametrize("law", ["window", "rao_ramp", "ranges"])
def test_a_run_that_was_not_seen_with_outliers(law: str) -> None:
    assert 0.93 <= new_runs(law, 0.04) <= 0.975
