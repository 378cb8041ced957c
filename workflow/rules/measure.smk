# SPDX-License-Identifier: Apache-2.0

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
        localrule: JOBS.stay
        resources:
            testbed=JOBS.testbed,
            runtime=JOBS.minutes,
        message:
            f"deployment {{wildcards.deployment}}, {len(group.cells)} cells in it"
        script:
            "../scripts/deployment.py"


# Without inputs and outputs, so that it always runs: what is left to measure is read from the cells' files.
rule adaptive:
    """Measure a part of the grid, chosen in rounds by what the models know least."""
    input:
        extra=needs("models"),
    log:
        f"{RESULTS}/logs/adaptive.log",
    localrule: True
    # A second Snakemake measures the cells of each round, one job a deployment: which they are is not known before.
    params:
        inner=INTERNALS.inner,
    script:
        "../scripts/adaptive.py"
