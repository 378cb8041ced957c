# SPDX-License-Identifier: Apache-2.0
"""Measurement of a cell: streams, samples, transfers, stopping rule, limits and trust."""
