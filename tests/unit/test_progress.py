# SPDX-License-Identifier: Apache-2.0
"""The lines of a run: one a deployment, with the cells of jobs side by side counted together."""

import io
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.measure.steady import analyse
from tpcsweep.numbers import between
from tpcsweep.running.progress import JobProgress, begin_progress

JOBS, CELLS = 8, 25


def test_jobs_side_by_side_count_every_cell_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin_progress(tmp_path, JOBS * CELLS)

    def job(name: str) -> None:
        with JobProgress("demo", name, tmp_path) as shown:
            for cell in range(CELLS):
                shown.look(None, 0.1)
                shown.look(analyse(np.ones(100), 0.1, 0.95), 10.0)
                shown.end(f"streams={cell}", "ok", 1.5, [])

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(job, "abcdefgh"))
    lines = capsys.readouterr().err.splitlines()
    told = [f"demo: {job}: 25 cells" for job in "abcdefgh"]
    assert sorted(line.partition(", ")[0] for line in lines) == told
    assert any(f" {JOBS * CELLS}/{JOBS * CELLS} cells" in line for line in lines)


Ended = tuple[str, float, list[str]]
ENDED = st.tuples(
    st.sampled_from(["ok", "failed"]),
    st.floats(0.001, 400),
    st.lists(st.sampled_from(["disturbed", "wide_interval"]), unique=True),
)


@given(cells=st.lists(ENDED, min_size=1, max_size=9), skipped=st.integers(0, 3), more=st.integers(0, 9))
def test_a_line_says_what_became_of_every_cell(cells: list[Ended], skipped: int, more: int) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        error = io.StringIO()
        patched.setattr("sys.stderr", error)
        begin_progress(Path(name), len(cells) + skipped + more)
        with JobProgress("demo", "rtt=5", Path(name)) as shown:
            for number, (status, throughput, flags) in enumerate(cells):
                shown.end(f"streams={number}", status, throughput if status == "ok" else None, flags)
            if skipped:
                shown.skip(skipped, "no path")
    *before, line = error.getvalue().splitlines()
    count = len(cells) + skipped
    assert line.startswith(f"demo: rtt=5: {count} cell{'s' * (count > 1)}")
    rates = [throughput for status, throughput, _ in cells if status == "ok"]
    assert not rates or f", {between(min(rates), max(rates))} Gbit/s" in line
    failed = sum(status == "failed" for status, *_ in cells)
    disturbed = sum("disturbed" in flags for *_, flags in cells)
    for number, word in ((failed, "failed"), (disturbed, "machine disturbed")):
        assert (f", {number} {word}" in line) == bool(number)
    assert f" · {count}/{count + more} cells" in line
    assert bool(re.search(r"about \d+ (?:s|min) left$", line)) == bool(more)
    said = f"demo: rtt=5: {skipped} cell{'s' * (skipped > 1)} not measured: no path"
    assert before == ([said] if skipped else [])


def test_a_second_measurement_of_a_cell_replaces_the_first_in_the_line(tmp_path: Path, capsys: Any) -> None:
    begin_progress(tmp_path, 1)
    with JobProgress("demo", "rtt=5", tmp_path) as shown:
        shown.end("streams=1", "failed", None, ["disturbed"])
        shown.end("streams=1", "ok", 1.5, [])
    line = r"demo: rtt=5: 1 cell, 1.5 to 1.5 Gbit/s, \d+ s · 1/1 cells\n"
    assert re.fullmatch(line, capsys.readouterr().err)


def test_a_job_without_cells_and_one_that_fails_print_no_line(tmp_path: Path, capsys: Any) -> None:
    # As in a module, whose workflow did not begin the run.
    with JobProgress("demo", "rtt=5", tmp_path) as shown:
        shown.stage("deploying rtt=5")
    with pytest.raises(KeyError), JobProgress("demo", "rtt=5", tmp_path) as shown:
        shown.end("streams=1", "ok", 1.0, [])
        raise KeyError
    assert capsys.readouterr().err == ""
    shown.stage("waiting for another user's run")
    assert capsys.readouterr().err == "demo: waiting for another user's run\n"
