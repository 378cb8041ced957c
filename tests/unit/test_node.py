# SPDX-License-Identifier: Apache-2.0
"""The start of servers, how they end, and the probes of a side."""

import subprocess
from pathlib import Path
from unittest import mock

import pytest
from tpcsweep.testbeds.netns.servers import DeploymentProcess
from tpcsweep.testbeds.node import starting
from tpcsweep.xrootd import servers as xrootd

ORIGINS = "src1 cmsd, src2 cmsd, src1 ready, src1 xrootd, src2 ready, src2 xrootd"


@pytest.mark.parametrize(
    ("origins", "expected"), [(1, "src1 xrootd"), (2, f"srcm cmsd, srcm ready, srcm xrootd, {ORIGINS}")]
)
def test_redirectors_start_before_origins_and_cmsd_before_xrootd(origins: int, expected: str) -> None:
    side = xrootd.side("src", "a", ["b", "c"][:origins], Path(), Path())
    seen: list[str] = []
    start = lambda server, program: seen.append(f"{server.name} {program}")  # noqa: E731
    starting.start_servers(side.servers, start, lambda server: start(server, "ready"))
    assert ", ".join(seen) == expected


def test_a_side_is_ready_when_its_redirector_has_sent_to_each_origin() -> None:
    get = mock.Mock(side_effect=[(0, ""), (200, ""), (200, ""), (307, "b:1"), (307, "b:1"), (307, "c:1")])
    for probe in starting.probes("a:1", ["b:1", "c:1"], get):
        while not probe.ready():
            pass
    assert [call.args for call in get.call_args_list] == [(f"{name}:1",) for name in "bbcaaa"]


@pytest.mark.parametrize(
    ("command", "how"), [("kill -SEGV $$", "was killed by SIGSEGV"), ("exit 3", "ended with exit code 3")]
)
def test_how_a_process_has_ended_with_its_last_words(tmp_path: Path, command: str, how: str) -> None:
    own, stderr = tmp_path / "own.log", tmp_path / "stderr.log"
    with subprocess.Popen(["sh", "-c", f"read go; {command}"], stdin=subprocess.PIPE) as child:
        process = DeploymentProcess("dst1: xrootd", child, (own, stderr))
        assert process.end() is None
        child.stdin.close()
        child.wait()
    assert process.end() == f"dst1: xrootd {how}"
    stderr.write_text("cannot be configured\n")
    assert process.end() == f"dst1: xrootd {how}; its last words: cannot be configured"
    own.write_text("started\nCOPY with Bearer MDAxsecret\n\n")
    assert process.end() == f"dst1: xrootd {how}; its last words: COPY with Bearer [removed]"
