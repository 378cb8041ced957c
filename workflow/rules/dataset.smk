# SPDX-License-Identifier: Apache-2.0


rule dataset:
    """Fold the cells of a study into one labelled dataset, or copy that from elsewhere."""
    input:
        STUDIES.sources,
    output:
        dataset="<results>/{study}/dataset.nc",
        table=report(
            "<results>/{study}/cells.csv",
            category="{study}",
            subcategory="Tables",
            caption="../report/cells.rst",
            labels={"content": "cells"},
        ),
    log:
        "<results>/{study}/logs/dataset.log",
    wildcard_constraints:
        study=either(STUDIES.made),
    conda:
        "../../envs/tpcsweep.yaml"
    # These processes read files; the main one would not keep up with more.
    threads: 4
    params:
        attributes=STUDIES.attributes,
    script:
        "../scripts/dataset.py"
