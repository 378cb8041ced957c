# SPDX-License-Identifier: Apache-2.0
"""The first page of a sweep, and the list of all sweeps: findings, what limited each cell, and what the models answer.

Data flow one way: a dataset, what its models say and gains by them (`forecast`) become findings (`findings`) and plain
content (`content`), and that one HTML file which needs nothing beside it (`making`).
"""
