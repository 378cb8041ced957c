# SPDX-License-Identifier: Apache-2.0
"""Two sweeps against each other: cell by cell, over the cells of each value of an axis, and over all."""
