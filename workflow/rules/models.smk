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


use rule surface as models with:
    """Draw the fitted models of a study, and their errors."""
    input:
        notebook=workflow.source_path("../../notebooks/models.ipynb"),
        dataset="<results>/{study}/dataset.nc",
        models="<results>/{study}/models.json",
    output:
        fits=report(
            "<results>/{study}/figures/model_fits.png",
            category="{study}",
            subcategory="Figures",
            caption="../report/models.rst",
            labels={"content": "fitted models"},
        ),
        others=multiext(
            "<results>/{study}/figures/model_",
            "fits.svg",
            "residuals.png",
            "residuals.svg",
            "errors.png",
            "errors.svg",
        ),
        notebook="<results>/{study}/notebooks/models.ipynb",
        html=report(
            "<results>/{study}/notebooks/models.html",
            category="{study}",
            subcategory="Notebooks",
            caption="../report/notebook.rst",
            labels={"content": "models"},
        ),
    log:
        "<results>/{study}/logs/models.log",
