# One job a deployment, with a file for each of its cells; deployments that hold the same cells share a rule.
for number, group in enumerate(SETTINGS.grid.groups if COMPLETES else [], start=1):

    rule:
        name:
            f"{DEPLOYMENT}{number}"
        input:
            JOBS.inputs,
        output:
            update(
                expand(
                    f"{RESULTS}/cells/{{{{deployment}}}}/{{cell}}.json",
                    cell=group.cells,
                )
            ),
        log:
            f"{RESULTS}/logs/{{deployment}}/commands.log",
        wildcard_constraints:
            deployment=JOBS.pattern(group),
        priority: JOBS.priority
        conda:
            "../../envs/tpcsweep.yaml"
        resources:
            testbed=JOBS.testbed,
        message:
            f"deployment {{wildcards.deployment}}, {len(group.cells)} cells in it"
        script:
            "../scripts/deployment.py"


rule reap:
    log:
        f"{RESULTS}/logs/reap.log",
    localrule: True
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/reap.py"


rule grid:
    log:
        f"{RESULTS}/logs/grid.log",
    localrule: True
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/grid.py"
