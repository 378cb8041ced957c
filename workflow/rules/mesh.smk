# SPDX-License-Identifier: Apache-2.0

# One job per mesh: it measures links that share no site side by side, and only those with stale cells.
for mesh in STUDIES.meshes:

    rule:
        name:
            f"measure_{mesh.folder}"
        input:
            # Damaged and stale cells exist, so Snakemake starts the job because this folder is newer.
            NOW if mesh.damaged else ancient(NOW),
        output:
            update(
                expand(f"<results>/{mesh.folder}/cells/{{cell}}.json", cell=mesh.cells)
            ),
        log:
            f"<results>/{mesh.folder}/logs/rounds.log",
        localrule: True
        conda:
            "../../envs/tpcsweep.yaml"
        threads: workflow.cores
        params:
            study=mesh.folder,
            specification=mesh.digest,
        script:
            "../scripts/mesh.py"
