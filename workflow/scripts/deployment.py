# SPDX-License-Identifier: Apache-2.0
"""Measure the stale cells of one deployment."""

from tpcsweep.common import signals

signals.end_with_snakemake()

from pathlib import Path

from tpcsweep.running.studies import Studies, deployment_digest, exit_on_errors, require_planned
from tpcsweep.testbeds.netns import requirements

name = snakemake.params.study
study = Studies(snakemake.config, only=name)[name]
if study.testbed.kind == "netns":
    requirements.enter()  # before any thread starts

from tpcsweep.running.runner import deployment_errors, run

deployment = snakemake.wildcards.deployment
with exit_on_errors(snakemake.log[0], *deployment_errors(study), about=deployment):
    now = deployment_digest(study, deployment)
    require_planned(study, snakemake.output[0], now, snakemake.params.specification)
    run(study, deployment, Path(snakemake.log[0]).parent)
