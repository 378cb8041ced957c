if SETTINGS.source is not None:

    # In the place of the rule that folds cells: what is made of a dataset is made of this one.
    rule import:
        input:
            str(SETTINGS.source.file),
        output:
            dataset=DATASET,
            table=report(
                f"{RESULTS}/cells.csv",
                category="Cells",
                caption="../report/cells.rst",
                labels={"what": "every cell", "as": "CSV"},
            ),
        log:
            f"{RESULTS}/logs/import.log",
        conda:
            "../../envs/tpcsweep.yaml"
        params:
            settings=SETTINGS.source.settings.model_dump(mode="json"),
        script:
            "../scripts/import_data.py"
