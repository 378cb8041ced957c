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
