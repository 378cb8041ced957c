# SPDX-License-Identifier: Apache-2.0
# The entry from this folder. The workflow is where Snakemake's catalogue and other workflows, as a module, look for it.
include: "workflow/Snakefile"


# An included file leaves that to the one that includes it.
workflow.default_target = "all"
