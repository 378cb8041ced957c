# SPDX-License-Identifier: Apache-2.0


# Without outputs, so that it always runs: which runs are kept is read from their folder. So what was found stays where
# it fails, too.
rule history:
    """Keep the run under its date, and tell what changed over time: --config fail_on=change."""
    input:
        extra=needs("history"),
        dataset=DATASET,
    log:
        f"{RESULTS}/logs/history.log",
    localrule: True
    script:
        "../scripts/history.py"
