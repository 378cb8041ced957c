"""Datasets written to files that are whole or not there."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import xarray as xr

from tpcsweep.dataset.folding import Folded
from tpcsweep.dataset.labels import TRANSFERS_GROUP
from tpcsweep.dataset.slabs import Group
from tpcsweep.files import replacing

_CHUNK_CACHE = 2**20
"""Bytes for each variable: slabs are whole chunks, and the library's own 64 MB for each would be most of the memory."""
_COMPRESSED = {"zlib": True, "complevel": 1, "shuffle": True}
"""Level 4 compresses for twice as long, and makes measured samples a fiftieth smaller."""


def write(folded: Folded, path: str | Path, done: str = "folded from cell files") -> None:
    """Write the groups to one NetCDF 4 file: beside it, then renamed, so that it is whole or not there.

    done: what the dataset's history says of how it came about.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    summary = folded.summary.assign_attrs(history=f"{now} tpcsweep: {done}")
    with replacing(Path(path)) as part:
        summary.to_netcdf(part, mode="w", engine="netcdf4", encoding=_encoding(summary))
        _append(part, "samples", folded.series)
        _append(part, TRANSFERS_GROUP, folded.moved)


def _append(path: Path, name: str, group: Group) -> None:
    """Add a group to a file, a slab at a time, as xarray would write it whole."""
    outline = group.outline()
    bare = outline.drop_vars(outline.data_vars)
    bare.to_netcdf(path, mode="a", engine="netcdf4", group=name, encoding=_encoding(bare))
    with netCDF4.Dataset(path, "a") as file:
        target = file[name]
        for dimension in outline.sizes.keys() - bare.sizes.keys():
            target.createDimension(str(dimension), outline.sizes[dimension])
        # Of a group without variables xarray says for the whole group what scalar coordinates it has.
        scalars = {"coordinates": target.coordinates} if "coordinates" in target.ncattrs() else {}
        for key in scalars:
            target.delncattr(key)
        for variable, encoding in _encoding(outline).items():
            if variable in outline.data_vars:
                about = outline[variable]
                made = target.createVariable(
                    str(variable),
                    str if about.dtype == object else about.dtype,
                    about.dims,
                    chunksizes=about.encoding["chunksizes"],
                    chunk_cache=_CHUNK_CACHE,
                    fill_value=encoding.get("_FillValue"),
                    **{key: value for key, value in encoding.items() if key in _COMPRESSED},
                )
                made.setncatts({**about.attrs, **scalars})
        for slab in group.slabs():
            target[slab.name][slab.where] = slab.values


def _encoding(content: xr.Dataset) -> dict[Hashable, dict[str, Any]]:
    """Numbers compressed, gaps in floats as NaN, integers and coordinates without a fill value, texts as they are."""
    encoding: dict[Hashable, dict[str, Any]] = {}
    for name, variable in content.variables.items():
        kind = variable.dtype.kind
        if kind == "M":
            encoding[name] = {"units": "seconds since 1970-01-01", "dtype": "float64", "_FillValue": np.nan}
        elif kind in "if":
            gaps = kind == "f" and name in content.data_vars
            encoding[name] = {"_FillValue": np.nan if gaps else None}
            if variable.ndim:
                encoding[name] |= _COMPRESSED
        else:
            encoding[name] = {}
    return encoding
