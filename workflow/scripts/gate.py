# SPDX-License-Identifier: Apache-2.0
"""Say what a comparison found, and fail where new is slower than it may be."""

import json
import sys
from pathlib import Path

from tpcsweep.configuration.loading import ConfigurationError, load
from tpcsweep.running.scripts import reported

settings = load(snakemake.config, Path())
with reported(snakemake.log[0], ConfigurationError):
    settings.needed_comparison()
comparison = json.loads(Path(snakemake.input.json).read_text())
failures = comparison["gate"]["failures"]
print(comparison["summary"])
print(f"see {snakemake.input.html}")
Path(snakemake.log[0]).write_text("\n".join([comparison["summary"], *failures]) + "\n")
if failures:
    sys.exit("\n".join(["new is slower than it may be:", *failures]))
