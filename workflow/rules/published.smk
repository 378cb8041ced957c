# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

FIGURES_ASKED_FOR = [name for name in FIGURES if name in TARGETS.names]
if FIGURES_ASKED_FOR:
    # Here, as few runs draw.
    from tpcsweep.published.planned import problems

    REFUSED = [
        line
        for name in FIGURES_ASKED_FOR
        for line in problems(
            FIGURES[name], Path(PUBLISHED), GIVEN.get("testbed"), SETTINGS.run.scale
        )
    ]
    if REFUSED:
        sys.exit("\n".join(REFUSED))


# The results of other targets that reproduce publications are made too, and are in the report.
# Without outputs, so that they always run: what is left to measure is read from the cells' files.
rule published:
    """Make every published figure anew, with a verdict on each of its claims."""
    input:
        [*rules.terena2005.input, *rules.open_questions.output],
    log:
        f"{PUBLISHED}/logs/published.log",
    localrule: True
    params:
        inner=INTERNALS.inner,
        figures=list(FIGURES),
        everything=True,
        testbed=GIVEN.get("testbed"),
        scale=SETTINGS.run.scale,
        file=SETTINGS.run.file,
    script:
        "../scripts/published.py"


for figure in FIGURES:

    rule:
        """Make this published figure anew, with a verdict on each of its claims."""
        name:
            figure
        log:
            f"{PUBLISHED}/logs/{figure}.log",
        localrule: True
        params:
            **{**rules.published.params, "figures": [figure], "everything": False},
        script:
            "../scripts/published.py"
