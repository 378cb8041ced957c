# SPDX-License-Identifier: Apache-2.0
"""Tables as CSV in which no text is a formula to a spreadsheet, whoever wrote the text.

Spreadsheets take a cell that begins with =, +, - or @ for a formula, which can run programs and send data elsewhere. An
apostrophe before it keeps it text there; importing takes it away again. Numbers stay as they are.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.files import write_text

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# A line break begins a cell too, and so do separators other than the comma, for which a spreadsheet may be set.
_BEGINS = r"(?:^|(?<=[;\t\r\n]))"
_FORMULA = r"[\s']*[=+\-@＝＋－＠]"
_TO_MARK = re.compile(rf"{_BEGINS}(?={_FORMULA})")
_MARKED = re.compile(rf"{_BEGINS}'(?={_FORMULA})")
_RETURN = re.compile(r"\r\n?")


def inert(text: str) -> str:
    """Give a text as a cell that no spreadsheet calculates; one that is a number stays as it is."""
    return text if _NUMBER.fullmatch(text) else _TO_MARK.sub("'", text)


def as_written(text: str) -> str:
    """Give the text that `inert` was given."""
    return _MARKED.sub("", text) if "'" in text else text


def write_csv(frame: pd.DataFrame, path: str | Path, *, digits: int | None = 6, index: bool = False) -> None:
    """Write a table as CSV, whole or not at all, without formulas; see `csv_text`."""
    write_text(Path(path), csv_text(frame, digits=digits, index=index))


def csv_text(frame: pd.DataFrame, *, digits: int | None = 6, index: bool = False) -> str:
    """Return a table as CSV without formulas.

    Args:
        frame: the table.
        digits: significant digits of numbers that are no whole numbers; None: all that they have.
        index: whether the table's index is to be its first columns.
    """
    cells = (frame.reset_index() if index else frame).rename(columns=lambda name: inert(str(name)))
    for place, kind in enumerate(cells.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            texts = cells.iloc[:, place].astype(object)
            cells.isetitem(place, texts.map(_cell).astype(object))
    float_format = None if digits is None else f"%.{digits}g"
    return str(cells.to_csv(index=False, float_format=float_format))


def _cell(value: object) -> object:
    # A carriage return alone is not put in quotes, and would end the line.
    return inert(_RETURN.sub("\n", value)) if isinstance(value, str) else value
