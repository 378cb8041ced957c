# SPDX-License-Identifier: Apache-2.0
"""The fields of a cell's file, which are the same on every testbed that measures."""

from typing import Any

from tpcsweep.data.variables import ORIGIN_SAMPLES, SAMPLES, SUMMARY, TRANSFERS

_ELSEWHERE = ("import", "hosts", "beside")
"""Sources of figures that some testbeds alone have."""
EVERYWHERE = {
    "cell": "spec format status message flags limit limit_second summary samples transfers provenance checksum",
    "spec": "format sweep parameters repetition measurement testbed",
    "summary": " ".join(name for name, figure in SUMMARY.items() if figure.source not in _ELSEWHERE),
    "samples": " ".join(["time", *SAMPLES, *ORIGIN_SAMPLES]),
    "transfers": " ".join(name for name, column in TRANSFERS.items() if column.source != "fold"),
    "provenance": "started host hosts nodes kernel cpu cpus memory software deployment path sysctls seconds commit "
    "order_seed",
}


def differing(cell: dict[str, Any], *own: str) -> dict[str, list[str]]:
    """The parts of a cell that have other fields; `own` are of this testbed's provenance."""
    wanted = {part: names.split() for part, names in EVERYWHERE.items()}
    wanted["provenance"] += own
    # `others` is of those alone that were measured once more.
    cell = {name: value for name, value in cell.items() if name != "others"}
    found = {part: sorted(cell if part == "cell" else cell[part]) for part in wanted}
    return {part: found[part] for part in wanted if found[part] != sorted(wanted[part])}
