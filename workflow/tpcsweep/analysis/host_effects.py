# SPDX-License-Identifier: Apache-2.0
"""Hosts behind the effects of a setting: which of their settings it changed, and its effect at equal foreign load.

Analysis of covariance inside blocks: the logarithm of the ratio of a block is regressed on the difference of the
foreign traffic, and the effect is that without a difference (R. A. Fisher, Statistical Methods for Research Workers,
1932, § 49.1). The load of CPUs is no covariate, because a cell's own is part of it.
"""

import numpy as np
import xarray as xr
from scipy import stats

from tpcsweep.common.numbers import CONFIDENCE, between, counted, short
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.made_with import differing_host_keys
from tpcsweep.data.tables import observations
from tpcsweep.sweeps.parameters import value_text
from tpcsweep.sweeps.sweep import REPETITION

FEWEST_BLOCKS = 4  # a line through three leaves one degree of freedom
MOST_NAMES = 10
LOAD = "host_others"


def host_notes(summary: xr.Dataset, setting: str, reference: str) -> list[str]:
    """Return sentences on settings of hosts that differ along an axis, and on effects at equal foreign load."""
    keys = differing_host_keys(summary, setting)
    lines = []
    for name, row in [*keys.items()][:MOST_NAMES]:
        values: dict[str, list[str]] = {}
        for value, text in row.items():
            values.setdefault(text or "not recorded", []).append(value)
        states = (f"{text} at {', '.join(same)}" for text, same in values.items())
        lines.append(f"{name.removeprefix('hosts.')}: {'; '.join(states)}")
    if more := len(keys) - len(lines):
        lines.append(f"{counted(more, 'more setting')} of hosts not shown")
    return [*lines, *_at_equal_load(summary, setting, reference)]


def _at_equal_load(summary: xr.Dataset, setting: str, reference: str) -> list[str]:
    rows = observations(summary, untrusted=graded(FLAGS, "invalid"), also=(LOAD,))
    rows = rows[(rows["reason"] == "") & (rows["throughput"] > 0) & rows[LOAD].notna()]
    axes = [str(name) for name in summary["throughput"].dims if name != setting]
    rows = rows.assign(
        value=rows[setting].map(lambda one: value_text(setting, one)), log=np.log(rows["throughput"])
    )
    tables = {name: rows.pivot_table(name, axes, "value") for name in ("log", LOAD)}
    lines = []
    for value in tables["log"].columns:
        if value == reference or reference not in tables["log"]:
            continue
        effect, load = (
            (table[value] - table[reference]).groupby(level=REPETITION).mean() for table in tables.values()
        )
        known = effect.notna() & load.notna()
        if known.sum() < FEWEST_BLOCKS or np.ptp(load[known]) == 0:
            continue
        fit = stats.linregress(load[known], effect[known])
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, known.sum() - 2)) * fit.intercept_stderr
        ratio, low, high = np.exp([fit.intercept, fit.intercept - half, fit.intercept + half]).tolist()
        foreign = f"foreign load differs by {short(load[known].min())} to {short(load[known].max())} Gbit/s"
        lines.append(
            f"{value}: ratio {short(ratio)} ({between(low, high)}) at equal load of hosts; {foreign}"
        )
    return lines
