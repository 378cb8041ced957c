# SPDX-License-Identifier: Apache-2.0
"""What a tool cannot do is refused before anything is deployed, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpcsweep.tools import TOOLS

from tests.support.projects import cases, problems

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
        gfal2 asks for macaroons by https alone
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
        *(
            f"tool: {one.name}, copy_mode: {one.copy_modes[0]}, layer: {one.layers[0]}"
            for one in TOOLS.values()
        ),
    ],
)
def test_every_tool_and_data_in_the_clear_can_be_had(root: Path, parameters: str) -> None:
    assert problems(root, f"parameters: {{{parameters}}}") == []
