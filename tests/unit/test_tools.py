# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.tools import TOOLS, Credentials, Place, Program, Tool, Transfer, xrdcp

from tests.support.projects import cases, problems

CREDENTIALS, HOME = Credentials(Path("/c")), Path("/home")
PROGRAMS = {name: tool for name, tool in TOOLS.items() if isinstance(tool, Program)}
SOURCE, DESTINATION = "https://10.0.0.1:8080/data/f", "https://10.0.0.2:8080/data/g"
FILE = Transfer(SOURCE, DESTINATION, "push", source_file="/here/f", destination_file="/there/g")
PLACES: tuple[Place, ...] = ("source", "destination")
CLEAR = {"encryption": "none"}


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_the_environment_has_nothing_of_the_callers(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEARER_TOKEN", "somebody's")
    monkeypatch.setenv("X509_USER_PROXY", "somebody's")
    assert "somebody's" not in tool.environment(CREDENTIALS, HOME).values()


@pytest.mark.parametrize(
    ("tool", "asked", "ends"),
    [
        ("davix-put", {}, ["/here/f", DESTINATION]),
        ("davix-get", {}, [SOURCE, "/there/g"]),
        ("xrdcp", {}, ["root://10.0.0.1:8080//data/f", "root://10.0.0.2:8080//data/g"]),
        ("xrdcp-direct", {}, ["/here/f", "root://10.0.0.2:8080//data/g"]),
        ("globus-url-copy", {}, ["ftp://10.0.0.1:2811/here/f", "ftp://10.0.0.2:2811/there/g"]),
        # Data in the clear are asked for by http, and the copy by https.
        ("gfal-copy", {"copy_mode": "pull", **CLEAR}, ["http://10.0.0.1:8080/data/f", DESTINATION]),
        ("gfal-copy", CLEAR, [SOURCE, "http://10.0.0.2:8080/data/g"]),
        ("davix-put", CLEAR, ["/here/f", "http://10.0.0.2:8080/data/g"]),
        ("davix-get", {"copy_mode": "pull", **CLEAR}, ["http://10.0.0.1:8080/data/f", "/there/g"]),
    ],
)
def test_each_end_is_named_as_the_tool_reaches_it(tool: str, asked: dict[str, Any], ends: list[str]) -> None:
    assert PROGRAMS[tool].command(replace(FILE, **asked), CREDENTIALS, HOME)[-2:] == ends


@pytest.mark.parametrize("copy_mode", ["pull", "push"])
def test_curl_tells_the_end_that_copies_where_the_data_are(copy_mode: str) -> None:
    for encryption, scheme in (("usual", "https"), ("tls", "https"), ("none", "http")):
        asked = replace(FILE, copy_mode=copy_mode, encryption=encryption)
        active, header, passive = asked.ends
        command = PROGRAMS["curl"].command(asked, CREDENTIALS, HOME)
        assert command[-1] == active
        assert f"{header}: {scheme}://{passive.removeprefix('https://')}" in command


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_nothing_of_the_users_is_shown_to_those_who_ask_for_nothing(tool: Tool, tmp_path: Path) -> None:
    let_in = Credentials(tmp_path, "none")
    shown = {*tool.environment(let_in, HOME).values()}
    if isinstance(tool, Program):
        tool.prepare(FILE, let_in, tmp_path)
        shown.update(tool.command(FILE, let_in, HOME))
    assert not shown & {str(let_in.certificate), str(let_in.key)}
    if tool.name == "curl":
        assert (tmp_path / "headers").read_text() == "Credential: none\n"


@pytest.mark.parametrize("name", ["gfal-copy", "xrdcp", "xrdcp-direct", "globus-url-copy", "iperf3"])
def test_streams_inside_a_transfer_are_passed(name: str) -> None:
    one, four = (PROGRAMS[name].command(replace(FILE, tcp_streams=n), CREDENTIALS, HOME) for n in (1, 4))
    assert one != four


def test_a_third_party_copy_never_goes_through_the_client() -> None:
    for name, option, value in (("xrdcp", "--tpc", "only"), ("gfal-copy", "--copy-mode", "push")):
        command = PROGRAMS[name].command(FILE, CREDENTIALS, HOME)
        assert command[command.index(option) + 1] == value


def test_xrdcp_has_the_connections_asked_for_in_every_release(monkeypatch: pytest.MonkeyPatch) -> None:
    for release, told in {(5, 5, 3): "3", (5, 6, 7): "4", (6, 2, 0): "4"}.items():
        monkeypatch.setattr(xrdcp, "_release", lambda release=release: release)
        command = PROGRAMS["xrdcp"].command(replace(FILE, tcp_streams=4), CREDENTIALS, HOME)
        assert command[command.index("--streams") + 1] == told
        assert "--streams" not in PROGRAMS["xrdcp"].command(FILE, CREDENTIALS, HOME)


def test_each_stream_of_iperf3_has_a_server_at_the_destination_and_gridftp_one_at_each_side() -> None:
    tool = PROGRAMS["iperf3"]
    assert tool.services("source", "10.0.0.1", 3) == []
    services = tool.services("destination", "10.0.0.2", 3)
    assert [service.port for service in services] == [5201, 5202, 5203]
    command = tool.command(replace(FILE, stream=2), CREDENTIALS, HOME)
    assert command[command.index("--client") + 1] == "10.0.0.2"
    assert command[command.index("--port") + 1] == str(services[2].port)
    for place in PLACES:
        [service] = TOOLS["globus-url-copy"].services(place, "10.0.0.2", 3)
        assert "GLOBUS_HOSTNAME=10.0.0.2" in service.command


@pytest.mark.parametrize(
    ("tool", "code", "output", "said"),
    [
        ("davix-put", 255, "Performing Put\n(Davix::HttpRequest) Error: 403\n", "Error: 403"),
        ("xrdcp", 54, "\nRun: [ERROR] no such file\0\n", "(the server refused): Run: [ERROR] no such file"),
        ("globus-url-copy", 1, "\nerror: globus\n500 refused\n", "error: globus | 500 refused"),
        ("iperf3", 1, "Connecting\niperf3: error - unable to connect\n", "error - unable to connect"),
        ("gfal-copy", 17, "Copying\ngfal-copy: exists", "(destination exists): gfal-copy: exists"),
        ("curl", 0, "Perf Marker\nEnd\nfailure: rejected\n", "exit code 0: failure: rejected"),
    ],
)
def test_failures_are_told_in_the_tools_own_words(tool: str, code: int, output: str, said: str) -> None:
    well = "Perf Marker\nEnd\nsuccess: Created\n" if tool == "curl" else ""
    assert PROGRAMS[tool].failure(0, well) is None
    assert str(PROGRAMS[tool].failure(code, output)).endswith(said)
    assert str(PROGRAMS[tool].failure(code, "")).endswith("no message")


OTHERS = " or ".join(name for name in TOOLS if name != "iperf3")
REFUSED = f"""
tool: davix-put
    copy_mode (left out): given pull with tool davix-put, allowed: push: the source opens davix-put's connections
tool: davix-get, tcp_streams: 2
    tcp_streams: given 2 with tool davix-get, copy_mode pull, allowed: 1: davix-get moves a file with one request
tool: xrdcp, tcp_streams: 16
    tcp_streams: given 16 with tool xrdcp, copy_mode pull, allowed: at most 15: the limit of xrdcp --streams
tool: davix-get, origins: [1, 2]
    origins[1]: given 2 with tool davix-get, allowed: 1: davix-get runs at the destination, in the network and under
        the CPU quota of its one origin
tool: globus-url-copy, copy_mode: push, origins: 2
    endpoint (left out): given redirector with tool globus-url-copy, origins 2, allowed: direct: only XRootD has
        redirectors, and globus-url-copy speaks gridftp
tool: iperf3, copy_mode: push, layer: network, encryption: tls
    encryption: given tls with tool iperf3, authorization usual, allowed: usual or none: iperf3's data are not
        encrypted
encryption: none
    encryption: given none with tool gfal-copy, authorization usual, allowed: usual or tls, or authorization none:
        gfal2 requests macaroons by https only
tool: davix-get, encryption: none
    encryption: given none with tool davix-get, authorization usual, allowed: usual or tls, or authorization none: a
        certificate is shown by https alone
tool: curl, encryption: none, origins: [1, 2]
    encryption: given none with tool curl, endpoint redirector, origins 2, allowed: usual or tls, or endpoint
        direct: redirectors send everybody on by https
tool: davix-get, authorization: macaroons
    authorization: given macaroons with tool davix-get, allowed: usual or none: davix-get shows no macaroon
layer: network
    layer: given network with tool gfal-copy, allowed: memory_to_memory or memory_to_disk or disk_to_disk with
        gfal-copy; network needs the tool iperf3
tool: iperf3, copy_mode: push
    layer (left out): given memory_to_memory with tool iperf3, allowed: network with iperf3; memory_to_memory needs
        the tool {OTHERS}
layer: disk_to_disk
    source_content (left out): given sparse with layer disk_to_disk, allowed: random: holes are not read from a disk
layer: disk_to_disk, source_content: random, streams: 4, file_size: 1 GiB
    file_size: given 1 GiB with streams 4, source_content random, layer disk_to_disk, allowed: at most 819 MiB: 10
        files in 8 GiB, free at /var/lib/tpcsweep (disk in config/testbeds/one.yaml)
"""


@pytest.mark.parametrize(("parameters", "messages"), cases(REFUSED))
def test_what_a_tool_cannot_do(root: Path, parameters: str, messages: list[str]) -> None:
    said = [f"config/sweeps/one.yaml: parameters.{message}" for message in messages]
    assert problems(root, f"parameters: {{{parameters}}}") == said


def test_memory_is_no_disk_and_files_on_a_disk_need_no_memory(root: Path) -> None:
    assert problems(root, "parameters: {layer: memory_to_disk}", disk_kind="tmpfs") == [
        "config/sweeps/one.yaml: parameters.layer: given memory_to_disk, allowed: network or memory_to_memory: "
        "/var/lib/tpcsweep (disk in config/testbeds/one.yaml) is on tmpfs, which is memory"
    ]
    sweep = "parameters: {layer: disk_to_disk, source_content: random, file_size: 512 MiB}"
    assert problems(root, sweep, memory=1024) == []


@pytest.mark.parametrize(
    "parameters",
    [
        "tool: [curl, native], encryption: [usual, tls, none], authorization: [usual, macaroons, none]",
        "tool: [gfal-copy, gfal2, davix-get], encryption: [usual, tls, none], authorization: none",
        "tool: curl, encryption: none, origins: 2, endpoint: direct",
        "tool: xrdcp, encryption: [usual, none], authorization: [usual, none], origins: 2",
        *(f"tool: {t.name}, copy_mode: {t.copy_modes[0]}, layer: {t.layers[0]}" for t in TOOLS.values()),
    ],
)
def test_every_tool_and_data_in_the_clear_can_be_had(root: Path, parameters: str) -> None:
    assert problems(root, f"parameters: {{{parameters}}}") == []
