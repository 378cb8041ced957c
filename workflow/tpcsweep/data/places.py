# SPDX-License-Identifier: Apache-2.0
"""Places of datasets: names of their files, and the search for one by its path or the name of its study."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpcsweep.common.files import is_file
from tpcsweep.common.installation import PACKAGE
from tpcsweep.sweeps.problems import quoted, refused, suggest

DATASET = "dataset.nc"
GOALS = "goals.csv"  # rates that the links of a mesh must reach, next to its dataset
SUFFIX = ".nc"  # the ending of paths of datasets
STORE = ".zarr"  # the ending of paths of Zarr stores
RESULTS = Path("results")  # the folder that contains the results of studies by name
NAME_CHARACTERS = "letters, digits, '.', '_' and '-'"
FILES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    (PACKAGE / "data/results.toml").read_text(encoding="utf-8")
)
"""Files of a results folder that a page links, and that a crate contains."""
LIVE_PAGE, RUN_UNDER_WAY = "live.html", ".live"
"""Page of a run under way, and the file with its cells, which a folder of results has until the run ends."""
_LISTED = 8  # datasets that an error lists


@dataclass(frozen=True)
class DatasetStudy:
    """A study of an existing dataset."""

    name: str
    file: Path  # the dataset, NetCDF or Zarr
    folder: Path  # the folder for the study's results


def existing_dataset(path: Path) -> Path | None:
    """Return the given file, or the dataset of a results folder or of a study in results/, if it exists."""
    return next(filter(is_file, (path, path / DATASET, RESULTS / path / DATASET)), None)


def find_dataset(where: str | Path, key: str = "dataset") -> Path:
    """Return a dataset by `existing_dataset`. Raises ConfigurationError, with `key` as its location, if none exists."""
    path = Path(where)
    if file := existing_dataset(path):
        return file
    if path.suffix == STORE and path.is_dir():
        raise refused(
            key, quoted(str(where)), f"a dataset; `tpcsweep import {where}` makes one of a Zarr store"
        )
    known = [str(file.parent) for file in sorted(path.parent.glob(f"*/{DATASET}"))]
    known += (str(file) for file in sorted(path.parent.glob(f"*{SUFFIX}")) if is_file(file))
    if path.parent != RESULTS:
        known += (file.parent.name for file in sorted(RESULTS.glob(f"*/{DATASET}")))
    allowed = f"a results folder with a {DATASET}, or the path of a dataset"
    raise refused(
        key, quoted(str(where)), f"{allowed}: {suggest(str(path), known, _LISTED)}" if known else allowed
    )


def load_dataset(dataset: str, results: Path, root: Path, place: str = "") -> DatasetStudy:
    """Return the study of an existing dataset or Zarr store, by its path relative to `root`.

    The study's name is the file's stem, or the folder's name if the file is dataset.nc. `place` names the option with
    the path, for error messages. Raises ConfigurationError for a missing dataset, and for a name that cannot be a
    folder.
    """
    path = root / dataset
    if not (path.is_dir() if dataset.endswith(STORE) else dataset.endswith(SUFFIX) and is_file(path)):
        known = sorted(file.name for end in (SUFFIX, STORE) for file in path.parent.glob(f"*{end}"))
        listed = ", ".join(known[:_LISTED]) or "none"
        allowed = f"the path of a dataset that exists; {path.parent} contains {listed}"
        raise refused("dataset", quoted(dataset), allowed, place)
    name = path.stem if path.stem != Path(DATASET).stem else path.resolve().parent.name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]*", name):
        raise refused("dataset", quoted(dataset), f"a file name of {NAME_CHARACTERS}", place)
    return DatasetStudy(name, Path(dataset), results / name)
