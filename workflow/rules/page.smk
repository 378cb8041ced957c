# SPDX-License-Identifier: Apache-2.0


# The list of all sweeps, in the folder above, is written with each page: it is of several sweeps, and so no output.
rule page:
    """Make the first page and the list of all sweeps."""
    input:
        dataset=DATASET,
        claims=f"{RESULTS}/claims.json",
    output:
        page=INDEX,
    log:
        f"{RESULTS}/logs/page.log",
    script:
        "../scripts/page.py"
