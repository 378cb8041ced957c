# SPDX-License-Identifier: Apache-2.0
"""Measurements from elsewhere as a dataset."""
