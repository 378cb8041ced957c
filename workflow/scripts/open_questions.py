"""Run the experiments on the open questions: netem in user-mode-linux, the sweep of rivals; then the notebook."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpcsweep.files import write_json
from tpcsweep.linux.signals import interruptible
from tpcsweep.linux.uml import UmlError
from tpcsweep.running.inner import command, start
from tpcsweep.studies.open_questions.experiments import measure

if TYPE_CHECKING:
    from snakemake.script import snakemake

asked = snakemake.params
config = {name: value for name, value in snakemake.config.items() if name != "sweep"}


def run(target, **more):
    """Make one target by a Snakemake of its own; what it says is said, and its end is ours."""
    if code := start(
        command(asked.python, asked.snakefile, {**config, **more}, asked.testbeds, asked.cores, [target])
    ):
        sys.exit(f"open_questions_measured: snakemake {target} ended with {code}; what it said is above")


with interruptible():
    try:
        found = measure()
    except UmlError as error:
        sys.exit(f"open_questions_measured: {error}")
    write_json(Path(asked.experiments), found)
    run("dataset", sweep="rivals")
    run("open_questions")
