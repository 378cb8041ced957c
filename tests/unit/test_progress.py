# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a run: cells of jobs that run side by side are counted together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tpcsweep.running.progress import Progress, begin

JOBS, CELLS = 8, 25


def test_jobs_side_by_side_count_every_cell_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin(tmp_path, JOBS * CELLS)

    def job(name: str) -> None:
        shown = Progress("demo", tmp_path)
        for _ in range(CELLS):
            shown.begin(name)
            shown.end("ok", 1.5, "", [])

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(job, "abcdefgh"))
    said = capsys.readouterr().err
    assert {f"cell {n}/{JOBS * CELLS} " in said for n in range(1, JOBS * CELLS + 1)} == {True}
    Progress("demo", tmp_path).end("ok", 1.5, "", ["wide_interval", "disturbed", "deployment_broken"])
    assert "1.5 Gbit/s [invalid: deployment broke] [warning: machine disturbed]" in capsys.readouterr().err
    Progress("demo", tmp_path).end("failed", None, "gave up", [])
    assert f"cell {JOBS * CELLS + 2}/{JOBS * CELLS + 2} : failed: gave up" in capsys.readouterr().err
