# SPDX-License-Identifier: Apache-2.0
"""The first page of a sweep, and the list of all sweeps: what was found, in sentences, a map and the cells behind it.

Data flow one way: a dataset becomes findings (`findings`), with the cells plain content (`content`), and that one HTML
file which needs nothing beside it (`making`).
"""
