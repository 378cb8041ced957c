import sys

if SETTINGS.comparison is not None:

    rule comparison:
        input:
            # Nothing here makes them: what is there is compared, and nothing is measured for it.
            base=str(SETTINGS.comparison[0].dataset),
            new=str(SETTINGS.comparison[1].dataset),
        output:
            json=f"{RESULTS}/comparison.json",
            table=report(
                f"{RESULTS}/cells.csv",
                category="Cells",
                caption="../report/comparison.rst",
                labels={"what": "every cell", "as": "CSV"},
            ),
        log:
            f"{RESULTS}/logs/comparison.log",
        conda:
            "../../envs/tpcsweep.yaml"
        params:
            base=SETTINGS.run.base,
            new=SETTINGS.run.new,
            fail_below=SETTINGS.run.fail_below,
        script:
            "../scripts/comparison.py"

    rule compare_notebook:
        input:
            base=str(SETTINGS.comparison[0].dataset),
            new=str(SETTINGS.comparison[1].dataset),
            notebook="notebooks/compare.ipynb",
        output:
            figures=expand(
                f"{RESULTS}/figures/{{figure}}.{{kind}}",
                figure=["forest", "ratios"],
                kind=["png", "svg"],
            ),
            notebook=f"{RESULTS}/notebooks/compare.ipynb",
        log:
            f"{RESULTS}/logs/compare.log",
        conda:
            "../../envs/tpcsweep.yaml"
        params:
            python=sys.executable,
            base=SETTINGS.run.base,
            new=SETTINGS.run.new,
            results=SETTINGS.run.results,
        shell:
            "{{ {params.python:q} -m tpcsweep.running.run_notebook {input.notebook:q} {output.notebook:q}.part.ipynb"
            " -r base {params.base:q} -r new {params.new:q} -r results {params.results:q}"
            ' -r figures "$(dirname {output.figures[0]:q})"'
            " && mv {output.notebook:q}.part.ipynb {output.notebook:q}; }} > {log:q} 2>&1"

    # The gate is a rule of its own, without output: where it fails, what was found stays.
    rule compare:
        input:
            json=f"{RESULTS}/comparison.json",
            html=f"{RESULTS}/notebooks/compare.html",
        log:
            f"{RESULTS}/logs/gate.log",
        localrule: True
        conda:
            "../../envs/tpcsweep.yaml"
        script:
            "../scripts/gate.py"

else:

    # The same script: it says what is missing.
    rule compare:
        log:
            f"{RESULTS}/logs/comparison.log",
        localrule: True
        conda:
            "../../envs/tpcsweep.yaml"
        script:
            "../scripts/comparison.py"
