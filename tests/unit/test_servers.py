# SPDX-License-Identifier: Apache-2.0
"""The description of a process that has died."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tpcsweep.testbeds.netns.servers import DeploymentProcess


@pytest.mark.parametrize(
    ("command", "how"), [("kill -SEGV $$", "was killed by SIGSEGV"), ("exit 3", "ended with exit code 3")]
)
def test_how_a_process_has_ended_with_its_last_words(tmp_path: Path, command: str, how: str) -> None:
    own, stderr = tmp_path / "own.log", tmp_path / "stderr.log"
    with subprocess.Popen(["sh", "-c", f"read go; {command}"], stdin=subprocess.PIPE) as child:
        process = DeploymentProcess("dst1: xrootd", child, (own, stderr))
        assert process.end() is None
        assert child.stdin
        child.stdin.close()
        child.wait()
    assert process.end() == f"dst1: xrootd {how}"
    stderr.write_text("cannot be configured\n")
    assert process.end() == f"dst1: xrootd {how}; its last words: cannot be configured"
    own.write_text("started\nCOPY with Bearer MDAxsecret\n\n")
    assert process.end() == f"dst1: xrootd {how}; its last words: COPY with Bearer [removed]"
