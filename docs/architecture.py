# SPDX-License-Identifier: Apache-2.0
"""Make the picture and the table of packages in docs/developing.md from the imports: `make docs`.

The floors are those of pyproject.toml, which `make lint` holds the imports to; everything else is read from the code.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "workflow" / "tpcsweep"
PAGE = ROOT / "docs" / "developing.md"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

WIDTH, HEIGHT, BETWEEN, MARGIN = 150, 40, 48, 24
"""Of a room, between floors, around all; in pixels."""

Arrows = Mapping[str, frozenset[str]]
"""What each room imports."""


def floors() -> list[list[str]]:
    """Give the rooms of each floor, from the highest one down, as pyproject.toml has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = next(each for each in settings["tool"]["importlinter"]["contracts"] if each.get("exhaustive"))
    return [re.split(r"\s*[|:]\s*", layer) for layer in contract["layers"]]


def arrows(rooms: Sequence[str]) -> Arrows:
    """Give the rooms that each room imports, wherever in a module it does so."""
    graph = grimp.build_graph("tpcsweep", cache_dir=None)
    for room in rooms:
        graph.squash_module(f"tpcsweep.{room}")
    return {
        room: frozenset(
            name.removeprefix("tpcsweep.")
            for name in graph.find_modules_directly_imported_by(f"tpcsweep.{room}")
        )
        - {room}
        for room in rooms
    }


def needed(imports: Arrows) -> Arrows:
    """Leave out what follows from other arrows: an import that is also made by something imported."""

    def below(room: str) -> frozenset[str]:
        return imports[room].union(*map(below, imports[room]))

    return {room: targets - frozenset().union(*map(below, targets)) for room, targets in imports.items()}


def about(room: str) -> str:
    """Give the first sentence of a package's or module's docstring."""
    file = PACKAGE / room / "__init__.py"
    docstring = ast.get_docstring(ast.parse((file if file.exists() else PACKAGE / f"{room}.py").read_text()))
    return re.split(r"(?<=\.)\s|\n\n", docstring or "")[0].replace("\n", " ").rstrip(".")


def inside(room: str) -> list[str]:
    """Give the packages inside a package."""
    return sorted(file.parent.name for file in (PACKAGE / room).glob("*/__init__.py"))


def drawn(rows: Sequence[Sequence[str]], imports: Arrows) -> str:
    """Draw floors as rows of rooms with arrows between them, as SVG; none to the lowest row, which all may import."""
    wide = max(len(row) for row in rows) * (WIDTH + MARGIN) + 2 * MARGIN
    tall = len(rows) * (HEIGHT + BETWEEN) - BETWEEN + 2 * MARGIN
    places = {
        # Every other floor is shifted, so that an arrow past a room beside it is seen.
        room: (
            (wide - MARGIN) * (column + 0.5) / len(row) - WIDTH / 2 + floor % 2 * MARGIN,
            MARGIN + floor * (HEIGHT + BETWEEN),
        )
        for floor, row in enumerate(rows)
        for column, room in enumerate(row)
    }
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{tall}" viewBox="0 0 {wide} {tall}" '
        'font-family="sans-serif" text-anchor="middle">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#456"/></marker></defs>',
        f'<rect width="{wide}" height="{tall}" fill="white"/>',
    ]
    for room, targets in imports.items():
        for target in sorted(targets.difference(rows[-1])):
            (x, y), (to_x, to_y) = places[room], places[target]
            x, to_x, y = x + WIDTH / 2, to_x + WIDTH / 2, y + HEIGHT
            # Down at first and at the end, so that an arrow across floors leaves the rooms between them readable.
            bend = (to_y - y) / 2
            lines.append(
                f'<path d="M{x:g} {y:g} C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}" '
                'fill="none" stroke="#456" stroke-opacity="0.55" marker-end="url(#tip)"/>'
            )
    for room, (x, y) in places.items():
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="#eef3f8" stroke="#456"/>'
        )
        parts = inside(room)
        lines.append(
            f'<text x="{x + WIDTH / 2:g}" y="{y + (17 if parts else 25):g}" font-size="14">{escape(room)}</text>'
        )
        if parts:
            lines.append(
                f'<text x="{x + WIDTH / 2:g}" y="{y + 32:g}" font-size="9" fill="#567">'
                f"{escape(', '.join(parts))}</text>"
            )
    return "\n".join([*lines, "</svg>", ""])


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table with the first sentence about each package, the highest floor first."""
    lines = [f"| `{room}` | {about(room)} |" for row in rows for room in row]
    return "\n".join(["| package | about |", "|---|---|", *lines])


def made() -> dict[Path, str]:
    """Give the texts of the files that this makes."""
    rows = floors()
    imports = arrows([room for row in rows for room in row])
    page = re.sub(
        r"(?s)(?<=<!-- made by architecture.py -->\n).*?(?=<!-- end -->)",
        lambda _: table(rows) + "\n",
        PAGE.read_text(),
    )
    return {PAGE: page, PICTURE: drawn(rows, needed(imports))}


if __name__ == "__main__":
    for file, text in made().items():
        file.write_text(text)
