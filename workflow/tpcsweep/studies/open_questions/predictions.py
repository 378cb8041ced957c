"""What netem's limit says of the published measurement, for every set-up that it may have had. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from tpcsweep.studies.open_questions.arithmetic import ABOUT_1, DEFAULT_LIMIT, Setup, published, rtt_exponent

NEAR, FAR = 10.0, 60.0
"""ms, of question (2)."""


def first(rtt: float = 120, streams: Sequence[int] = (100, 500), limit: int = DEFAULT_LIMIT) -> pd.DataFrame:
    """Question (1): goodput in Gbit/s at an RTT in ms, from the least to the most over the given streams."""
    rows = []
    for side, share, mtu, offloads, queues in published():
        setup = Setup(share * rtt, mtu, offloads, limit, queues)
        spans = [setup.goodput(count) for count in streams]
        low, high = min(span.low for span in spans), max(span.high for span in spans)
        rows.append(
            {
                "delay": side,
                "MTU": mtu,
                "offloads": "on" if offloads else "off",
                "interfaces": queues,
                "from streams": setup.crossover.high,
                "least": low,
                "most": high,
                "about 1 Gbit/s": ABOUT_1.overlaps(spans[-1]._replace(low=low, high=high)),
            }
        )
    return pd.DataFrame(rows)


def second(streams: int, others: Sequence[float], limit: int = DEFAULT_LIMIT) -> pd.DataFrame:
    """Question (2): the exponent of RTT from 10 to 60 ms that netem's limit leaves, by what else binds (Gbit/s)."""
    rows = []
    for side, share, mtu, offloads, queues in published():
        near, far = (Setup(share * rtt, mtu, offloads, limit, queues).cap(streams) for rtt in (NEAR, FAR))
        for other in others:
            span = rtt_exponent(near, far, (NEAR, FAR), other)
            rows.append(
                {
                    "delay": side,
                    "MTU": mtu,
                    "offloads": "on" if offloads else "off",
                    "interfaces": queues,
                    "other limit": other,
                    "least": span.low,
                    "most": span.high,
                    "1/RTT": bool(np.isclose(span.low, -1) and np.isclose(span.high, -1)),
                }
            )
    return pd.DataFrame(rows)


def curve(setup: Setup, streams: Sequence[int]) -> pd.DataFrame:
    """Goodput in Gbit/s over streams, least and most."""
    spans = [setup.goodput(count) for count in streams]
    return pd.DataFrame(
        {"streams": streams, "least": [span.low for span in spans], "most": [span.high for span in spans]}
    )
