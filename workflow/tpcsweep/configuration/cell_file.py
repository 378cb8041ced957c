# SPDX-License-Identifier: Apache-2.0
"""A cell's file as bytes: JSON whose last key is a checksum of the other keys. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

_CHECKSUM = "checksum"


class DamagedError(ValueError):
    """Bytes that are not a complete cell file; the message names the damage."""


def text_of(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a cell's file: the content in its order, then the checksum."""
    return orjson.dumps({**content, _CHECKSUM: _checksum(content)})


def content_of(text: bytes) -> dict[str, Any]:
    """Return the content of a cell's file without its checksum; older files without one are not verified.

    Raises:
        DamagedError: for bytes that are not JSON, contain no specification, or have another checksum.
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
