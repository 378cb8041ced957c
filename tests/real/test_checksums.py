# SPDX-License-Identifier: Apache-2.0
"""Checksums of files by tool, and servers whose files are not those that their checksums name."""

import os
import re

import pytest
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.sites import MIB, arrives, copied, files, whole

TOOLS_BY_CHECKSUM = [(name, checksum) for name, tool in TOOLS.items() for checksum in tool.checksums]


@pytest.mark.parametrize(("tool", "checksum"), TOOLS_BY_CHECKSUM)
def test_a_file_is_compared_with_its_source(pair: NetnsSite, tool: str, checksum: str) -> None:
    arrives(pair, tool, checksum=checksum)
    if tool == "xrdcp-direct":  # it computes that of the source itself
        return
    # A server that keeps checksums answers with that of the content before.
    kept = {file: (file.read_bytes(), file.stat()) for file in pair.sides["src"].files.glob("random*")}
    try:
        for source, (_, times) in kept.items():
            with source.open("r+b") as file:
                file.write(bytes(64))
            os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
        _, ended = copied(pair, tool, checksum=checksum)
    finally:
        for source, (content, _) in kept.items():
            source.write_bytes(content)
    assert re.search("checksum|differs", str(ended["failure"]), re.IGNORECASE), ended
    pair.settle()


def test_the_time_for_checksums_is_seen(pair: NetnsSite) -> None:
    spent = []
    for checksum in ("none", "md5"):
        how = {"tool": "native", "checksum": checksum, "streams": 2, "source_content": "random"}
        spent.append(whole(pair, files(3), **how, file_size=16 * MIB)["summary"]["outside_copy"])
    assert 0 < spent[0] < spent[1]
