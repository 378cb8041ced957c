# SPDX-License-Identifier: Apache-2.0
rule calibrate:
    """Fit the simulated testbed to the sweep's dataset."""
    input:
        dataset=DATASET,
    output:
        parameters=f"{RESULTS}/calibration.yaml",
        table=f"{RESULTS}/calibration.csv",
    log:
        f"{RESULTS}/logs/calibrate.log",
    script:
        "../scripts/calibrate.py"
