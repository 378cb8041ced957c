"""What holds for all tests."""

import hypothesis

# How long an example takes is the machine's business, and machines are shared.
hypothesis.settings.register_profile("shared", deadline=None)
hypothesis.settings.load_profile("shared")
