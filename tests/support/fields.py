# SPDX-License-Identifier: Apache-2.0
"""The fields of a cell's file, which are the same on every testbed that measures."""

from __future__ import annotations

from typing import Any

EVERYWHERE = {
    "cell": "spec format status message flags limit evidence summary samples transfers provenance checksum",
    "spec": "format sweep parameters repetition measurement testbed",
    "summary": """throughput throughput_low throughput_high throughput_freedom throughput_average throughput_max
        duration warmup
        length_correlations length_rtts rtt_idle
        wire_throughput source_cpu destination_cpu client_cpu path_cpu machine_cpu machine_steal
        machine_pressure machine_work machine_slowed rtt_loaded machine_others source_cpu_busiest source_throttled
        destination_cpu_busiest destination_throttled retransmits path_drops
        fairness length_files transfers transfers_failed xrootd_transfers xrootd_share path_used source_quota_used
        destination_quota_used client_throttled source_thread destination_thread client_thread disk_wait
        connections_busy window_limited network_limited window_used ramp loss_seen queue_drops machine_used
        loss_used bandwidth_found attempts""",
    "samples": """time goodput source_throughput wire_throughput source_cpu source_origin_cpu destination_cpu
        destination_origin_cpu client_cpu path_cpu machine_cpu machine_steal machine_others machine_pressure retransmits
        sent resent busy rwnd_limited
        sndbuf_limited rtt_loaded cwnd connections source_thread destination_thread client_thread source_waiting
        destination_waiting machine_work machine_slowed""",
    "transfers": """stream number size xrootd_connections xrootd_size xrootd_code start first_byte end xrootd_begin
        xrootd_end ok xrootd_direction message""",
    "provenance": "started host nodes kernel cpu cpus memory software deployment path sysctls seconds commit",
}


def differing(cell: dict[str, Any], *own: str) -> dict[str, list[str]]:
    """The parts of a cell that have other fields, or another order of them; `own` are of this testbed's provenance."""
    wanted = {part: names.split() for part, names in EVERYWHERE.items()}
    # `others` is of those alone that were measured once more.
    cell = {name: value for name, value in cell.items() if name != "others"}
    found = {part: list(cell if part == "cell" else cell[part]) for part in wanted}
    # What is known of where a cell was measured comes in the order in which it was asked.
    wanted["provenance"] = sorted([*wanted["provenance"], *own])
    found["provenance"].sort()
    return {part: found[part] for part in wanted if found[part] != wanted[part]}
