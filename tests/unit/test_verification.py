# SPDX-License-Identifier: Apache-2.0
"""How a path is judged by looks at it, of either method."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.deploying.paths import udp_looks, verification
from tpcsweep.deploying.paths.link import Rtt
from tpcsweep.deploying.paths.network_path import NetworkPath, PathError
from tpcsweep.deploying.paths.verification import CALM_LOOKS, FoundPath, FoundRate, verify

ASKED = NetworkPath(20, 1, mtu=9000)
RTT, LONGER = Rtt(19.9, 20.0, 20.1, 17), Rtt(24.9, 25.0, 25.1, 17)
FITS, SLOW, FAST = (FoundRate(rate, known=True, windows=10, full=10) for rate in (1.0, 0.8, 1.2))
UNKNOWN = FoundRate(0.3, known=False, windows=30, full=2)
BUSY = FoundRate(0.64, known=True, windows=1, full=0)


def found(there: FoundRate = FITS, back: FoundRate = FITS, rtt: Rtt = RTT, **changes: Any) -> FoundPath:
    return FoundPath(rtt, **{"mtu": 9000, "near_to_far": there, "far_to_near": back, "calm": True, **changes})


def judged(*looks: FoundPath, strict: bool = True) -> FoundPath:
    """Verify a path that looks so, one look after another; the last for ever."""
    seen = list(looks)
    return verify(ASKED, "the path", lambda _: seen.pop(0) if len(seen) > 1 else seen[0], strict=strict)


def test_the_tolerances_are_the_documented_ones_and_most_of_calm_round_trips_are_short() -> None:
    rtts = ((1, 1.29), (1, 1.31), (100, 98), (100, 97.9))
    fits = [verification.rtt_fits(asked, Rtt(seen, seen, seen, 17)) for asked, seen in rtts]
    assert fits == [True, False, True, False]
    rates = [replace(FITS, found=rate) for rate in (0.951, 0.949, 1.029, 1.031)]
    assert [not verification.too_slow(ASKED, rate) for rate in rates] == [True, False, True, True]
    assert [not verification.too_fast(ASKED, rate) for rate in rates] == [True, True, True, False]
    assert verification.calm_rtt(10, Rtt(14.9, 15.0, 80.0, 17))  # another path, and sure of it
    assert not verification.calm_rtt(10, Rtt(10.0, 10.4, 80.0, 17))
    assert verification.calm_rtt(100, Rtt(100.0, 101.9, 120.0, 17))


@pytest.mark.parametrize(
    ("measured", "complaint"),
    [
        (found(rtt=LONGER), r"rtt asked 20 ms, found 25 ms .*, allowed ±0\.4 ms"),
        (found(mtu=1500), "mtu asked 9000, found 1500"),
        (found(FAST), r"bandwidth from source to destination asked 1 Gbit/s, found 1\.2 Gbit/s"),
        # Another path is refused however slow it may be.
        (
            found(FAST, SLOW),
            r"found 1\.2 Gbit/s.*to source asked 1 Gbit/s, found 0\.8 Gbit/s, allowed -5% to \+3%",
        ),
    ],
)
def test_another_path_is_refused_after_calm_looks(measured: FoundPath, complaint: str) -> None:
    said = f"the path differs .* measured {CALM_LOOKS} times, {CALM_LOOKS} of them on a calm .*{complaint}"
    with pytest.raises(PathError, match=said):
        judged(measured, strict=False)


def test_a_busy_machine_is_not_held_against_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = found(BUSY, calm=False)
    assert judged(*[busy] * 9, found()).attempts == 10
    assert not judged(*[found(SLOW)] * (CALM_LOOKS - 1), found()).slow
    with pytest.raises(PathError, match="5 times, 3 of them on a calm"):
        judged(found(SLOW), busy, busy, found(SLOW))
    monkeypatch.setattr(verification, "PATIENCE", 0.01)
    with pytest.raises(PathError, match="0 of them on a calm machine"):
        judged(busy)


@pytest.mark.parametrize("other", [FITS, UNKNOWN], ids=["as asked", "unknown"])
def test_a_path_that_is_only_too_slow_is_measured_on_or_refused(other: FoundRate) -> None:
    seen = judged(found(other, SLOW), strict=False)
    assert (seen.slow, seen.bandwidth) == (True, 0.8)
    with pytest.raises(PathError, match=r"from destination to source asked 1 Gbit/s, found 0\.8 Gbit/s"):
        judged(found(other, SLOW))


def test_a_rate_that_is_not_known_is_neither_refused_nor_called_slow() -> None:
    seen = judged(found(UNKNOWN, UNKNOWN))
    assert (seen.slow, seen.bandwidth) == (False, None)
    assert seen.to_dict()["near_to_far"] == {"found": 0.3, "known": False, "windows": 30, "full": 2}


@given(st.floats(0, 1))
def test_a_limited_path_may_be_slower_than_asked_and_not_faster(share: float) -> None:
    limited = replace(ASKED, queue_limit=1000)
    slow = found(replace(FITS, found=share))
    assert verification.differences(limited, slow) + verification.shortfalls(limited, slow) == []
    [said] = verification.differences(limited, found(FITS, FAST))
    assert said.startswith("bandwidth from destination to source") and said.endswith("allowed -100% to +3%")


def test_a_look_by_datagrams_repeats_figures_that_differ_in_longer_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    windows: list[tuple[bool, float]] = []

    def measured(_: object, *, reverse: bool, window: float) -> FoundRate:
        windows.append((reverse, window))
        return BUSY if reverse else replace(FITS, full=0)

    link: Any = SimpleNamespace(near="near", far="far", emulator="none", line=None, rtt=lambda: RTT)
    monkeypatch.setattr(udp_looks, "measure_bandwidth", measured)
    monkeypatch.setattr(verification, "PATIENCE", 0.01)
    with pytest.raises(PathError, match=r"from near to far .*, 0 of them on a calm .* found 0\.64 Gbit/s"):
        udp_looks.verify_link(ASKED, link)
    assert windows[:2] == [(False, udp_looks.WINDOW), (True, udp_looks.WINDOW)]
    repeated = [min(udp_looks.WINDOW * 2**n, udp_looks.LONGEST) for n in range(1, len(windows) - 1)]
    assert windows[2:] == [(True, window) for window in repeated] and repeated


@pytest.mark.parametrize(
    ("rtt", "rate", "calm"),
    [
        (RTT, SLOW, True),
        (RTT, BUSY, False),
        (LONGER, replace(FITS, full=0), True),  # whatever made a rate doubtful that is as asked
        (Rtt(20.0, 25.0, 80.0, 17), FITS, False),
    ],
)
def test_only_figures_that_differ_must_be_calm(
    rtt: Rtt, rate: FoundRate, calm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(udp_looks, "measure_bandwidth", lambda *_, **__: rate)
    link: Any = SimpleNamespace(line=None, rtt=lambda: rtt)
    assert udp_looks.look(ASKED, link).calm == calm
