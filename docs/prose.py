# SPDX-License-Identifier: Apache-2.0
"""Check the language of docs, docstrings and comments: `python docs/prose.py`, part of `make lint`.

Three turns of phrase make sentences hard to read: the word "what" in place of a noun, sentences that begin with a
preposition or a pronoun, and rare words. Their shares over all docs, and over all code, may not exceed `AIMS`; those of
one file may be three times as large. Every place in a file with more is printed.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORD = re.compile(r"[A-Za-z']+")
KINDS = {
    "what": re.compile(r"\bwhat\b", re.IGNORECASE),
    "start": re.compile(r"(Of|Else|Here|So|What|Whoever|Where|None)\b"),
    "rare": re.compile(
        r"\b(anew|whoever|whom|lest|in vain|what is there|those that|thereof|whichever|whatever|wherever|none of it"
        r"|besides?|aside|as of)\b",
        re.IGNORECASE,
    ),
}
AIMS = {"what": 0.002, "start": 0.01, "rare": 0.0003}
"""Largest shares: of words, of sentences, and of words."""
FILE = 3
FEW = 2
"""Places that a short file may have anyway."""
LEFT_OUT = {".venv", ".snakemake", "results", "build", "node_modules", "shipped", ".cluster"}


def sentences(text: str) -> list[str]:
    """Return the sentences of Markdown, without code, tables and addresses."""
    for pattern, new in (("(?s)```.*?```", ""), ("`[^`]*`", "X"), (r"(?m)^\|.*$", ""), ("<[^>]+>", "")):
        text = re.sub(pattern, new, text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return [" ".join(part.split()) for part in re.split(r"(?<=[.:;!?])\s+", text)]


def places(parts: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the sentence of each place."""
    for part in parts:
        for kind, pattern in KINDS.items():
            found = [pattern.match(part)] if kind == "start" and len(part.split()) > 3 else []
            for hit in found if kind == "start" else pattern.finditer(part):
                if hit:
                    yield kind, part


def too_many(texts: Mapping[Path, list[str]], factor: int, few: int) -> list[str]:
    """Return the kinds whose share over some texts is larger than `factor` times its aim, in more than `few` places."""
    parts = [part for text in texts.values() for part in text]
    words = sum(len(WORD.findall(part)) for part in parts)
    whole = {"what": words, "rare": words, "start": sum(len(part.split()) > 3 for part in parts)}
    counts = dict.fromkeys(KINDS, 0)
    for kind, _ in places(parts):
        counts[kind] += 1
    return [kind for kind, n in counts.items() if n > max(few, factor * AIMS[kind] * whole[kind])]


def written_in(source: str) -> str:
    """Return the docstrings and comments of a Python file."""
    nodes = (
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = (token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)
    return "\n\n".join([*(text for text in nodes if isinstance(text, str)), *comments])


def main() -> None:
    """Print what is wrong; exit with 1 if anything is."""
    files = [
        path
        for suffix in ("md", "py")
        for path in ROOT.rglob(f"*.{suffix}")
        if not LEFT_OUT & {*path.relative_to(ROOT).parts}
    ]
    code = {
        path: sentences(written_in(path.read_text()))
        for path in files
        if path.is_relative_to(ROOT / "workflow") and path.suffix == ".py"
    }
    docs = {path: sentences(path.read_text()) for path in files if path.suffix == ".md"}
    wrong = []
    for name, texts in (("docs", docs), ("docstrings and comments", code)):
        wrong += [f"{name}: too many of kind {kind!r}" for kind in too_many(texts, 1, 0)]
        for path, parts in texts.items():
            kinds = too_many({path: parts}, FILE, FEW)
            wrong += [
                f"{path.relative_to(ROOT)}: {kind}: {part}" for kind, part in places(parts) if kind in kinds
            ]
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
