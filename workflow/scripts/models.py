# SPDX-License-Identifier: Apache-2.0
"""Fit every model to a dataset, and choose between them."""

from tpcsweep.common import signals

signals.end_with_snakemake()

from pathlib import Path

from tpcsweep.analysis.models.saved_fits import fit_all
from tpcsweep.data.opening import load
from tpcsweep.running.studies import exit_on_errors

with exit_on_errors(snakemake.log[0]), signals.interruptible():
    dataset = Path(snakemake.input.dataset)
    fit_all(load(dataset), Path(snakemake.output.models), snakemake.threads, dataset)
