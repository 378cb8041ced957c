"""Say what a comparison found, and fail where new is slower than it may be."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.script import snakemake

found = json.loads(Path(snakemake.input.json).read_text())
print(found["summary"])
print(f"see {snakemake.input.html}")
Path(snakemake.log[0]).write_text("\n".join([found["summary"], *found["gate"]["failures"]]) + "\n")
if found["gate"]["failures"]:
    sys.exit("\n".join(["new is slower than it may be:", *found["gate"]["failures"]]))
