# SPDX-License-Identifier: Apache-2.0
"""What the kernels of sending hosts saw in settings of endpoints whose limit is not known."""

import numpy as np
import pytest
import xarray as xr
from tpcsweep.data.host_rates import is_full
from tpcsweep.data.variables import NOT_VISIBLE
from tpcsweep.pages.host_senders import host_senders

HIDDEN = np.array([NOT_VISIBLE] * 2)
NO_GAIN = np.full(2, np.nan)  # of more streams
RTT, IN_FLIGHT = 20.0, 250_000.0  # of a busy connection: 0.1 Gbit/s


def settings(rates: list[float], **figures: float) -> xr.Dataset:
    """Settings of one and of eight streams, whose busy connections carry 0.1 Gbit/s each."""
    usual = {"host_in_flight": IN_FLIGHT, "host_rtt": RTT, "host_rwnd_limited": 0.0}
    usual |= {"host_sndbuf_limited": 0.0, "host_retransmitted": 0.0}
    values = {name: ("streams", [value] * 2) for name, value in (usual | figures).items()}
    return xr.Dataset({"throughput": ("streams", rates), **values}, {"streams": [1, 8]})


def test_the_time_with_data_under_way_is_throughput_over_the_rate_of_busy_connections() -> None:
    """Connections that end between two readings lose what they counted since, in bytes and in time alike."""
    found = host_senders(settings([0.04, 0.8]), HIDDEN, NO_GAIN)
    assert found.under_way.tolist() == pytest.approx([0.4, 1.0])
    first, second = found.lines()
    assert first.startswith("By the record of hosts data was under way for 40 % of the streams' time")
    assert first.endswith("This points to the source having none to send, as between files.")
    assert second.endswith("What is left is slow start of each connection, pacing, or a limit on the way.")
    every = found.in_settings(np.ones(2, bool))
    assert every.startswith("In 2 settings, by the record of hosts data was under way for 40 to 100 % of")
    assert not found.in_settings(np.zeros(2, bool))


@pytest.mark.parametrize(
    ("figures", "cause"),
    [
        ({"host_rwnd_limited": 0.2, "host_sndbuf_limited": 0.2}, "full windows"),
        ({"host_retransmitted": 0.01}, "losses"),
        ({"host_retransmitted": 0.01, "host_rwnd_limited": 0.9}, "full windows or losses"),
    ],
)
def test_windows_and_losses_are_causes(figures: dict[str, float], cause: str) -> None:
    _, line = host_senders(settings([0.1, 0.8], **figures), HIDDEN, NO_GAIN).lines()
    assert line.endswith(f"This points to {cause}.")


def test_a_way_that_carries_more_streams_is_not_full() -> None:
    senders = host_senders(settings([0.1, 0.8]), HIDDEN, np.array([8.0, np.nan]))
    one, eight = senders.lines()
    assert "More streams reach 8 times as much over the same hosts and path, so these are not full" in one
    assert one.endswith("what is left is slow start or pacing of each connection.")
    assert eight.endswith("or a limit on the way.") and senders.in_settings(np.ones(2, bool)).endswith("way.")


def test_a_known_limit_or_no_record_says_nothing() -> None:
    known = host_senders(settings([0.1, 0.1]), np.array(["window", "bandwidth"]), NO_GAIN)
    bare = host_senders(settings([0.1, 0.1])[["throughput"]], HIDDEN, NO_GAIN)
    unread = host_senders(settings([0.1, 0.1], host_in_flight=np.nan), HIDDEN, NO_GAIN)
    assert known.lines() == bare.lines() == unread.lines() == ["", ""]


def test_a_rate_that_is_full_while_data_is_under_way_is_the_limit() -> None:
    """If that is most of the time; the rate of a busy connection is then the limit's."""
    shares, under_way = np.array([0.8, 0.8, 0.8, 0.5, 0.95]), np.array([0.9, np.nan, 0.99, 0.55, 0.4])
    assert is_full(shares, under_way).tolist() == [True, False, False, False, True]
