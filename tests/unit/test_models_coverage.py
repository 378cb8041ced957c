# SPDX-License-Identifier: Apache-2.0
"""Intervals of one more measurement hold as many as they say, for laws that are known.

More seeds: `python -m benchmarks.models coverage`; docs/models.md has what was found.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tpcsweep.models import MODELS, fit, fit_process

from tests.support.coverage import LAWS, Fitter, of_new_run, of_same


def fitter_of(law: str) -> Fitter:
    return partial(fit, MODELS[law], resamples=40)


@pytest.mark.parametrize("outliers", [0.0, 0.04])
@pytest.mark.parametrize("law", LAWS)
def test_the_law_that_made_the_measurements(law: str, outliers: float) -> None:
    found = [of_same(law, fitter_of(law), seed, outliers) for seed in range(8)]
    assert 0.93 <= np.mean(found) <= 0.97


@pytest.mark.parametrize("outliers", [0.0, 0.04])
@pytest.mark.parametrize("law", LAWS)
def test_a_process_that_knows_no_law(law: str, outliers: float) -> None:
    found = [of_same(law, fit_process, seed, outliers) for seed in range(8)]
    assert 0.93 <= np.mean(found) <= 0.97


@pytest.mark.parametrize("law", ["window", "rao_ramp"])
def test_a_run_that_was_not_seen(law: str) -> None:
    told = np.mean([of_new_run(law, fitter_of(law), seed) for seed in range(6)])
    untold = np.mean([of_new_run(law, fitter_of(law), seed, told=False) for seed in range(6)])
    assert 0.93 <= told <= 0.99
    assert untold < told - 0.01


@pytest.mark.parametrize("law", LAWS)
def test_a_run_that_was_not_seen_with_repetitions_and_outliers(law: str) -> None:
    found = [of_new_run(law, fitter_of(law), seed, 0.04) for seed in range(8)]
    assert 0.93 <= np.mean(found) <= 0.97
