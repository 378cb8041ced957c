# SPDX-License-Identifier: Apache-2.0
"""What is said to whoever builds."""

from __future__ import annotations

import sys


class ImageError(RuntimeError):
    """The image cannot be built; the text says what is missing and what to do."""


def say(text: str) -> None:
    """Tell how far it is, or why it ends."""
    sys.stderr.write(f"image: {text}\n")
