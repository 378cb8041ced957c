# SPDX-License-Identifier: Apache-2.0
"""How busy the measuring machine was, for the head and the banner of a page; pure functions.

At endpoints servers are elsewhere, and the client asks them for third-party copies only. A full machine may slow the
cells anyway: tools that stream move the data themselves, and a server may be on the same machine.
"""

import math

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tpcsweep.common.numbers import counted, short
from tpcsweep.data.flag_rules import BUSY, DISTURBED_SHARE, SLOWED
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.labels import ENDPOINTS, STATUS, flagged
from tpcsweep.data.scatter import OF_THE_MACHINE
from tpcsweep.sweeps.sweep import REPETITION

_SLOWED = SLOWED / 2
"""Slowdown of the machine from which a cell without a flag is counted; a quiet machine varies by 0.2 at most."""
SLOWED_TEXT = f"{short(100 * _SLOWED)} %"
_MANY = 0.2  # share of measured cells above which the page starts with a warning


def cells_on_full_machine(summary: xr.Dataset) -> NDArray[np.bool_]:
    """Return which cells of endpoints used or waited for all CPUs of the measuring machine.

    Cells of other testbeds have the flag `machine_saturated` instead.
    """
    if summary.attrs.get("testbed_kind") != ENDPOINTS:
        return np.zeros(summary["throughput"].shape, bool)
    return _used(summary) >= BUSY


def _used(summary: xr.Dataset) -> NDArray[np.float64]:
    """Return the share of the machine's CPU time that was busy; NaN if unknown."""
    if "machine_cpu" not in summary:
        return np.full(summary["throughput"].shape, np.nan)
    return np.asarray(summary["machine_cpu"].values, float)


def disturbance(summary: xr.Dataset) -> str:
    """Return a warning if the machine was full, busy or slow during more than a fifth of measured cells, or ""."""
    measured = (summary["status"] != STATUS.index("not_measured")).values
    every, full = int(measured.sum()), int((cells_on_full_machine(summary) & measured).sum())
    if full > _MANY * every:
        return (
            f"The measuring machine was full during {full} of {every} cells, so rates may be its own. The client only "
            "asks servers for third-party copies, but tools that stream, and servers on this machine, share its CPUs. "
            "Measure again on an idle machine first."
        )
    which = {flag: flagged(summary, flag).values & measured for flag in OF_THE_MACHINE}
    count = int(np.any([*which.values()], axis=0).sum())
    if count <= _MANY * every:
        return ""
    named = ", ".join(
        f"{FLAGS[flag].label} ({int(held.sum())})" for flag, held in which.items() if held.any()
    )
    return (
        f"The machine was busy or slow during {count} of {every} cells: {named}. Their throughput is that of the "
        "machine, not of the setting. Measure them again on an idle machine, or with fewer cores and a slower path."
    )


def slowed_cells(summary: xr.Dataset) -> NDArray[np.bool_]:
    """Return which cells without a flag of the machine were measured while it was slower than at other times."""
    return np.asarray(_slowdown(summary).values >= _SLOWED)


def _slowdown(summary: xr.Dataset) -> xr.DataArray:
    """Return the slowdown of the machine as a share; NaN if it is unknown, or a flag names it."""
    known = summary.get("machine_slowed", np.nan * summary["throughput"])
    return known.where(~flagged(summary, *OF_THE_MACHINE))


def machine_load(summary: xr.Dataset) -> str:
    """Describe how quiet or full the machine was during measured cells, or return "" if nobody knows."""
    full = cells_on_full_machine(summary)
    if full.any():
        least = math.floor(100 * float(_used(summary)[full].min()))
        every = int((summary["status"] != STATUS.index("not_measured")).sum())
        return f"measuring machine full: at least {least} % of its CPU in {full.sum()} of {counted(every, 'cell')}"
    busy, slow = int(flagged(summary, *OF_THE_MACHINE).sum()), int(slowed_cells(summary).sum())
    known = "machine_others" in summary and bool(summary["machine_others"].notnull().any())
    texts = [f"machine busy or slow in {counted(busy, 'cell')}"] if busy and known else []
    if slow:
        most = short(100 * float(_slowdown(summary).max()), 2)
        texts.append(
            f"machine at least {SLOWED_TEXT} slower than at its fastest in {counted(slow, 'cell')}, {most} % at worst"
        )
    if known:
        others = summary["machine_others"] + summary["machine_steal"].fillna(0.0)
        share = f"other programs used at most {short(100 * float(others.max()), 2)} % of its CPU"
        texts.append(share if texts else f"machine quiet: {share}")
    return "; ".join(texts)


def host_load(summary: xr.Dataset) -> str:
    """Describe the load of recorded hosts during measured cells, or return "" if nobody knows."""
    cpu = summary.get("host_cpu", np.nan * summary["throughput"])
    if not cpu.notnull().any():
        return ""
    text = f"CPUs of hosts busy for at most {short(100 * float(cpu.max()), 2)} % of the time, by all programs"
    if (others := summary["host_others"]).notnull().any():
        most = float(others.max())
        text += f", with {f'at most {short(most, 2)} Gbit/s of' if most else 'no'} other traffic seen"
    unknown = int(((summary["status"] != STATUS.index("not_measured")) & cpu.isnull()).sum())
    return text + (f" (not known in {counted(unknown, 'cell')})" if unknown else "")


def loads_of_settings(summary: xr.Dataset) -> list[str]:
    """Describe the load of the machine, or of the hosts of endpoints, during each setting's cells; "" if unknown."""
    unknown = np.nan * summary["throughput"]
    names = ("machine_others", "machine_steal", "machine_slowed", "host_cpu", "host_others")
    others, steal, slowed, cpu, traffic = (summary.get(name, unknown) for name in names)
    figures = (others + steal.fillna(0.0), slowed, cpu, traffic)
    columns = [each.max(REPETITION).values.ravel().tolist() for each in figures]
    if summary.attrs.get("testbed_kind") == ENDPOINTS:
        return [_hosts_text(cpu, traffic) for _, _, cpu, traffic in zip(*columns, strict=True)]
    return [_machine_text(others, slowed) for others, slowed, _, _ in zip(*columns, strict=True)]


def _machine_text(others: float, slowed: float) -> str:
    if not math.isfinite(others):
        return ""
    busy, slow = others >= DISTURBED_SHARE, slowed >= _SLOWED
    state = " and ".join(filter(None, ["busy" * busy, "slow" * slow])) or "quiet"
    speed = f", and it was up to {100 * slowed:.0f} % slower than at its fastest" if slowed >= 0.005 else ""
    return f"The machine was {state} meanwhile: other programs used up to {100 * others:.0f} % of its CPU{speed}."


def _hosts_text(cpu: float, traffic: float) -> str:
    if not math.isfinite(cpu):
        return ""
    seen = f", with up to {short(traffic, 2)} Gbit/s of other traffic" if traffic > 0 else ""
    return f"CPUs of hosts were busy for up to {100 * cpu:.0f} % of the time, by all programs{seen}."
