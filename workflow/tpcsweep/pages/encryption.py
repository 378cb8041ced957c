# SPDX-License-Identifier: Apache-2.0
"""Whether the data of a dataset were encrypted, in words; only as far as the tools and the testbed define it."""

import numpy as np
import xarray as xr

from tpcsweep.data.labels import DEPLOYED_KINDS, ENDPOINTS
from tpcsweep.measuring.tools.registry import TOOLS


def encryption_text(summary: xr.Dataset) -> str:
    """Return a sentence part such as "data encrypted by TLS (usual for curl)"; "" if there were no data.

    Servers that tpcsweep did not deploy may redirect to another scheme, so that it knows nothing of theirs.
    """
    kind = summary.attrs.get("testbed_kind")
    if kind == ENDPOINTS:
        return "encryption of data not known, as servers decide it"
    if kind not in DEPLOYED_KINDS:
        return ""
    wanted, tools = (
        np.unique(summary.coords[name].values.astype(str)).tolist() if name in summary.coords else []
        for name in ("encryption", "tool")
    )
    if len(wanted) != 1 or not all(tool in TOOLS for tool in tools):
        return ""
    words = {"tls": "encrypted by TLS", "none": "not encrypted"}
    if wanted[0] in words:
        return f"data {words[wanted[0]]}"
    by_state = {words[TOOLS[tool].encryptions[0]]: list[str]() for tool in tools}
    for tool in tools:
        by_state[words[TOOLS[tool].encryptions[0]]].append(tool)
    states = " and ".join(f"{state} (usual for {' and '.join(group)})" for state, group in by_state.items())
    return f"data {states}" if states else ""
