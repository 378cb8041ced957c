# SPDX-License-Identifier: Apache-2.0
"""The experiment of the open questions, netem's limit on a real kernel."""

from __future__ import annotations

import pytest
from tpcsweep.studies.open_questions.arithmetic import Setup
from tpcsweep.studies.open_questions.experiments import Experiment, measure

pytestmark = pytest.mark.real


def test_netem_holds_no_more_than_its_limit_of_packets_of_two_segments() -> None:
    # As small as one slow CPU carries with ease; so many that one with thrice its share still makes small packets.
    one = Experiment("queue_limit", streams=24, rtt=60, limit=200, mtu=1500)
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
