# SPDX-License-Identifier: Apache-2.0
"""Tables of other programs and countries: text with one row for each measurement, gzip, and Parquet.

Cells of text files stay text, which `numbers` parses. A table has the attributes `notes` (a line for each finding or
skipped part), `separator`, `units` (from a row of units or from cells, by column) and `marks` (see `settle_marks`).
"""

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.configuration import units
from tpcsweep.configuration.problems import ConfigurationError, refused
from tpcsweep.dataset.tables import unescape_formula
from tpcsweep.extras import require_extra
from tpcsweep.files import file_kind
from tpcsweep.importing import peers

_SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
_SEPARATORS = {"\t": "tabs", ";": "';'", "|": "'|'", ",": "','", "  ": "blanks", " ": "blanks"}
"""Separators, of which the first wins among equally good ones: numbers contain commas, and cells single blanks."""
_SIGNS = " \u00a0\u2009\u202f'\u2019"  # blanks, and Swiss apostrophes, between thousands
_LIKE_A_NUMBER = re.compile(rf"[+-]?[.,{_SIGNS}]*[0-9][0-9.,{_SIGNS}]*([eE][+-]?[0-9]+)?")
_WITH_UNIT = re.compile(rf"(?P<number>{_LIKE_A_NUMBER.pattern})\s*(?P<unit>[^\s\d].*)")
UNIT_OF = "unit of "
_OTHER = {".": ",", ",": "."}
_NUMBERS = {
    mark: re.compile(
        rf"(?=[+-]?[{mark}]?[0-9])[+-]?(?:[0-9]*|[1-9][0-9]{{0,2}}(?:(?P<s>[{other}{_SIGNS}])[0-9]{{3}})"
        rf"(?:(?P=s)[0-9]{{3}})*)(?:[{mark}][0-9]*)?(?:[eE][+-]?[0-9]+)?"
    )
    for mark, other in _OTHER.items()
}
"""Patterns of numbers by decimal mark."""
_TOTAL = re.compile(
    r"(grand |sub)?(totale?s?|sum|mean|average|avg|median|summe|gesamt|mittelwert|durchschnitt|moyenne|somme|media)\W*",
    re.IGNORECASE,
)
_UNITS = {*units.SIZE.units, "%"}.union(*((*kind.units, *kind.spellings) for kind in (units.RATE, units.RTT)))

Rows = list[tuple[int, list[str]]]  # cells of each row, with the line on which it ends


def read_table(file: Path) -> pd.DataFrame:
    """Read a table. The index is the line in a text file, or the row, from 1.

    Raises:
        ConfigurationError: If the file is neither text with a header nor Parquet.
        MissingExtraError: If the file is Parquet and the extra `parquet` is not installed.
    """
    name = file.name.lower().removesuffix(".gz")
    try:
        if name.endswith(".parquet"):
            require_extra("parquet")
            table = pd.read_parquet(file)
            table = table.set_axis(pd.RangeIndex(1, len(table) + 1, name="row"))
        else:
            table = _read_text(file, name.endswith(_SUFFIXES))
    except ConfigurationError:
        raise
    # errors of pyarrow and Unicode errors are ValueErrors
    except (csv.Error, OSError, EOFError, zlib.error, ValueError, NotImplementedError) as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise refused("", said, "a table with a name for each column", str(file)) from error
    repeated = table.index[table.astype(str).duplicated()]
    if len(repeated):
        alike = "rows alike with an earlier one in all columns count as repetitions"
        note = f"{alike}: {len(repeated)}, first {table.index.name} {repeated[0]}"
        table.attrs.setdefault("notes", []).append(note)
    return table


# --- numbers in cells of text


def settle_units(table: pd.DataFrame, columns: Iterable[str]) -> None:
    """Split cells such as 9.4 Gbits/sec: the column keeps the number, and a column UNIT_OF + its name has the unit."""
    for name in [one for one in columns if one in table and _is_text(table[one])]:
        parted = {cell: _WITH_UNIT.fullmatch(cell.strip()) for cell in table[name].dropna().unique()}
        found = {cell: match for cell, match in parted.items() if match and match["unit"] in _UNITS}
        if found:
            table[UNIT_OF + name] = table[name].map({cell: match["unit"] for cell, match in found.items()})
            table[name] = table[name].replace({cell: match["number"] for cell, match in found.items()})
            table.attrs.setdefault("units", {}).setdefault(name, next(iter(found.values()))["unit"])


def settle_marks(table: pd.DataFrame, columns: Iterable[str], decimal: str | None) -> list[str]:
    """Determine the decimal marks of numeric columns; ambiguous columns follow the others.

    The table's attribute `marks` has the mark of each column, "" if uncertain.

    Returns:
        Columns with decimal commas.
    """
    texts = {name: _marks(table[name]) for name in columns if _is_text(table[name])}
    sure = {decimal} if decimal else set().union(*(marks for marks in texts.values() if len(marks) == 1))
    for name, marks in texts.items():
        texts[name] = sure if decimal or (len(marks) == 2 and len(sure) == 1) else marks
    table.attrs["marks"] = {name: min(marks) if len(marks) == 1 else "" for name, marks in texts.items()}
    return [
        name
        for name, mark in table.attrs["marks"].items()
        if mark == "," and table[name].map(_has_mark).any()
    ]


