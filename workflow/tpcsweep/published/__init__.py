# SPDX-License-Identifier: Apache-2.0
"""The figures and tables of publications, each with the claims that it carries."""
