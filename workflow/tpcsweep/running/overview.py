# SPDX-License-Identifier: Apache-2.0
"""List of all sweeps in a results folder, which follows the runs under way.

A list from the beginning of a run is kept as a file, so that the jobs of the run write the page without a dataset.
"""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

import orjson

from tpcsweep.common.files import is_file, write_text
from tpcsweep.common.locks import lock_holder
from tpcsweep.data.places import RUN_UNDER_WAY
from tpcsweep.pages.rendering import render
from tpcsweep.running.progress import read_progress
from tpcsweep.running.run_lock import LOCK
from tpcsweep.running.status import rate_text

REFRESH = 20  # s after which the browser loads a page of a run under way again
_KEPT = ".overview.json"  # content of the list, without the runs


class _Run(TypedDict):
    line: str  # how far it is
    last: str  # throughput and path of its last cell, or ""
    under_way: bool  # False if its process has ended, or cannot be seen from here


def list_sweeps(results: Path) -> None:
    """Write the list of all sweeps in a results folder."""
    # The imports take a second, which other commands do not need.
    from tpcsweep.pages.making import comparisons, entries

    content = {"sweeps": entries(results), "comparisons": comparisons(results)}
    write_text(results / _KEPT, orjson.dumps(content).decode())
    _write(results, content)


def update_runs(results: Path) -> None:
    """Write the list again with the state of the runs under way. Do nothing if there is no list."""
    if is_file(results / _KEPT):
        _write(results, orjson.loads((results / _KEPT).read_bytes()))


def _write(results: Path, content: Mapping[str, Any]) -> None:
    runs = dict(_runs(results))
    sweeps = sorted(content["sweeps"], key=lambda sweep: sweep["folder"] not in runs)
    now = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    about = {**content, "sweeps": sweeps, "runs": runs, "refresh": REFRESH, "now": now}
    write_text(results / "index.html", render("overview", **about))


def _runs(results: Path) -> Iterator[tuple[str, _Run]]:
    for file in sorted(results.glob(f"*/{RUN_UNDER_WAY}")):
        folder = file.parent
        state = read_progress(folder)
        last = [f"{rate_text(rate, status)}, {cell}" for cell, rate, status in state.get("last", ())]
        under_way = lock_holder(folder / LOCK) is not None
        yield folder.name, {"line": _line(file), "last": "".join(last[-1:]), "under_way": under_way}


def _line(file: Path) -> str:
    try:
        return str(orjson.loads(file.read_bytes())["line"])
    except (OSError, ValueError, KeyError, TypeError):  # written by another version
        return ""
