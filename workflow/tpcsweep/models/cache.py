# SPDX-License-Identifier: Apache-2.0
"""Fits of datasets that have none in their folder, kept in the user's cache by the checksum of the dataset."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tpcsweep.dataset import load
from tpcsweep.files import checksum
from tpcsweep.models import FILE, FORMAT, current, fit_all


@contextlib.contextmanager
def fits_of(dataset: Path, whole: Path, report: Callable[[str], None]) -> Iterator[Path]:
    """Yield the file with a dataset's fits: the one in its folder, a cached one, or a new one.

    `whole` is the dataset with all current variables. A user without a writable cache gets a temporary file.
    """
    kept = _cached(dataset)
    known = current(dataset) or (kept and current(dataset, kept))
    if known is not None:
        yield known
        return
    report(f"{dataset}: no fits of these cells yet. Fitting the models …")
    with tempfile.TemporaryDirectory(prefix="tpcsweep-") as folder:
        file = kept if kept is not None and _writable(kept.parent) else Path(folder, FILE)
        fit_all(load(whole), file, dataset=dataset)
        yield file


def _cached(dataset: Path) -> Path | None:
    try:
        folder = Path(os.environ.get("TPCSWEEP_CACHE") or Path.home() / ".cache/tpcsweep")
    except RuntimeError:  # the user has no home
        return None
    return folder / "fits" / f"{checksum(dataset)}-{FORMAT}.json"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
