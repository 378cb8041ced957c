import sys


rule claims:
    input:
        f"{RESULTS}/claims.csv",
        f"{RESULTS}/claims.json",
        f"{RESULTS}/notebooks/claims.html",


rule verdicts:
    input:
        dataset=f"{RESULTS}/dataset.nc",
    output:
        table=report(
            f"{RESULTS}/claims.csv",
            category="Claims",
            caption="../report/claims.rst",
            labels={"what": "verdicts", "as": "CSV"},
        ),
        verdicts=f"{RESULTS}/claims.json",
    log:
        f"{RESULTS}/logs/claims.log",
    conda:
        "../../envs/tpcsweep.yaml"
    script:
        "../scripts/claims.py"


rule claims_notebook:
    input:
        notebook="notebooks/claims.ipynb",
        dataset=f"{RESULTS}/dataset.nc",
    output:
        f"{RESULTS}/notebooks/claims.ipynb",
    log:
        f"{RESULTS}/logs/claims_notebook.log",
    conda:
        "../../envs/tpcsweep.yaml"
    params:
        python=sys.executable,
    shell:
        "{{ {params.python:q} -m tpcsweep.running.run_notebook {input.notebook:q} {output:q}.part.ipynb -r dataset {input.dataset:q}"
        " && mv {output:q}.part.ipynb {output:q}; }} > {log:q} 2>&1"
