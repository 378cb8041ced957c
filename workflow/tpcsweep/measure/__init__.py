# SPDX-License-Identifier: Apache-2.0
"""How a cell is measured: streams, samples, single transfers, when it may end, what bound it, how far to trust it."""
