# SPDX-License-Identifier: Apache-2.0
"""A cell's file as a text: JSON whose last key is a checksum of the others. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

_CHECKSUM = "checksum"


class DamagedError(ValueError):
    """A text that is no whole cell's file; the message names the damage."""


def text_of(content: Mapping[str, Any]) -> bytes:
    """Return the text of a cell's file: its content in this order, then the checksum."""
    return orjson.dumps({**content, _CHECKSUM: _checksum(content)})


def content_of(text: bytes) -> dict[str, Any]:
    """Return the content of a cell's file, without the checksum. Earlier files have no checksum and are not verified.

    Raises:
        DamagedError: for a text that is not JSON, has no specification, or was changed after it was written.
    """
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise DamagedError(f"not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("spec"), dict):
        raise DamagedError("no specification is in it")
    noted = content.pop(_CHECKSUM, None)
    if noted is not None and noted != _checksum(content):
        raise DamagedError("changed after it was written: its checksum is not that of its content")
    return content


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of a file's content, independent of the layout of its JSON."""
    return hashlib.sha256(orjson.dumps(content)).hexdigest()
