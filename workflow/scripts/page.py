# SPDX-License-Identifier: Apache-2.0
"""Write a sweep's first page, and the list of all sweeps."""

from pathlib import Path

from tpcsweep.configuration.loading import load
from tpcsweep.pages import making

making.make(load(snakemake.config, Path()))
