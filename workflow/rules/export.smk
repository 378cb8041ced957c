# SPDX-License-Identifier: Apache-2.0
rule export:
    input:
        dataset=DATASET,
    output:
        monitoring=f"{RESULTS}/export/monitoring.csv",
        metrics=f"{RESULTS}/export/openmetrics.txt",
    log:
        f"{RESULTS}/logs/export.log",
    script:
        "../scripts/export.py"
