# SPDX-License-Identifier: Apache-2.0

# One job per deployment, one file per cell. Files of current cells do not change.
for group in STUDIES.deployment_groups:

    rule:
        name:
            group.name
        input:
            # Damaged and stale cells exist, so Snakemake starts their job because this folder is newer.
            branch(group.needs_repair, then=NOW, otherwise=ancient(NOW)),
        output:
            update(
                expand(
                    f"<results>/{group.folder}/cells/{{deployment}}/{{cell}}.json",
                    cell=group.cells,
                    allow_missing=True,
                )
            ),
        log:
            f"<results>/{group.log}",
        wildcard_constraints:
            deployment=group.pattern,
        priority: group.priority
        localrule: True
        conda:
            "../../envs/tpcsweep.yaml"
        threads: group.threads(workflow.cores)
        params:
            study=group.folder,
            specification=group.digest,
        script:
            "../scripts/deployment.py"
