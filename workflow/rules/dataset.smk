# SPDX-License-Identifier: Apache-2.0
import time
from pathlib import Path

from tpcsweep.running.rules import digest

HOLES = f"{RESULTS}/not_measured.json"

if COMPLETES:

    # What was left out or disturbed is tried once more when all the rest is there.
    rule again:
        input:
            cells=CELLS,
        output:
            holes=HOLES,
            front=f"{RESULTS}/front.rst",
        log:
            f"{RESULTS}/logs/again.log",
        localrule: True
        resources:
            testbed=JOBS.testbed,
        params:
            # Whatever was asked for before, it is asked for anew.
            asked=SETTINGS.run.again and f"{SETTINGS.run.again} at {time.time()}",
            front=FRONT,
        message:
            f"{len(CELLS)} cells were tried"
        script:
            "../scripts/again.py"


rule dataset:
    """Fold the cells into one labelled dataset, after measuring those that are not there."""
    input:
        JOBS.dataset,
        cells=CELLS,
        holes=HOLES if COMPLETES or Path(HOLES).exists() else [],
    output:
        dataset=DATASET,
        table=in_report(f"{RESULTS}/cells.csv", "Cells", "cells", "every cell"),
    log:
        f"{RESULTS}/logs/dataset.log",
    # So many processes read files; more would wait for the one that takes what they found.
    threads: 4
    params:
        # Where they change, the same cells are folded anew.
        attributes=SETTINGS.attributes and digest(SETTINGS.attributes),
    message:
        f"fold {len(CELLS)} cells into {{output.dataset}}"
    script:
        "../scripts/dataset.py"
