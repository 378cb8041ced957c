# SPDX-License-Identifier: Apache-2.0
"""Datasets: cell files folded into one labelled dataset, following the CF conventions.

`docs/data.md` describes datasets for users.
"""

from tpcsweep.dataset.cells import DatasetError
from tpcsweep.dataset.folding import Folded, cell_lines, fold, tabulate, write
from tpcsweep.dataset.labels import (
    GROUPS,
    IMPORTED,
    SIMULATED,
    STATUS,
    TRANSFERS_GROUP,
    describe,
    flag_masks,
    flagged,
    flags_in,
)
from tpcsweep.dataset.opening import load, open_group
from tpcsweep.dataset.tables import table, write_table

__all__ = [
    "GROUPS",
    "IMPORTED",
    "SIMULATED",
    "STATUS",
    "TRANSFERS_GROUP",
    "DatasetError",
    "Folded",
    "cell_lines",
    "describe",
    "flag_masks",
    "flagged",
    "flags_in",
    "fold",
    "load",
    "open_group",
    "table",
    "tabulate",
    "write",
    "write_table",
]
