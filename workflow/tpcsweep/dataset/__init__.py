# SPDX-License-Identifier: Apache-2.0
"""Datasets: cell files folded into one labelled dataset, following the CF conventions.

`docs/data.md` describes datasets for users.
"""

from tpcsweep.dataset.cells import DatasetError
from tpcsweep.dataset.earlier import load, opened
from tpcsweep.dataset.folding import Folded, fold, lines_of, tabulate, write
from tpcsweep.dataset.labels import (
    GROUPS,
    IMPORTED,
    SIMULATED,
    STATUS,
    TRANSFERS_GROUP,
    describe,
    flagged,
    flags_in,
    masks_of,
)
from tpcsweep.dataset.tables import table, write_table

__all__ = [
    "GROUPS",
    "IMPORTED",
    "SIMULATED",
    "STATUS",
    "TRANSFERS_GROUP",
    "DatasetError",
    "Folded",
    "describe",
    "flagged",
    "flags_in",
    "fold",
    "lines_of",
    "load",
    "masks_of",
    "opened",
    "table",
    "tabulate",
    "write",
    "write_table",
]
