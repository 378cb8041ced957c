# SPDX-License-Identifier: Apache-2.0


rule simulate:
    """Compute the stale cells of a simulated study."""
    output:
        update("<results>/{study}/cells.jsonl"),
    log:
        "<results>/{study}/logs/simulate.log",
    wildcard_constraints:
        study=alternatives_pattern(STUDIES.simulated),
    conda:
        "../../envs/tpcsweep.yaml"
    threads: 4
    resources:
        runtime=60,
    params:
        specification=STUDIES.simulated_digest,
    script:
        "../scripts/simulate.py"
