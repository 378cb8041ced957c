# SPDX-License-Identifier: Apache-2.0
"""A cell's file as a text: JSON whose last key is a checksum of the others. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

_CHECKSUM = "checksum"


class DamagedError(ValueError):
    """A text that is no whole cell's file; the message says in what way."""


def text_of(content: Mapping[str, Any]) -> bytes:
    """Give the text of a cell's file: what it says, in this order, then the checksum."""
    return orjson.dumps({**content, _CHECKSUM: _checksum(content)})


def content_of(text: bytes) -> dict[str, Any]:
    """Give what a cell's file says, without the checksum. One that has none, as earlier files, is taken as it is.

    Raises:
        DamagedError: for what is not JSON, has no specification, or was changed after it had been written.
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
    """SHA-256 of what a file says, however its JSON is laid out."""
    return hashlib.sha256(orjson.dumps(content)).hexdigest()
