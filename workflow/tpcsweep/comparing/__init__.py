# SPDX-License-Identifier: Apache-2.0
"""Comparison of two sweeps: by cell, by value of each axis, and overall."""
