rule dataset:
    input:
        cells=CELLS,
    output:
        dataset=f"{RESULTS}/dataset.nc",
        table=report(
            f"{RESULTS}/cells.csv",
            category="Cells",
            caption="../report/cells.rst",
            labels={"what": "every cell", "as": "CSV"},
        ),
    log:
        f"{RESULTS}/logs/dataset.log",
    conda:
        "../../envs/tpcsweep.yaml"
    # So many processes read files; more would wait for the one that takes what they found.
    threads: 4
    params:
        # Where they change, the same cells are folded anew.
        attributes=SETTINGS.attributes,
    message:
        f"fold {len(CELLS)} cells into {{output.dataset}}"
    script:
        "../scripts/dataset.py"
