# SPDX-License-Identifier: Apache-2.0


rule fits:
    """Fit the models of throughput, and choose one by its errors on cells left out of the fit."""
    input:
        dataset="<results>/{study}/dataset.nc",
    output:
        models="<results>/{study}/models.json",
    log:
        "<results>/{study}/logs/fits.log",
    conda:
        "../../envs/tpcsweep.yaml"
    threads: 4
    script:
        "../scripts/models.py"
