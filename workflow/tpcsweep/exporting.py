# SPDX-License-Identifier: Apache-2.0
"""Export of a dataset as a Zarr store."""

from pathlib import Path
from typing import Any

from tpcsweep.dataset import GROUPS, open_group
from tpcsweep.extras import require_extra
from tpcsweep.files import creating_folder


def zarr(file: Path, store: Path) -> None:
    """Write a dataset with all its groups as a new Zarr store in format 2, one variable at a time, with its chunks."""
    require_extra("zarr")
    from zarr import consolidate_metadata

    with creating_folder(store) as part:
        # Not as a tree, because the columns of transfers for each axis are no dimensions.
        for group in GROUPS:
            with open_group(file, group, cache=False) as content:
                sizes = {name: one.encoding.get("chunksizes") for name, one in content.variables.items()}
                chunks = {name: {"chunks": size} for name, size in sizes.items() if size}
                how: dict[str, Any] = {"mode": "a", "consolidated": False, "zarr_format": 2}
                content.to_zarr(part, group=group, encoding=chunks, **how)
        consolidate_metadata(part, zarr_format=2)
