# SPDX-License-Identifier: Apache-2.0
"""Throughput models: formulas, a Gaussian process and a lookup table, fitted to cells and compared."""
