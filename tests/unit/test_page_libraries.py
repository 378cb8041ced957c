# SPDX-License-Identifier: Apache-2.0
"""Libraries that pages contain: their files, versions and licences."""

import hashlib
import json
import tomllib

from tpcsweep.pages.rendering import LIBRARIES

from tests.support.workflow import ROOT


def test_libraries_are_those_of_the_lock() -> None:
    libraries = tomllib.loads((LIBRARIES / "libraries.toml").read_text())["library"]
    locked = json.loads((ROOT / "tests/npm/package-lock.json").read_text())["packages"]
    for each in libraries:
        assert hashlib.sha256((LIBRARIES / each["file"]).read_bytes()).hexdigest() == each["sha256"]
        assert locked[f"node_modules/{each['package']}"]["version"] == each["version"]
        assert each["file"] in (LIBRARIES / "LICENSE.txt").read_text()
    assert {each["file"] for each in libraries} == {file.name for file in LIBRARIES.glob("*.js")}
