# SPDX-License-Identifier: Apache-2.0
"""Plans without data: their arithmetic, and the measured constants behind it."""

import math
from pathlib import Path
from typing import Any

import pytest
from tpcsweep.analysis.plans.law import LINUX, constants, plan_by_law
from tpcsweep.data.opening import load
from tpcsweep.measuring.first_bytes import START, startup
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.problems import ConfigurationError

from tests.support.workflow import ROOT


def test_a_larger_buffer_needs_fewer_streams_down_to_what_cores_need() -> None:
    plan = plan_by_law({"target": 10.0, "rtt": 80.0, "file_size": 4 * 2**30})
    buffers, streams = ([getattr(row, name) for row in plan.rows] for name in ("tcp_buffer", "streams"))
    assert buffers == sorted(buffers) and buffers[0] == LINUX
    assert streams == sorted(streams, reverse=True) and streams[0] > streams[-1]
    # 10 Gbit/s × 80 ms are 100 MB under way.
    assert plan.window == pytest.approx(100e6)
    share, slowest = constants()["window"].value, 1 / constants()["destination_cpu"].value
    first, last = plan.rows[0], plan.rows[-1]
    assert first.sending == pytest.approx(share * LINUX * 8 / 0.08 / 1e9)
    assert last.sending == pytest.approx(slowest) and last.streams >= math.ceil(10 / slowest)
    # Between files a stream waits for the first byte, and for slow start.
    file = 4 * 2**30 * 8e-9
    assert first.stream < file / (file / first.sending + startup("gfal-copy", 80.0))
    for row in plan.rows:
        assert row.stream * row.streams >= 10 > row.stream * (row.streams - 1)
    assert plan.cores["destination"][0] == pytest.approx(10 / slowest)


def test_what_the_user_fixes_is_used() -> None:
    few, usual = (plan_by_law({"target": 1.0, "rtt": 40.0, "tcp_buffer": 8 * 2**20, **more})
                  for more in ({"tool": "native", "file_size": 2**34}, {"file_size": 2**24}))  # fmt: skip
    assert [row.tcp_buffer for row in few.rows] == [8 * 2**20]
    assert few.rows[0].streams < usual.rows[0].streams


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_has_an_answer(tool: str) -> None:
    assert plan_by_law({"target": 1.0, "rtt": 40.0, "tool": tool}).rows


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({}, "rtt: given nothing"),
        ({"rtt": 0.0}, "more than 0 ms"),
        ({"rtt": 8.0, "cores": (4.0,)}, "cores: given a value without data"),
        ({"rtt": 8.0, "bandwidth": 1.0}, "target: given 2 Gbit/s, allowed: at most the bandwidth, 1 Gbit/s"),
    ],
)
def test_questions_that_the_law_cannot_answer_are_refused(question: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        plan_by_law({"target": 2.0, **question})


def test_the_constants_are_those_of_their_dataset() -> None:
    surface = load(Path(ROOT / "examples/surface.nc"))
    fast = surface.throughput > 0.2
    for side in ("source", "destination"):
        known = constants()[f"{side}_cpu"]
        cost = (surface[f"{side}_cpu"] / surface.throughput).where(fast)
        assert f"{int(fast.sum())} cells of examples/surface.nc" in constants()["source_cpu"].source
        found = [float(cost.quantile(share)) for share in (0.25, 0.5, 0.75)]
        assert found == pytest.approx([known.low, known.value, known.high], rel=0.01)
    assert all(one.low <= one.value <= one.high and one.source for one in constants().values())
    assert all(one.seconds > 0 and one.round_trips > 0 for one in START.values())
