"""How throughput goes with streams and with RTT, from rows of `observed`. Pure."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.studies.open_questions.arithmetic import Span


def exponent(rows: pd.DataFrame, axis: str) -> Span | None:
    """The exponent e of throughput ~ axis^e between its ends, all else in these rows equal, within 2 standard errors.

    None where there are no two values.
    """
    levels = rows.groupby(axis).agg(
        throughput=("throughput", "mean"), error=("error", lambda one: np.sqrt((one**2).sum()) / len(one))
    )
    if len(levels) < 2:
        return None
    first, last = levels.iloc[0], levels.iloc[-1]
    wide = math.log(levels.index[-1] / levels.index[0])
    middle = math.log(last["throughput"] / first["throughput"]) / wide
    error = math.hypot(*(one["error"] / one["throughput"] for one in (first, last))) / wide
    return Span(middle - 2 * error, middle + 2 * error)


def corners(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Of rows of one source and explanation those along streams at the longest RTT, and along RTT at the most streams.

    Of several settings those that have the most rows.
    """
    alike = ["limit", "mtu", "offloads", "bandwidth"]
    rows = max((group for _, group in rows.groupby(alike, dropna=False)), key=_reach)
    along_streams = rows[rows["rtt"] == rows["rtt"].max()]
    return along_streams, rows[rows["streams"] == rows["streams"].max()]


def _reach(rows: pd.DataFrame) -> tuple[int, int]:
    return min(rows["streams"].nunique(), 2) * min(rows["rtt"].nunique(), 2), len(rows)
