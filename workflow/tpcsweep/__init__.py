# SPDX-License-Identifier: Apache-2.0
"""Reproducible parameter sweeps of XRootD HTTP third-party copies."""
