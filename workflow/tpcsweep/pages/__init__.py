# SPDX-License-Identifier: Apache-2.0
"""HTML pages of a sweep and of all sweeps: findings, limits of each cell, and answers of the models.

Data flow one way: a dataset and its models become fitted cells and gains (`forecast`), findings (`findings`) and plain
content (`content`), then one self-contained HTML file (`making`).
"""
