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

OUTLIERS = dict(zip(LAWS, (0.0, 0.04, 0.04, 0.0), strict=True))


def fitter_of(law: str, resamples: int = 40) -> Fitter:
    return partial(fit, MODELS[law], resamples=resamples)


@pytest.mark.parametrize("knows_the_law", [True, False])
@pytest.mark.parametrize("law", LAWS)
def test_one_more_measurement(law: str, knows_the_law: bool) -> None:
    fitter = fitter_of(law, 16) if knows_the_law else fit_process
    found = [of_same(law, fitter, seed, OUTLIERS[law]) for seed in range(4)]
    assert 0.93 <= np.mean(found) <= 0.975


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
