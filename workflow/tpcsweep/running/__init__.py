# SPDX-License-Identifier: Apache-2.0
"""Runs of the workflow: measuring deployments, folding datasets, notebooks, progress and status."""
