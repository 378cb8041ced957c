# SPDX-License-Identifier: Apache-2.0
"""Whether an image has what its pods need: ends with what it lacks.

Runs once before the first deployment, as `python3 -c`, so in words that a Python understands that is too old.
Usage: able.py PROGRAM…
"""

import shutil
import sys

PYTHON = (3, 11)


def lacking(programs: "list[str]", version: "tuple[int, ...]") -> "list[str]":
    """What there is not of some programs and of a Python that is new enough, in words."""
    missing = [name for name in programs if shutil.which(name) is None]
    if tuple(version[:2]) < PYTHON:
        missing.insert(0, "Python {}.{} or later (it has {}.{})".format(*PYTHON, *version[:2]))
    return missing


if __name__ == "__main__":
    found = lacking(sys.argv[1:], tuple(sys.version_info[:3]))
    if found:
        sys.exit("the image lacks " + ", ".join(found))
