# SPDX-License-Identifier: Apache-2.0
"""Figures and tables of publications, each with its claims."""
