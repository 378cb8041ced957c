# SPDX-License-Identifier: Apache-2.0


rule simulate:
    """Compute all cells of a simulated study, those of the same specification not again."""
    output:
        update("<results>/{study}/cells.jsonl"),
    log:
        "<results>/{study}/logs/simulate.log",
    wildcard_constraints:
        study=STUDIES.simulated_pattern,
    params:
        specification=STUDIES.specification,
    threads: 4
    resources:
        runtime=60,
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/simulate.py"
