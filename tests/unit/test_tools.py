from __future__ import annotations

from pathlib import Path

import pytest
from tpcsweep.tools import TOOLS, Credentials, Tool, Transfer, Worker

CREDENTIALS, HOME = Credentials(Path("/c")), Path("/home")
PROGRAMS: dict[str, Tool] = {name: tool for name, tool in TOOLS.items() if not isinstance(tool, Worker)}
PULL = Transfer("https://s/data/f", "https://d/data/g", "pull")
PUSH = Transfer("https://s/data/f", "https://d/data/g", "push", tcp_streams=1)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_the_environment_has_nothing_of_the_callers(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEARER_TOKEN", "somebody's")
    monkeypatch.setenv("X509_USER_PROXY", "somebody's")
    assert "somebody's" not in tool.environment(CREDENTIALS, HOME).values()


@pytest.mark.parametrize("tool", PROGRAMS.values(), ids=PROGRAMS)
def test_both_ends_are_named_in_either_mode(tool: Tool) -> None:
    for transfer in (PULL, PUSH):
        command = " ".join(tool.command(transfer, CREDENTIALS, HOME))
        assert transfer.source in command
        assert transfer.destination in command


def test_gfal_copy_never_falls_back_to_streaming() -> None:
    command = PROGRAMS["gfal-copy"].command(PULL, CREDENTIALS, HOME)
    assert command[command.index("--copy-mode") + 1] == "pull"


def test_gfal_copy_passes_streams_inside_a_transfer() -> None:
    command = PROGRAMS["gfal-copy"].command(Transfer("s", "d", "pull", tcp_streams=4), CREDENTIALS, HOME)
    assert command[command.index("-n") + 1] == "4"


def test_gfal_copy_fails_by_its_exit_code() -> None:
    tool = PROGRAMS["gfal-copy"]
    assert tool.failure(0, "Copying … [DONE]") is None
    assert tool.failure(17, "Copying x\ngfal-copy error: 17 (File exists)") == (
        "exit code 17 (destination exists): gfal-copy error: 17 (File exists)"
    )
    assert tool.failure(5, "") == "exit code 5 (input/output error): no message"


def test_curl_fails_by_the_body_even_with_exit_code_0() -> None:
    tool = PROGRAMS["curl"]
    assert tool.failure(0, "Perf Marker\nEnd\nsuccess: Created\n") is None
    assert "failure: rejected" in str(tool.failure(0, "Perf Marker\nEnd\nfailure: rejected\n"))
    assert tool.failure(7, "") == "exit code 7: no answer"


def test_curl_asks_the_active_end() -> None:
    tool = PROGRAMS["curl"]
    assert tool.command(PULL, CREDENTIALS, HOME)[-1] == PULL.destination
    assert tool.command(PUSH, CREDENTIALS, HOME)[-1] == PUSH.source
    assert f"Destination: {PUSH.destination}" in tool.command(PUSH, CREDENTIALS, HOME)
