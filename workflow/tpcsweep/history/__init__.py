# SPDX-License-Identifier: Apache-2.0
"""The same sweep measured again and again: runs kept under their dates, change points, and what changed with them.

Data flow one way: kept datasets become runs (`runs`), these one grid of cells over time (`series`), in which change
points are looked for (`detection`) and told with their size and with what else changed (`changes`).
"""
