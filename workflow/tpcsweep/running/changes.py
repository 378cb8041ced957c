# SPDX-License-Identifier: Apache-2.0
"""Differences between measured cells and the sweep's present specification, in words."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tpcsweep.common.numbers import counted
from tpcsweep.data import cell_files
from tpcsweep.data.cell_result import CellResult
from tpcsweep.running import staging
from tpcsweep.sweeps.parameters import Parameters, complete, quantity, show_value
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.sweeps.units import Quantity, show

_MOST = 3  # changes that are named
_MOST_READ = 2000  # files of cells outside the grid that are read


def stale_lines(study: SweepStudy) -> list[str]:
    """Return a line for each change that makes measured cells of a study stale, and for cells at other places."""
    if study.testbed.simulated:
        return []
    differences: Counter[tuple[str, ...]] = Counter()
    missing = dict[str, Mapping[str, Any]]()
    for cell in study.grid.cells:
        if staging.current_file(study, cell):
            continue
        wanted = complete(cell_spec(study, cell))
        measured = _specification(study.cell_file(cell))
        if measured is None:
            missing[_key(wanted)] = wanted["parameters"]
        else:
            differences[tuple(_differences(measured, wanted))] += 1
    lines = [
        f"{counted(count, 'cell')} measured with {', '.join(changes[:_MOST])}: a run measures "
        f"{'it' if count == 1 else 'them'} again and renames the old {'file' if count == 1 else 'files'}"
        for changes, count in differences.most_common()
        if changes
    ]
    return [*lines, *_former_axes(study, missing)]


def _former_axes(study: SweepStudy, missing: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line if missing cells exist in folders of an axis that the grid has no more."""
    if not missing or not (study.folder / "cells").is_dir():
        return
    known = {study.cell_file(cell) for cell in study.grid.cells}
    former = Counter[tuple[str, str]]()  # axes that the grid has no more, with their values
    for number, file in enumerate((study.folder / "cells").rglob("*.json")):
        if number == _MOST_READ:
            break
        parameters = None if file in known else missing.get(_key(_specification(file)))
        if parameters is not None:
            parts = file.relative_to(study.folder / "cells").with_suffix("").parts
            names = {part.partition("=")[0] for part in parts} & parameters.keys() - study.grid.axes.keys()
            former.update((name, show_value(name, parameters[name])) for name in names)
    for (axis, value), count in former.most_common():
        exist = (
            f"{counted(count, 'missing cell')} {'is' if count == 1 else 'are'} measured in folders {axis}=…"
        )
        yield f"{exist}: write `{axis}: [{value}]`, with brackets, to keep {'it' if count == 1 else 'them'}"


def _key(specification: Mapping[str, Any] | None) -> str:
    return json.dumps(specification, sort_keys=True)


def _differences(measured: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences of two specifications, such as `max_time 6 s (now 5 s)`."""
    for section, model in (("parameters", Parameters), ("measurement", Measurement), ("testbed", None)):
        old, new = measured.get(section) or {}, wanted[section]
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                label = f"testbed's {name}" if model is None else name
                known = quantity(name, model) if model else None
                one, other = (_text(values.get(name), known) for values in (old, new))
                yield f"{label} {one} (now {other})"
    for part in ("format", "sweep", "conditions"):
        if measured.get(part) != wanted.get(part):
            yield f"another {part}"


def _text(value: Any, known: Quantity | None) -> str:
    return "null" if value is None else show(value, known.dimension) if known else str(value)


def _specification(file: Path) -> dict[str, Any] | None:
    """Return the specification of a measured cell; None if the file is missing, damaged or a placeholder."""
    try:
        content = cell_files.read_cell(file)
    except (FileNotFoundError, cell_files.DamagedError):
        return None
    return complete(content.spec) if isinstance(content.result, CellResult) else None
