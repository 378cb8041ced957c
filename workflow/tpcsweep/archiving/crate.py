# SPDX-License-Identifier: Apache-2.0
"""A crate as a folder, to be looked at, and as a ZIP file, to be uploaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import xarray as xr

from tpcsweep.archiving.contents import SOFTWARE_CITATION, copy_software
from tpcsweep.configuration import citation
from tpcsweep.configuration.loading import SHIPPED, Configuration
from tpcsweep.extras import require
from tpcsweep.files import making, replacing


def write(configuration: Configuration, folder: Path, archive: Path) -> None:
    """Write the crate of a configuration's results, whole or not at all.

    Args:
        configuration: whose dataset and first page are there.
        folder: the crate, which is not there yet.
        archive: the ZIP file of it.

    Raises:
        MissingExtraError: without the extra `crate`.
    """
    require("crate")
    from tpcsweep.archiving.metadata import described

    software = citation.read(SHIPPED / SOFTWARE_CITATION, SOFTWARE_CITATION)
    with xr.open_dataset(configuration.folder / "dataset.nc") as opened:
        summary = opened[["status", "provenance_record"]].load()
    crate = described(configuration, summary, configuration.citation or software, software)
    with making(folder) as whole, replacing(archive) as packed:
        crate.write(whole)
        copy_software(whole)
        Path(shutil.make_archive(str(packed), "zip", whole)).replace(packed)
