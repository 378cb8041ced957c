"""What holds for all tests."""

import hypothesis

# How long an example takes is the machine's business, and machines are shared.
hypothesis.settings.register_profile(
    "shared", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("shared")
