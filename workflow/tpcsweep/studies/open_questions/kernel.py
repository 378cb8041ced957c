"""Run the experiments on a kernel with netem: this package, inside user-mode-linux."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tpcsweep.linux import uml
from tpcsweep.studies.open_questions import inside
from tpcsweep.studies.open_questions.experiments import EXPERIMENTS, OMITTED, SECONDS, Experiment

NEEDED = ("veth", "sch_netem", "sch_ingress", "cls_matchall", "act_police")
"""Kernel modules."""
EACH = 3 * (SECONDS + OMITTED) + 10
"""Seconds that one may take on a busy machine."""
BOOT = 120
"""Seconds that the kernel and Python may take to start there."""


def measure(experiments: Sequence[Experiment] = EXPERIMENTS) -> dict[str, Any]:
    """What was found of each experiment, with the kernel that it was found on.

    Takes about 10 s for each. Raises UmlError with what went wrong.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = folder / "experiments.json"
        asked.write_text(json.dumps([asdict(one) for one in experiments]))
        script = (
            f"{sys.executable} {uml.MODULES} {' '.join(NEEDED)} || exit 1\n"
            "uname -sr\nnproc\n"
            f"{sys.executable} -m {inside.__name__} {asked} 2>/run/error || {{ cat /run/error; exit 1; }}\n"
        )
        kernel, cpus, *lines = uml.run(script, folder, BOOT + EACH * len(experiments)).splitlines()
    return {
        "testbed": "netem in user-mode-linux",
        "kernel": kernel,
        "cpus": int(cpus),
        "tool": "iperf3",
        "seconds": SECONDS,
        "omitted": OMITTED,
        "experiments": [json.loads(line) for line in lines],
    }
