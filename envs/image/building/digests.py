# SPDX-License-Identifier: Apache-2.0
"""What the same content has the same of, anywhere: JSON to the byte, and digests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def as_json(value: Any) -> bytes:
    """Without spaces, its keys sorted."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def digest_of(content: bytes) -> str:
    """As OCI writes it, `sha256:…`."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def hash_of(file: Path) -> str:
    """The hexadecimal digits alone, of a file that need not fit into memory."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
