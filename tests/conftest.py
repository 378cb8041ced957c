# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests."""

import gc
import signal

import hypothesis
import pytest

# Their assertions say what they found, as those of tests do.
pytest.register_assert_rewrite("tests.support")

# How long an example takes depends on the machine, and machines are shared. Every run draws other examples.
hypothesis.settings.register_profile(
    "shared", deadline=None, max_examples=50, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("shared")

# A shell has what it starts in the background ignore Ctrl-C, and with that all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What is loaded by now stays to the end: looking through it for garbage, again and again, finds none."""
    gc.collect()
    gc.freeze()
