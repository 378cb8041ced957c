"""Where a sweep runs: one folder for each kind of testbed."""
