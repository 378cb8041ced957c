# SPDX-License-Identifier: Apache-2.0
"""Measure what is stale of one deployment."""

from tpcsweep.linux import signals

signals.end_with_snakemake()

from pathlib import Path

from tpcsweep.configuration.loading import load
from tpcsweep.testbeds.netns import machine

settings = load(snakemake.config, Path())
if settings.testbed.kind == "netns":
    machine.enter()

from tpcsweep.running.runner import expected, run
from tpcsweep.running.scripts import reported

deployment = snakemake.wildcards.deployment
with reported(snakemake.log[0], *expected(settings), about=deployment):
    run(settings, deployment, Path(snakemake.log[0]).parent)
