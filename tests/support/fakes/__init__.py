# SPDX-License-Identifier: Apache-2.0
"""A testbed that only plays, in the place of the one of this machine, wherever FOLDER is in the environment."""

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

FOLDER = "TPCSWEEP_FAKES"
"""The environment variable with the folder that the testbed reads its part from, and writes to what it did."""
HERE = Path(__file__).parent
_REPLACED = "tpcsweep.testbeds.netns.testbed"


class _Finder:
    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        found = name == _REPLACED
        return importlib.util.spec_from_file_location(name, HERE / "testbed.py") if found else None


def install() -> None:
    """Replace the testbed in this process. Jobs do it by sitecustomize.py, which Python imports at its start."""
    if FOLDER in os.environ:
        sys.meta_path.insert(0, _Finder)
