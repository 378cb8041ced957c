# SPDX-License-Identifier: Apache-2.0
"""Measure the stale cells of a mesh, in rounds of links that share no site."""

from tpcsweep.common import signals

signals.end_with_snakemake()

from pathlib import Path

from tpcsweep.running.meshes import measure_mesh
from tpcsweep.running.runner import deployment_errors
from tpcsweep.running.studies import Studies, exit_on_errors, mesh_digest, require_planned

name = snakemake.params.study
study = Studies(snakemake.config, only=name)[name]
with exit_on_errors(snakemake.log[0], *deployment_errors(study), about=name):
    require_planned(study, snakemake.output[0], mesh_digest(study), snakemake.params.specification)
    measure_mesh(study, Path(snakemake.log[0]))
