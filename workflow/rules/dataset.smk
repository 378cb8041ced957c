rule dataset:
    """Fold the cells into one labelled dataset."""
    input:
        cells=CELLS,
    output:
        report(
            f"{RESULTS}/dataset.nc",
            category="Dataset",
            caption="../report/dataset.rst",
            labels={"what": "the dataset", "format": "NetCDF"},
        ),
    log:
        f"{RESULTS}/logs/dataset.log",
    script:
        "../scripts/dataset.py"
