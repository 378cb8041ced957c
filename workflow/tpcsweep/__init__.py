"""Reproducible parameter sweeps of XRootD HTTP third-party copies."""
