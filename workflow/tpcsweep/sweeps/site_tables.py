# SPDX-License-Identifier: Apache-2.0
"""Tables about sites and links that users write: CSV with a header."""

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tpcsweep.sweeps.problems import ConfigurationError, Problem, quoted, refused

Row = TypeVar("Row")


def read_table(
    file: Path, columns: Sequence[str], read: Callable[[int, Mapping[str, str]], Row]
) -> list[Row]:
    """Return each row of a table as `read` returns it for its line and its cells by column.

    Raises ConfigurationError with the lines of all errors: of `read`, and of the table's form.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as content:
            lines = csv.reader(content, skipinitialspace=True)
            rows = [(lines.line_num, [cell.strip() for cell in row]) for row in lines]
    except (UnicodeDecodeError, csv.Error) as error:
        raise refused(
            "", f"no table of text ({error})", f"CSV with {','.join(columns)}", str(file)
        ) from error
    head = rows[0][1] if rows else []
    if sorted(head) != sorted(columns):
        allowed = f"a table that begins with {','.join(columns)}"
        raise refused("line 1", quoted(",".join(head)), allowed, str(file))
    problems, found = list[Problem](), list[Row]()
    for line, cells in rows[1:]:
        if not any(cells):
            continue
        try:
            if len(cells) != len(head):
                raise refused("", f"{len(cells)} values", f"{len(head)}: {','.join(head)}")
            found.append(read(line, dict(zip(head, cells, strict=True))))
        except ConfigurationError as error:
            problems += [
                Problem(f"line {line}", each.value, each.allowed, str(file)) for each in error.problems
            ]
    if not (found or problems):
        raise refused("", "no rows", "one or more lines after the first one", str(file))
    if problems:
        raise ConfigurationError(problems)
    return found
