# SPDX-License-Identifier: Apache-2.0
"""The same cell from inside and from outside: between the servers of a deployment across a path of 20 ms."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tpcsweep.configuration.parameters import Parameters
from tpcsweep.linux.namespaces import namespace_command
from tpcsweep.measure.cell import measure

from tests.support.sites import MIB, files, site_of
from tests.support.workflow import ROOT

CELL: dict[str, Any] = {"tool": "native", "streams": 2, "file_size": 4 * MIB}
PATH: dict[str, Any] = {"rtt": 20.0, "bandwidth": 0.05}
FILES = 8
OUTSIDE = """
import json, sys
from pathlib import Path
from tests.support.sites import files
from tests.support.storage import deployed
from tpcsweep.configuration.endpoints import Endpoints

settings, cell, count, logs = (json.loads(text) for text in sys.argv[1:])
with deployed(Endpoints.model_validate(settings), Path(logs), **cell) as (_, measured):
    result = measured(files(count))
print(json.dumps({name: result[name] for name in ("status", "message", "summary")}))
"""


def test_a_cell_from_outside_agrees_with_the_one_from_inside(tmp_path: Path) -> None:
    with site_of(tmp_path, ["native"], CELL["streams"], **PATH) as site:
        asked = Parameters(**CELL, **PATH, source_content="random")

        def inside_cell(prefix: str) -> tuple[float, float]:
            return interval(measure(site, asked, files(FILES), prefix, lambda *_: None))

        before = inside_cell("c0")
        [urls, *_] = site.pairs("redirector")
        secrets = site.servers.credentials
        ends = {role: {"urls": [url]} for role, url in zip(("source", "destination"), urls, strict=True)}
        settings = {
            "kind": "endpoints",
            "budget": {"bytes": 1 << 40, "time": 600},
            "max_streams": 2,
            "ca": str(secrets / "ca"),
            "credentials": {"proxy": str(secrets / "user.key")},
            "pairs": [{"name": "a-b", **ends, **PATH}],
        }
        cell = {**CELL, **PATH, "pair": "a-b", "source_content": "random"}
        arguments = [json.dumps(part) for part in (settings, cell, FILES, str(tmp_path))]
        command = namespace_command(f"{site.prefix}-client", [sys.executable, "-c", OUTSIDE, *arguments])
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "workflow")]),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        }
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        after = inside_cell("c1")
    low, high = interval(json.loads(done.stdout.splitlines()[-1]))
    # Other work on the machine slows cells down: the truth of one may be that of the cell before or after it.
    within = (min(before[0], after[0]), max(before[1], after[1]))
    assert within[0] <= high and low <= within[1], f"{low} to {high} outside; inside {before}, then {after}"


def interval(result: dict[str, Any]) -> tuple[float, float]:
    assert result["status"] == "ok", result["message"]
    return result["summary"]["throughput_low"], result["summary"]["throughput_high"]
