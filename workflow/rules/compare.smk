# SPDX-License-Identifier: Apache-2.0
if SETTINGS.comparison is not None:

    rule comparison:
        input:
            # Nothing here makes them: what is there is compared, and nothing is measured for it.
            base=str(SETTINGS.comparison[0].dataset),
            new=str(SETTINGS.comparison[1].dataset),
        output:
            json=f"{RESULTS}/comparison.json",
            table=in_report(f"{RESULTS}/cells.csv", "Cells", "comparison", "every cell"),
        log:
            f"{RESULTS}/logs/comparison.log",
        params:
            base=SETTINGS.run.base,
            new=SETTINGS.run.new,
            fail_below=SETTINGS.run.fail_below,
        script:
            "../scripts/comparison.py"

    use rule surface as compare_notebook with:
        input:
            *map(str, rules.comparison.input),
            notebook=shipped("notebooks/compare.ipynb"),
        output:
            *pictures(f"{RESULTS}/figures", "forest", "ratios"),
            notebook=f"{RESULTS}/notebooks/compare.ipynb",
        log:
            f"{RESULTS}/logs/compare.log",
        params:
            base=SETTINGS.run.base,
            new=SETTINGS.run.new,
            results=SETTINGS.run.results,


COMPARED = {
    "json": f"{RESULTS}/comparison.json",
    "html": f"{RESULTS}/notebooks/compare.html",
}


# The gate is a rule of its own, without output: where it fails, what was found stays. Without two sides it says so.
rule compare:
    """Compare two sweeps, cell by cell and over all: --config base=NAME new=NAME."""
    input:
        **({} if SETTINGS.comparison is None else COMPARED),
    log:
        f"{RESULTS}/logs/gate.log",
    localrule: True
    script:
        "../scripts/gate.py"
