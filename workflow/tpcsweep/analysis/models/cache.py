# SPDX-License-Identifier: Apache-2.0
"""Fits of datasets that have none in their folder, kept in the user's cache by the checksum of the dataset."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from tpcsweep.analysis.models.saved_fits import FILE, current, fit_all
from tpcsweep.common.extras import require_extra
from tpcsweep.common.files import checksum, write_text
from tpcsweep.data.opening import load


@contextlib.contextmanager
def fits_of(dataset: Path, report: Callable[[str], None]) -> Iterator[Path]:
    """Yield the file with a dataset's fits: the one in its folder, a cached one, or a new one.

    Without a writable cache the fits are lost at the end. Raises MissingExtraError before a fit without the extra
    `models`.
    """
    kept = _cached(dataset)
    known = current(dataset) or (kept and current(dataset, kept))
    if known is not None:
        yield known
        return
    require_extra("models")
    report(f"{dataset}: no fits of these cells yet. Fitting the models …")
    with tempfile.TemporaryDirectory(prefix="tpcsweep-") as folder:
        file = Path(folder, FILE)
        fit_all(load(dataset), file, dataset=dataset)
        if kept is not None:
            with contextlib.suppress(OSError):
                write_text(kept, file.read_text(encoding="utf-8"))
        yield file


def _cached(dataset: Path) -> Path | None:
    """Return the file of a dataset's fits by this version of the package; None if the user has no home."""
    try:
        folder = Path(os.environ.get("TPCSWEEP_CACHE") or Path.home() / ".cache/tpcsweep")
    except RuntimeError:
        return None
    return folder / "fits" / f"{checksum(dataset)}-{metadata.version('tpcsweep')}.json"
