# SPDX-License-Identifier: Apache-2.0
"""Intervals of one more measurement hold as many as they say, for laws that are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tpcsweep.models import MODELS, Observations, Predictor, fit, fit_process, observe

from tests.support.made_up import RTT, STREAMS, TRUTHS, measured

LAWS = {
    "window": {"rtt": RTT, "streams": STREAMS},
    "usl": {"streams": STREAMS, "cores": [1, 2, 4, 8, 16, 32]},
    "rao_ramp": {"rtt": RTT, "streams": STREAMS[::2]},
    "ranges": {"rtt": RTT, "tcp_streams": [2, 4, 8, 16]},
}

Fitter = Callable[[Observations], Predictor]


def coverage(law: str, fitter: Fitter, seed: int, **how: float) -> float:
    """The share of a second set of measurements that lies in the intervals that were taken from a first."""
    values, _, fixed = TRUTHS[law]
    first, second = (
        measured(MODELS[law], values, LAWS[law], fixed=fixed, noise=0.08, repetitions=3, seed=one, **how)
        for one in (seed, seed + 100)
    )
    found = fitter(observe(first)).predict(second)
    inside = (second.throughput >= found.throughput_low) & (second.throughput <= found.throughput_high)
    return float(inside.mean())


@pytest.mark.parametrize("outliers", [0.0, 0.04])
@pytest.mark.parametrize("law", LAWS)
def test_the_law_that_made_the_measurements(law: str, outliers: float) -> None:
    def fitter(observations: Observations) -> Predictor:
        return fit(MODELS[law], observations, resamples=40)

    assert 0.93 <= np.mean([coverage(law, fitter, seed, outliers=outliers) for seed in range(8)]) <= 0.97


@pytest.mark.parametrize("outliers", [0.0, 0.04])
@pytest.mark.parametrize("law", LAWS)
def test_a_process_that_knows_no_law(law: str, outliers: float) -> None:
    found = [coverage(law, fit_process, seed, outliers=outliers) for seed in range(8)]
    assert 0.93 <= np.mean(found) <= 0.97
