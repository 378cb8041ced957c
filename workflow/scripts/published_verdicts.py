# SPDX-License-Identifier: Apache-2.0
"""Collect verdicts on all published claims."""

import json
from pathlib import Path

from tpcsweep.analysis.publications.report import write_report
from tpcsweep.running.studies import exit_on_errors

studies = json.loads(Path(snakemake.input.terena2005).read_bytes())
with exit_on_errors(snakemake.log[0]):
    write_report(
        Path(snakemake.output.table).parent, [Path(file) for file in snakemake.input.figures], studies
    )
