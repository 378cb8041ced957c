# SPDX-License-Identifier: Apache-2.0
"""Runs: planning, deploying, measuring, publishing and removing deployments."""
