# SPDX-License-Identifier: Apache-2.0
"""Whether the data of a dataset were encrypted, in words; only as far as the tools and the testbed define it."""

import numpy as np
import xarray as xr

from tpcsweep.data.labels import DEPLOYED_KINDS
from tpcsweep.measuring.tools.registry import TOOLS


def encryption_text(summary: xr.Dataset) -> str:
    """Return a sentence part such as "data encrypted, as usual for curl"; "" if nobody knows.

    Servers that tpcsweep did not deploy may redirect to another scheme, so that it knows nothing of theirs.
    """
    if summary.attrs.get("testbed_kind") not in DEPLOYED_KINDS:
        return ""
    wanted, tools = (
        np.unique(summary.coords[name].values.astype(str)).tolist() if name in summary.coords else []
        for name in ("encryption", "tool")
    )
    if len(wanted) != 1 or not all(tool in TOOLS for tool in tools):
        return ""
    words = {"tls": "encrypted", "none": "not encrypted"}
    if wanted[0] in words:
        return f"data {words[wanted[0]]}"
    by_state = {words[TOOLS[tool].encryptions[0]]: list[str]() for tool in tools}
    for tool in tools:
        by_state[words[TOOLS[tool].encryptions[0]]].append(tool)
    states = " and ".join(f"{state} as usual for {' and '.join(group)}" for state, group in by_state.items())
    return f"data {states}" if states else ""
