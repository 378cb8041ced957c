import sys


rule fits:
    input:
        dataset=f"{RESULTS}/dataset.nc",
    output:
        models=f"{RESULTS}/models.json",
    log:
        f"{RESULTS}/logs/fits.log",
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/models.py"


rule models_notebook:
    input:
        notebook="notebooks/models.ipynb",
        dataset=f"{RESULTS}/dataset.nc",
        models=f"{RESULTS}/models.json",
    output:
        figures=expand(
            f"{RESULTS}/figures/{{figure}}.{{suffix}}",
            figure=["model_fits", "model_residuals", "model_errors"],
            suffix=["png", "svg"],
        ),
        notebook=f"{RESULTS}/notebooks/models.ipynb",
    log:
        f"{RESULTS}/logs/models_notebook.log",
    conda:
        "../../envs/tpcsweep.yaml"
    params:
        python=sys.executable,
    shell:
        "{{ {params.python} -m papermill {input.notebook} {output.notebook}.part.ipynb"
        " -r dataset {input.dataset} -r models {input.models}"
        " -r figures $(dirname {output.figures[0]})"
        " && mv {output.notebook}.part.ipynb {output.notebook}; }} > {log} 2>&1"


rule models:
    input:
        f"{RESULTS}/models.json",
        f"{RESULTS}/notebooks/models.html",