def numbers(column: pd.Series) -> pd.Series:
    """Return the numbers of a column; other cells, and numbers with an uncertain decimal mark, become NaN."""
    if not _is_text(column):
        return pd.to_numeric(column, errors="coerce")
    settled = column.attrs.get("marks", {})
    marks = _marks(column) if column.name not in settled else set(settled[column.name])
    mark = min(marks) if len(marks) == 1 else ""
    cells = column.fillna("")
    return pd.to_numeric(cells.map({cell: _plain(cell, mark) for cell in cells.unique()}), errors="coerce")


def uncertain(column: pd.Series) -> pd.Series:
    """Return the numbers of a settled column whose decimal mark is uncertain."""
    if not _is_text(column) or column.attrs["marks"][column.name]:
        return column[:0]
    return column[[_has_mark(cell) for cell in column.fillna("")]]


def _is_text(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.StringDtype)


def _has_mark(cell: str) -> bool:
    return ("." in cell or "," in cell) and _LIKE_A_NUMBER.fullmatch(cell.strip()) is not None


def _marks(column: pd.Series) -> set[str]:
    """Return the possible decimal marks of a text column, by its own cells."""
    cells = [cell for cell in column.fillna("").str.strip().unique() if _has_mark(cell)]
    fitting = {mark for mark, number in _NUMBERS.items() if all(map(number.fullmatch, cells))}
    commas = column.attrs.get("separator", ",") == "," and not any("," in cell for cell in cells)
    return {"."} if cells and len(fitting) == 2 and commas else fitting


def _plain(cell: str, mark: str) -> str:
    cell = cell.strip()
    if not _LIKE_A_NUMBER.fullmatch(cell):
        return cell
    if not (mark or not _has_mark(cell)) or not _NUMBERS[mark or "."].fullmatch(cell):
        return "?"
    return re.sub(f"[{_OTHER[mark or '.']}{_SIGNS}]", "", cell).replace(mark or ".", ".")


# --- text files


def _read_text(file: Path, is_table: bool) -> pd.DataFrame:
    try:
        text, encoding = _decoded(file)
    except ConfigurationError:
        if is_table:
            raise
        text, encoding = "", ""
    if results := peers.documents(text):
        return peers.documents_table(results, file)
    if not is_table:
        given = f"a file that ends in {file.suffix or 'no suffix'}"
        allowed = f".csv or .parquet, {', '.join(_SUFFIXES[1:])}, or JSON of iperf3, flent or pScheduler"
        raise refused("", given, allowed, str(file))
    named = re.match(r'"?sep=(.)"?\r?\n', text, re.IGNORECASE)
    skipped = 1 if named else 0
    text = text[named.end() :] if named else text
    separator = named[1] if named else _separator(text)
    quoted = f'{separator} "' in text.partition("\n")[0]
    reader = _reader(text, separator, skipinitialspace=quoted, strict=True)
    try:
        rows = [(reader.line_num + skipped, row) for row in reader if row]
    except csv.Error as error:
        allowed = "a quote at the end of each cell that begins with one"
        raise refused(f"line {reader.line_num + skipped}", str(error), allowed, str(file)) from error
    notes: list[str] = []
    if separator != "," or encoding != "UTF-8":
        notes.append(f"columns are divided by {_SEPARATORS.get(separator, repr(separator))}, in {encoding}")
    header, rows = _framed(rows, notes)
    kept = _named_columns(header, rows, notes, file)
    cells = [[unescape_formula(row[at]) for at in kept] for _, row in rows]
    cells = [[cell.strip() for cell in row] for row in cells] if separator == "|" else cells
    index = pd.Index([line for line, _ in rows], name="line")
    table = pd.DataFrame(cells, index, [header[at] for at in kept], dtype=str)
    found = _units_above(table)
    if found:
        notes.append(f"line {table.index[0]} has units: {', '.join(found.values())}")
        table = table[1:]
    table.attrs = {"notes": notes, "separator": separator, "units": found, "encoding": encoding}
    peers.recognize(table)
    return table


def _decoded(file: Path) -> tuple[str, str]:
    raw = file.read_bytes()
    raw = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    if kind := file_kind(raw):
        raise refused("", kind, "a table saved as CSV", str(file))
    if raw.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return raw.decode("UTF-32"), "UTF-32"
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or raw[:2].count(0) == 1:
        encoding = "UTF-16" if raw[0] > 0xF0 else "UTF-16-LE" if raw[1] == 0 else "UTF-16-BE"
        return raw.decode(encoding), "UTF-16"
    try:
        return raw.decode("utf-8-sig"), "UTF-8"
    except UnicodeDecodeError as error:
        place = f"line {raw.count(bytes([10]), 0, error.start) + 1}"
    try:
        told = f"Windows-1252, by {place}: if its letters are wrong, save the file as UTF-8"
        return raw.decode("cp1252"), told
    except UnicodeDecodeError as error:
        given = f"bytes that are neither UTF-8 nor Windows-1252 ({error.reason})"
        raise refused(place, given, "a table saved as UTF-8", str(file)) from error


