# SPDX-License-Identifier: Apache-2.0
"""What of this package runs in pods, as an archive that Python imports from: no image need have it.

So pods run the very code that drives them, and the image of a site is as good as ours.
"""

from __future__ import annotations

import ast
import functools
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tpcsweep import client, tools
from tpcsweep.testbeds.kubernetes import pod

HOME = Path(__file__).resolve().parents[3]
"""The folder that this package is in."""
RUN = (pod, client, tools)
"""Packages of which any module may be run: what stands in containers' commands, and the workers of tools."""
ZERO = (1980, 1, 1, 0, 0, 0)
"""The earliest time that an archive can give a file: the same code is the same archive."""


@functools.cache
def package_archive() -> bytes:
    """A zip file of `modules`, some 100 KiB; a ConfigMap may have a MiB."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        for _, path in sorted(modules().items()):
            entry = zipfile.ZipInfo(str(path.relative_to(HOME)), ZERO)
            made.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return held.getvalue()


def modules() -> dict[str, Path]:
    """The modules that may be run, and all of this package that those import, wherever in a module they do so."""
    found: dict[str, Path] = {}
    wanted = [
        f"{package.__name__}.{path.stem}"
        for package in RUN
        for path in Path(package.__path__[0]).glob("[!_]*.py")
    ]
    wanted.append(f"{client.__name__}.__main__")
    while wanted:
        name = wanted.pop()
        path = None if name in found else _path(name)
        if path is None:
            continue
        found[name] = path
        wanted += [name.rpartition(".")[0], *_imported(ast.parse(path.read_text()))]
    return found


def _path(name: str) -> Path | None:
    beside = HOME.joinpath(*name.split("."))
    files = (beside / "__init__.py", beside.with_suffix(".py"))
    return next((file for file in files if name.split(".")[0] == "tpcsweep" and file.exists()), None)


def _imported(node: ast.AST) -> Iterator[str]:
    """Names that may be modules, without those that are there for type checkers alone."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""
        yield from (f"{node.module}.{each.name}" for each in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imported(child)
