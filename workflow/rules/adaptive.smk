# Without inputs and outputs, so that it always runs: what is left to measure is read from the cells' files.
rule adaptive:
    input:
        extra=needs("models"),
    log:
        f"{RESULTS}/logs/adaptive.log",
    localrule: True
    conda:
        "../../envs/tpcsweep.yaml"
    # A second Snakemake measures the cells of each round, one job a deployment: which they are is not known before.
    params:
        inner=INTERNALS.inner,
    script:
        "../scripts/adaptive.py"