def _reader(text: str, separator: str, **options: Any) -> Any:
    if not separator.strip(" "):  # columns are aligned
        text, separator = re.sub(f"{separator}+", "\t", re.sub("(?m)^ +| +$", "", text)), "\t"
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, **options)


def _separator(text: str) -> str:
    best, most = ",", 0.0
    text = re.sub("(?m)^#.*", "", text[: 2**17])
    for separator in _SEPARATORS:
        try:
            counts = Counter(len(row) for row in _reader(text, separator) if any(row))
        except csv.Error:
            continue
        share = max((number / counts.total() for cells, number in counts.items() if cells > 1), default=0.0)
        best, most = (separator, share) if share > most else (best, most)
    return best


def _framed(rows: Rows, notes: list[str]) -> tuple[list[str], Rows]:
    """Return the header and the measurements, without titles above, headers between and totals below."""
    full = [(line, row) for line, row in rows if not re.fullmatch(r"\s*|[-:=+\s]{3,}", "".join(row))]
    width = max(Counter(len(row) for _, row in full if len(row) > 1).most_common(1), default=(0, 0))[0]
    begin = 0
    while width > 1 and begin < len(full) - 1 and _is_title(full[begin][1], full[begin + 1][1], width):
        begin += 1
    header = [unescape_formula(name).strip() for name in full[begin][1]] if full else []
    again = [[unescape_formula(name).strip() for name in row] == header for _, row in full]
    body = [
        one for at, one in enumerate(full) if at > begin and not again[at] and not _is_comment(one[1], width)
    ]
    firsts = Counter(_texts(row)[0] for _, row in body)
    while body and (len(body[-1][1]) == 1 < width or _is_total(_texts(body[-1][1])[0], firsts)):
        body.pop()
    kept = {line for line, _ in body} | {line for line, _ in full[begin : begin + 1]}
    if lines := [str(line) for line, _ in rows if line not in kept]:
        notes.append(
            f"lines without measurements, such as titles and totals, are skipped: {', '.join(lines)}"
        )
    return header, body


def _is_title(row: list[str], following: list[str], width: int) -> bool:
    words = len(_texts(row)) == 1 and not any(map(_LIKE_A_NUMBER.fullmatch, _texts(following)))
    return words or _is_comment(row, width)


def _is_comment(row: list[str], width: int) -> bool:
    return len(row) != width and row[0].startswith("#")


def _is_total(word: str, words: Counter[str]) -> bool:
    return words[word] == 1 and _TOTAL.fullmatch(word) is not None


def _texts(row: list[str]) -> list[str]:
    return [cell.strip() for cell in row if cell.strip()]


def _named_columns(header: list[str], rows: Rows, notes: list[str], file: Path) -> list[int]:
    """Return the indices of named columns. Unnamed ones must be empty or an index."""
    repeated = [name for name, number in Counter(header).items() if name and number > 1]
    if repeated or not any(header):
        allowed = f"a table with a name for each column{f', not {repeated[0]} twice' if repeated else ''}"
        raise refused("", f"the header {','.join(header)!r}", allowed, str(file))
    for line, row in rows:
        if any(header[len(row) :]) or _texts(row[len(header) :]):
            allowed = f"{len(header)}, as in the header; quotes around cells with separators in them"
            raise refused(f"line {line}", f"{len(row)} values", allowed, str(file))
        row.extend([""] * (len(header) - len(row)))
    nameless = [at for at, name in enumerate(header) if not name]
    indexed = nameless[:1] == [0] and all(row[0].strip().isdigit() for _, row in rows)
    for at in nameless[1:] if indexed else nameless:
        for line, row in rows:
            if cell := row[at].strip():
                place = f"line {line}, column {at + 1}"
                raise refused(place, repr(cell), "a name for it in the header", str(file))
    if nameless:
        notes.append(f"columns without a name are skipped: {', '.join(str(at + 1) for at in nameless)}")
    return [at for at, name in enumerate(header) if name]


def _units_above(table: pd.DataFrame) -> dict[str, str]:
    """Return the unit of each column if the first row has units above numbers, otherwise {}."""
    first, second = table.iloc[:1], table.iloc[1:2]
    cells = {name: column.iloc[0].strip(" []()") for name, column in first.items() if len(second)}
    found = {name: cell for name, cell in cells.items() if cell in _UNITS}
    numeric = all(_LIKE_A_NUMBER.fullmatch(second[name].iloc[0].strip()) for name in found)
    return found if numeric and not any(re.search("[0-9]", cell) for cell in cells.values()) else {}
