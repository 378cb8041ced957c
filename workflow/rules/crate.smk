# SPDX-License-Identifier: Apache-2.0


# Its log is beside it: what is in the folder is the crate's.
rule crate:
    """Pack dataset, page, figures, configuration and software for archives, as an RO-Crate."""
    input:
        extra=needs("crate"),
        dataset=DATASET,
        page=INDEX,
        # The report of a sweep measures first what is not there; it is taken if it is there.
        shown=(rules.report.input.shown if SETTINGS.measures else str(SETTINGS.product)),
    output:
        folder=directory(f"{RESULTS}/crate"),
        archive=f"{RESULTS}/{Path(RESULTS).name}.crate.zip",
    log:
        f"{RESULTS}/logs/crate.log",
    script:
        "../scripts/crate.py"
