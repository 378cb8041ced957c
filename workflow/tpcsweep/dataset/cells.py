"""Cells' files read and checked, before they are folded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

FORMAT = 1
"""The version of cell files that this reads."""


class DatasetError(ValueError):
    """Cell files that do not fold into one dataset; the text names the file and what to do."""


def read(path: Path) -> dict[str, Any]:
    """Give the content of a cell's file.

    Raises:
        DatasetError: for a file that is no cell file of this format.
        OSError: for a file that cannot be read.
    """
    try:
        cell = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DatasetError(f"{path}: not JSON: {error}") from error
    if not isinstance(cell, dict) or cell.get("format") != FORMAT or not isinstance(cell.get("spec"), dict):
        given = cell.get("format") if isinstance(cell, dict) else None
        raise DatasetError(
            f"{path}: not a cell file of format {FORMAT} (its format is {given!r}): "
            "delete the file and run snakemake again"
        )
    return cell


def check_wanted(path: Path, spec: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise DatasetError where a cell was measured under another specification than the wanted one."""
    if spec != wanted:
        raise DatasetError(
            f"{path}: measured under another specification: {differences(spec, wanted)}; "
            "delete the file and run snakemake again"
        )


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> str:
    """Say which keys differ, nested ones with dots: parameters.rtt is 10, not 20."""
    texts = []
    for name in dict.fromkeys((*found, *wanted)):
        ours, theirs = found.get(name), wanted.get(name)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            texts += [differences(ours, theirs, f"{prefix}{name}.")] if ours != theirs else []
        elif ours != theirs or (name in found) != (name in wanted):
            texts.append(f"{prefix}{name} is {_given(found, name)}, not {_given(wanted, name)}")
    return ", ".join(texts)


def _given(mapping: Mapping[str, Any], name: str) -> str:
    return orjson.dumps(mapping[name]).decode() if name in mapping else "absent"
