# SPDX-License-Identifier: Apache-2.0
"""The simulated testbed: cells computed from a model of servers and path; docs/simulation.md has its formulas."""
