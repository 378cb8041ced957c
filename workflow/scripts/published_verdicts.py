# SPDX-License-Identifier: Apache-2.0
"""Collect the verdicts on all published claims."""

from pathlib import Path

from tpcsweep.published.report import write

write(Path(snakemake.output.table).parent, [Path(file) for file in snakemake.input])
