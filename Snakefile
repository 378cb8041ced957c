# SPDX-License-Identifier: Apache-2.0
# Entry point for runs in this folder. Snakemake's catalogue and other workflows use workflow/Snakefile.
include: "workflow/Snakefile"


rule default:
    default_target: True
    input:
        rules.all.input,
