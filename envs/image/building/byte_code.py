# SPDX-License-Identifier: Apache-2.0
"""Byte code for the image's Python, which is 3.11."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .layers import Layer
from .machine import require_machine
from .messages import ImageError
from .private import in_private
from .tars import File

COMPILE = """
import importlib.util, json, marshal, sys
header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")  # checked against no source (PEP 552)
for name, text in json.load(sys.stdin).items():
    source = text.encode()
    code = marshal.dumps(compile(source, name, "exec", dont_inherit=True))
    print(name, (header + importlib.util.source_hash(source) + code).hex(), sep="\\0")
"""
COMPILE_INSIDE = """
mkdir root
tar --extract --file="$DEBIAN" --directory=root
chroot root python3 -SB -c "$COMPILE" <"$SOURCES"
"""


def byte_code(files: Mapping[str, File], debian: Layer) -> dict[str, File]:
    """What Python 3.11 makes of the .py files among these, under the paths where it looks for it.

    The image's own Python makes it where this machine has none of its version, as Debian 13 has not.
    """
    sources = {path: file.content.decode() for path, file in sorted(files.items()) if path.endswith(".py")}
    told = json.dumps({f"/{path}": text for path, text in sources.items()})
    python = interpreter()
    compiled = _compiled_by(python, told) if python else _compiled_inside(debian, told)
    made = {}
    for line in compiled.splitlines():
        name, _, code = line.partition("\0")
        path = Path(name[1:])
        made[str(path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc")] = File(bytes.fromhex(code))
    return made


def interpreter() -> str | None:
    """A Python 3.11 of this machine."""
    return sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")


def _compiled_by(python: str, sources: str) -> str:
    """In a process of its own: what marshal writes depends on what else a process has seen."""
    done = subprocess.run(
        [python, "-SB", "-c", COMPILE],
        input=sources,
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ImageError(f"byte code: {' '.join(done.stderr.split()) or 'the compiler was killed'}")
    return done.stdout


def _compiled_inside(debian: Layer, sources: str) -> str:
    """In the image, unpacked in memory: a few seconds."""
    require_machine()
    with tempfile.NamedTemporaryFile("w") as told, tempfile.TemporaryFile() as out:
        told.write(sources)
        told.flush()
        environment = {
            "DEBIAN": str(debian.file),
            "SOURCES": told.name,
            "COMPILE": COMPILE,
            "PYTHONHASHSEED": "0",
        }
        in_private(COMPILE_INSIDE, environment, out, "the image's Python")
        out.seek(0)
        return out.read().decode()
