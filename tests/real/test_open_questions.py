"""Netem's limit on a real kernel: the experiment that the open questions turn on."""

from __future__ import annotations

import pytest
from tpcsweep.questions.arithmetic import Setup
from tpcsweep.questions.experiments import Experiment
from tpcsweep.questions.kernel import measure

pytestmark = pytest.mark.real


def test_netem_holds_no_more_than_its_limit_of_packets_of_two_segments() -> None:
    # As small as one slow CPU carries with ease.
    one = Experiment("queue_limit", streams=8, rtt=60, limit=200, mtu=1500)
    (found,) = measure([one])["experiments"]
    setup = Setup(one.rtt, one.mtu, limit=one.limit)
    cap = setup.cap(one.streams)
    assert cap.low == cap.high
    # Connections that lose what is above a cap do not fill it.
    assert 0.3 * cap.low < found["throughput"] < 1.3 * cap.low
    assert found["drops"] > 0
    assert found["packets_held"] <= one.limit
    # Two segments, or one where losses left windows of odd numbers.
    assert 0.5 * setup.packets.low < found["packet"] < 1.3 * setup.packets.low
