# SPDX-License-Identifier: Apache-2.0
"""Testbeds, where a sweep runs: each kind with its settings, checks and deployments."""
