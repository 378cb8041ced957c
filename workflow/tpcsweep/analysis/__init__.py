# SPDX-License-Identifier: Apache-2.0
"""Analyses, which start from a dataset: models, plans, comparison, history, claims and publications."""
