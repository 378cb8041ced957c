# SPDX-License-Identifier: Apache-2.0
"""Import of measurements from elsewhere: a table becomes a dataset like those of sweeps.

`docs/data.md` describes it for users.
"""
