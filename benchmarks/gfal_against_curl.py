# SPDX-License-Identifier: Apache-2.0
"""Paired cells for two questions of the 2023 paper: gfal-copy or curl, redirector or origins.

The cells of a pair follow each other in alternating order, in one deployment, so that a drift of the machine's speed
affects both equally. The ratio is the geometric mean over the pairs with its 95 % interval, and the verdict that of the
claim (docs/published.md). Origins have a quota and the path does not bind.

    python -m benchmarks.gfal_against_curl       as root; about 8 minutes
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from tpcsweep.analysis.claims.judging import CLAIMS
from tpcsweep.data.effects import Region, mean_ratio
from tpcsweep.measuring.cell import measure
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.netns.site import NetnsSite

from benchmarks.site import site_of

PAIRS = 8
SECONDS = 6.0
HOW = Measurement(min_time=SECONDS, max_time=SECONDS)
DEPLOYMENT: dict[str, Any] = {"origins": 2, "cores": 0.4, "rtt": 10.0, "bandwidth": 2.0}
CELL: dict[str, Any] = {**DEPLOYMENT, "file_size": 64 << 20}
STREAMS = (1, 8)


@dataclass(frozen=True)
class Question:
    """Whether the ratio of two settings is as claimed."""

    base: dict[str, Any]
    new: dict[str, Any]
    claimed: Region

    def __str__(self) -> str:
        return " / ".join(" ".join(map(str, one.values())) for one in (self.new, self.base))


QUESTIONS = (
    Question({"tool": "curl"}, {"tool": "gfal-copy"}, CLAIMS["chep2023.gfal_vs_curl"].region),
    Question({"endpoint": "direct"}, {"endpoint": "redirector"}, CLAIMS["chep2023.redirector_free"].region),
)
VERDICTS = {True: "holds", False: "does not hold", None: "not decided"}


def main() -> None:
    with site_of(**DEPLOYMENT) as site:
        print(f"load average at the start: {os.getloadavg()[0]:.1f}\n")
        print("| ratio | streams | base Gbit/s | new Gbit/s | ratio | 95 % interval | claimed | verdict |")
        print("|---|---|---|---|---|---|---|---|")
        for question in QUESTIONS:
            for streams in STREAMS:
                show(question, streams, pairs(site, question, streams))


def show(question: Question, streams: int, found: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Print one line of the table; `found` has the summaries of each pair, base first."""
    rates = np.array([[one["throughput"] for one in pair] for pair in found])
    errors = np.array([np.hypot(*(error(one) for one in pair)) for pair in found])
    interval = mean_ratio(rates[:, 1] / rates[:, 0], errors)
    assert interval
    base, new = rates.mean(axis=0)
    print(
        f"| {question} | {streams} | {base:.3f} | {new:.3f} | {interval.value:.3f} "
        f"| {interval.low:.3f} to {interval.high:.3f} | {question.claimed} "
        f"| {VERDICTS[question.claimed.decide(interval)]} |",
        flush=True,
    )


def pairs(site: NetnsSite, question: Question, streams: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the summaries of base and new, pair by pair."""
    found = []
    for number in range(PAIRS):
        order = (question.base, question.new) if number % 2 == 0 else (question.new, question.base)
        cells = [one_cell(site, {**CELL, "streams": streams, **which}, number) for which in order]
        found.append((cells[0], cells[1]) if number % 2 == 0 else (cells[1], cells[0]))
    return found


def one_cell(site: NetnsSite, wanted: dict[str, Any], number: int) -> dict[str, Any]:
    cell = measure(site, Parameters(**wanted), HOW, f"p{number}", lambda *_: None)
    assert cell.status == "ok", cell.message
    summary: dict[str, Any] = {**cell.summary.figures}
    return summary


def error(summary: dict[str, Any]) -> float:
    """Return the standard error of the logarithm of a cell's throughput; NaN without an interval."""
    low, high = summary["throughput_low"], summary["throughput_high"]
    if low is None or high is None:
        return float("nan")
    return float((high - low) / 2 / stats.norm.ppf((1 + HOW.confidence) / 2) / summary["throughput"])


if __name__ == "__main__":
    main()
