# One job a deployment, with a file for each of its cells; deployments that hold the same cells share a rule.
for number, group in enumerate(SETTINGS.grid.groups, start=1):

    rule:
        name:
            f"deployment_{number}"
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
        params:
            # Another specification makes the job run; it measures the cells whose own has changed.
            wanted=JOBS.digest,
        priority: JOBS.priority
        resources:
            testbed=1,
        script:
            "../scripts/deployment.py"


rule reap:
    localrule: True
    log:
        f"{RESULTS}/logs/reap.log",
    script:
        "../scripts/reap.py"


rule grid:
    localrule: True
    log:
        f"{RESULTS}/logs/grid.log",
    script:
        "../scripts/grid.py"
