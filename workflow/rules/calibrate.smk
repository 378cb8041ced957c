rule calibrate:
    input:
        dataset=DATASET,
    output:
        parameters=f"{RESULTS}/calibration.yaml",
        table=f"{RESULTS}/calibration.csv",
    log:
        f"{RESULTS}/logs/calibrate.log",
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/calibrate.py"
