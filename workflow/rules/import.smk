# SPDX-License-Identifier: Apache-2.0
from tpcsweep.running.rules import digest

if SETTINGS.source is not None:

    # In the place of the rule that folds cells: what is made of a dataset is made of this one.
    rule import:
        """Make a dataset of data from elsewhere: --config source=NAME."""
        input:
            JOBS.dataset,
            str(SETTINGS.source.file),
        output:
            dataset=DATASET,
            table=in_report(f"{RESULTS}/cells.csv", "Cells", "cells", "every cell"),
        log:
            f"{RESULTS}/logs/import.log",
        params:
            # Where they change, the same file is read anew.
            settings=SETTINGS.source.settings
            and digest(SETTINGS.source.settings.model_dump(mode="json")),
        script:
            "../scripts/import_data.py"
