# SPDX-License-Identifier: Apache-2.0
rule export:
    """Write the dataset as OpenMetrics and as the monitoring lines of 2007."""
    input:
        dataset=DATASET,
    output:
        monitoring=f"{RESULTS}/export/monitoring.csv",
        metrics=f"{RESULTS}/export/openmetrics.txt",
    log:
        f"{RESULTS}/logs/export.log",
    script:
        "../scripts/export.py"


rule zarr:
    """Write the dataset as a Zarr store, for large grids and object storage."""
    input:
        extra=needs("zarr"),
        dataset=DATASET,
    output:
        store=directory(f"{RESULTS}/export/dataset.zarr"),
    log:
        f"{RESULTS}/logs/zarr.log",
    script:
        "../scripts/store.py"
