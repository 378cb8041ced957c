# SPDX-License-Identifier: Apache-2.0
"""Check the language of docs, docstrings, comments, errors and names of tests: `python docs/prose.py` in `make lint`.

Four turns of phrase make sentences hard to read: the word "what" in place of a noun, sentences that begin with a
preposition or a pronoun, rare words, and words that lend a voice to programs. Their shares over all docs, over all
docstrings and comments, over the comments of build files and over all texts of errors may not exceed `AIMS`; those of
one file may be three times as large. Every place in a file with more is printed. Of the names of tests, only the
share with a voice or a rare word counts.
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
    "voice": re.compile(
        r"\b(told|(?:is|are|was|be) said|said (?:of|to)|hears?|heard|obeys?|obeyed|performs?|performed|poked?"
        r"|who (?:asks|knows|waits|wants))\b",
        re.IGNORECASE,
    ),
}
AIMS = {"what": 0.002, "start": 0.01, "rare": 0.0003, "voice": 0.0002}
"""Largest shares: of words, of sentences, of words, and of words."""
NAMES = 0.04
"""Largest share of the names of tests that have a voice or a rare word."""
ODD_NAME = re.compile(r"_(told|said|hears?|heard|obeys?|performs?|poked|who|whom|whoever|anew|lest)(?=_|$)")
VAGUE_NAME = re.compile(r"_*(told|said|hear|heard|obey|perform|poked|spots?|agreed|moved)")
"""Names of the package that hide what they hold: labels, a message, an answer, a placement."""
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
    whole = {
        "what": words,
        "rare": words,
        "voice": words,
        "start": sum(len(part.split()) > 3 for part in parts),
    }
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


def errors_in(source: str) -> str:
    """Return the texts of the errors that a Python file raises or returns, a paragraph each."""
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Raise)
        or (
            isinstance(node, ast.Call)
            and re.search(r"(Error|Problem|Quantity|fault|refused?)$", ast.unparse(node.func))
        )
    ]
    texts = {
        (part.lineno, part.col_offset): part.value
        for call in calls
        for part in ast.walk(call)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }
    return "\n\n".join(texts.values())


def comments_in(lines: str) -> str:
    """Return the comments of a Makefile or a TOML file, a paragraph each."""
    return "\n\n".join(re.findall(r"(?m)(?:^|\s)##? (.+)$", lines))


def odd_names(sources: Mapping[Path, str]) -> list[str]:
    """Return the names of tests that have a voice or a rare word, if they are more than `NAMES` of all."""
    names = [
        (path, name) for path, text in sources.items() for name in re.findall(r"(?m)^def (test_\w+)", text)
    ]
    odd = [f"{path.relative_to(ROOT)}: {name}" for path, name in names if ODD_NAME.search(name)]
    return odd if len(odd) > NAMES * len(names) else []


def vague_names(sources: Mapping[Path, str]) -> list[str]:
    """Return the places where a Python file uses a vague name."""
    return [
        f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}: name what it holds"
        for path, source in sources.items()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.NAME and VAGUE_NAME.fullmatch(token.string)
    ]


def main() -> None:
    """Print every place that is hard to read; exit with 1 if there are too many."""
    files = [
        path
        for suffix in ("md", "py")
        for path in ROOT.rglob(f"*.{suffix}")
        if not LEFT_OUT & {*path.relative_to(ROOT).parts}
    ]
    python = {path: path.read_text() for path in files if path.suffix == ".py"}
    package = {path: text for path, text in python.items() if path.is_relative_to(ROOT / "workflow")}
    checked = {
        "docs": {path: sentences(path.read_text()) for path in files if path.suffix == ".md"},
        "docstrings and comments": {path: sentences(written_in(text)) for path, text in package.items()},
        "errors": {path: sentences(errors_in(text)) for path, text in package.items()},
        "build files": {
            ROOT / name: sentences(comments_in((ROOT / name).read_text()))
            for name in ("Makefile", "pyproject.toml")
        },
    }
    wrong = odd_names({path: text for path, text in python.items() if path.is_relative_to(ROOT / "tests")})
    wrong += vague_names(package)
    for name, texts in checked.items():
        wrong += [f"{name}: too many of kind {kind!r}" for kind in too_many(texts, 1, 0)]
        for path, parts in texts.items():
            kinds = too_many({path: parts}, FILE, FEW)
            wrong += [
                f"{path.relative_to(ROOT)}: {kind}: {part}" for kind, part in places(parts) if kind in kinds
            ]
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
