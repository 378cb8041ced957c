import sys


rule fits:
    input:
        extra=needs("models"),
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
        extra=needs("models"),
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
        "{{ {params.python:q} -m tpcsweep.running.run_notebook {input.notebook:q} {output.notebook:q}.part.ipynb"
        " -r dataset {input.dataset:q} -r models {input.models:q}"
        ' -r figures "$(dirname {output.figures[0]:q})"'
        " && mv {output.notebook:q}.part.ipynb {output.notebook:q}; }} > {log:q} 2>&1"


rule models:
    input:
        f"{RESULTS}/models.json",
        f"{RESULTS}/notebooks/models.html",
