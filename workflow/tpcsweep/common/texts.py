# SPDX-License-Identifier: Apache-2.0
"""Texts for people. Standard library only."""


def capital(text: str) -> str:
    """Return a text that begins with a capital letter, and is otherwise as it was, as in "CPU"."""
    return f"{text[:1].upper()}{text[1:]}"
