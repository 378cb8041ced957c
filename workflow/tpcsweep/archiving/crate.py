# SPDX-License-Identifier: Apache-2.0
"""A crate as a folder, to be looked at, and as a ZIP file, to be uploaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import xarray as xr

from tpcsweep.archiving.contents import SOFTWARE_CITATION, WORKFLOW, copy_software
from tpcsweep.configuration import citation
from tpcsweep.configuration.citation import Citation
from tpcsweep.configuration.loading import SHIPPED, Configuration
from tpcsweep.extras import require
from tpcsweep.files import making, replacing


class CrateError(RuntimeError):
    """A crate that cannot be made; the text says why and what to do."""


def write(
    results: Path, configuration: Configuration | None, cited: Citation | None, folder: Path, archive: Path
) -> None:
    """Write the crate of a results folder, whole or not at all.

    Args:
        results: a folder with a dataset.
        configuration: the sweep and the testbed of the results; None for measurements from elsewhere.
        cited: the authors of the measurements; None for those of the software.
        folder: the crate, which does not exist yet.
        archive: the ZIP file of it.

    Raises:
        CrateError: without a checkout.
        MissingExtraError: without the extra `crate`.
    """
    require("crate")
    from tpcsweep.archiving.metadata import described

    if not (SHIPPED / WORKFLOW).is_file():
        raise CrateError(
            "a crate contains the software, and tpcsweep is installed without its checkout. Run `make setup` in a "
            "checkout, and .venv/bin/tpcsweep there"
        )
    software = citation.read(SHIPPED / SOFTWARE_CITATION, SOFTWARE_CITATION)
    with xr.open_dataset(results / "dataset.nc") as opened:
        summary = opened[["status", "provenance_record"]].load()
    crate = described(results, configuration, summary, cited or software, software)
    with making(folder) as whole, replacing(archive) as packed:
        crate.write(whole)
        copy_software(whole)
        Path(shutil.make_archive(str(packed), "zip", whole)).replace(packed)
