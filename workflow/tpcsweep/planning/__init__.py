# SPDX-License-Identifier: Apache-2.0
"""Answers of fitted models: what a throughput takes."""
