# SPDX-License-Identifier: Apache-2.0
"""Run the experiments on the open questions: netem in user-mode-linux, the sweep of rivals; then the notebook."""

from tpcsweep.linux import signals

signals.end_with_snakemake()

import sys
from pathlib import Path

from tpcsweep.configuration.loading import load
from tpcsweep.files import write_json
from tpcsweep.linux.uml import UmlError
from tpcsweep.running.scripts import make, reported
from tpcsweep.studies.open_questions.experiments import measure

config = load(snakemake.config, Path()).run.data
with reported(snakemake.log[0], UmlError, about=snakemake.rule), signals.interruptible():
    write_json(Path(snakemake.params.experiments), measure())
    for target, more in (("dataset", {"sweep": "rivals"}), ("open_questions", {})):
        if code := make(snakemake.params.inner, {**config, **more}, [target]):
            sys.exit(f"{snakemake.rule}: snakemake {target} ended with {code}; what it said is above")
