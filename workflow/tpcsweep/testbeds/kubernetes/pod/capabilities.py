# SPDX-License-Identifier: Apache-2.0
"""Fail with the programs that an image lacks.

Runs before the first deployment as `python3 -c`, in a syntax that old Pythons understand.
Usage: capabilities.py PROGRAM…
"""

import shutil
import sys

PYTHON = (3, 11)


def lacking(programs: "list[str]", version: "tuple[int, ...]") -> "list[str]":
    """Return the missing programs, and Python if its version is too old."""
    missing = [name for name in programs if shutil.which(name) is None]
    if tuple(version[:2]) < PYTHON:
        missing.insert(0, "Python {}.{} or later (it has {}.{})".format(*PYTHON, *version[:2]))
    return missing


if __name__ == "__main__":
    lacks = lacking(sys.argv[1:], tuple(sys.version_info[:3]))
    if lacks:
        sys.exit("the image lacks " + ", ".join(lacks))
