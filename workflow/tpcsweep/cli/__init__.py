# SPDX-License-Identifier: Apache-2.0
"""Command `tpcsweep`: answers questions about sweeps and results; Snakemake measures and makes files."""

from tpcsweep.cli.group import main

__all__ = ["main"]
