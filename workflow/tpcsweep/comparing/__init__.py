# SPDX-License-Identifier: Apache-2.0
"""Two sweeps against each other, cell by cell and over all cells."""
