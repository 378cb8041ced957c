# SPDX-License-Identifier: Apache-2.0
rule models:
    """Fit the models of throughput, with their errors on cells left out."""
    input:
        MODELS,
        f"{RESULTS}/notebooks/models.html",


rule fits:
    input:
        extra=needs("models"),
        dataset=DATASET,
    output:
        models=MODELS,
    log:
        f"{RESULTS}/logs/fits.log",
    script:
        "../scripts/models.py"


use rule surface as models_notebook with:
    input:
        extra=needs("models"),
        notebook=shipped("notebooks/models.ipynb"),
        dataset=DATASET,
        models=MODELS,
    output:
        *pictures(f"{RESULTS}/figures", "model_fits", "model_residuals", "model_errors"),
        notebook=f"{RESULTS}/notebooks/models.ipynb",
    log:
        f"{RESULTS}/logs/models_notebook.log",
