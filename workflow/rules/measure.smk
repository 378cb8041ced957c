# SPDX-License-Identifier: Apache-2.0

# One job per deployment, one file per cell. Files of current cells do not change.
for deployments in STUDIES.deployments:

    rule:
        name:
            deployments.name
        input:
            # Damaged and stale cells exist, so Snakemake starts their job because this folder is newer.
            branch(deployments.needs_repair, then=NOW, otherwise=ancient(NOW)),
        output:
            update(
                expand(
                    f"<results>/{deployments.folder}/cells/{{deployment}}/{{cell}}.json",
                    cell=deployments.cells,
                    allow_missing=True,
                )
            ),
        log:
            f"<results>/{deployments.folder}/logs/{{deployment}}/commands.log",
        wildcard_constraints:
            deployment=deployments.pattern,
        priority: deployments.priority
        localrule: True
        conda:
            "../../envs/tpcsweep.yaml"
        threads: deployments.threads(workflow.cores)
        params:
            study=deployments.folder,
            specification=deployments.digest,
        script:
            "../scripts/deployment.py"
