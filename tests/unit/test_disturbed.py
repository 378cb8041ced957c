# SPDX-License-Identifier: Apache-2.0
"""Whether the machine was as at other times while a cell was measured."""

import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.measure.machine import SLOWED, TAKEN, TRIES, WINDOW, Machine, Speed, disturbed, pressure
from tpcsweep.measure.readings import mean, sampled_series

from tests.support.readings import ZERO

PRESSURE = b"some avg10=61.74 avg60=64.12 avg300=41.50 total=202700643\nfull avg10=0.00 total=5\n"
SHARE = st.one_of(st.none(), st.floats(0, 1))
INSTANT = 1e-9
"""Seconds of a piece of work after which the next look is due at once."""


def speed(pieces: Iterator[float]) -> Speed:
    return Speed(lambda: next(pieces) * INSTANT)


def looks(*found: float) -> Iterator[float]:
    """Pieces of work: those of a look are all the same."""
    return (value for value in found for _ in range(TRIES))


def test_this_machine_has_a_condition_and_pressure_is_the_time_in_which_something_waited() -> None:
    watched = Machine()
    before, after = watched.look(), watched.look()
    watched.close()
    assert 0 < before.tasks <= before.busy <= before.total
    assert after.busy >= before.busy and after.work > 0
    assert before.pressure is None or after.pressure >= before.pressure
    assert pressure(PRESSURE) == pytest.approx(202.700643)


@given(st.floats(1, 100))
def test_a_machine_is_as_much_slower_as_its_work_takes_longer(factor: float) -> None:
    found = speed(looks(*[1.0] * WINDOW, factor))
    for _ in range(WINDOW - 1):
        assert found.look()[1] is None  # nothing to compare with
    assert found.look() == (pytest.approx(1e3 * INSTANT), pytest.approx(0))
    assert found.look() == (pytest.approx(factor * 1e3 * INSTANT), pytest.approx(factor - 1))


@given(st.integers(0, WINDOW - 1))
def test_a_single_piece_that_is_fast_makes_no_others_slow(place: int) -> None:
    found = speed(looks(*(0.5 if at == place else 1.0 for at in range(WINDOW)), 1.0))
    *_, (_, last) = (found.look() for _ in range(WINDOW + 1))
    assert last is not None and 0 <= last <= 1 / WINDOW


def test_the_fastest_piece_of_a_look_counts_and_looks_take_no_more_than_their_share_of_a_core() -> None:
    coarse = speed(looks(*[0.0] * WINDOW))  # a clock that knows no speed
    assert {coarse.look() for _ in range(WINDOW)} == {(0.0, None)}
    pieces = iter([3.0, 1.0, 2.0][:TRIES])
    assert speed(pieces).look()[0] == pytest.approx(1e3 * INSTANT)
    found = Speed(iter([3600.0] * TRIES).__next__)
    first = found.look()
    assert found.look() == first  # another would raise StopIteration


def test_what_others_use_is_a_share_of_all_cpus_and_waiting_one_of_time() -> None:
    start = ZERO._replace(machine_others=0.0, machine_pressure=0.0)
    later = ZERO._replace(time=0.5, machine_total=4.0, machine_others=1.0, machine_pressure=0.25)
    found = sampled_series([start, later], 0.5)
    assert found["machine_others"] == [pytest.approx(0.25)]
    assert found["machine_pressure"] == [pytest.approx(0.5)]
    unknown = sampled_series([ZERO, ZERO._replace(time=0.5)], 0.5)
    for name in ("machine_others", "machine_pressure", "machine_work", "machine_slowed"):
        assert math.isnan(mean(unknown[name]))


@given(st.tuples(SHARE, SHARE, st.none() | st.floats(-1, 10)), st.integers(0, 2), st.floats(0, 1))
def test_more_load_calms_no_cell(found: tuple[float | None, ...], place: int, more: float) -> None:
    worse = [(value or 0) + more if at == place else value for at, value in enumerate(found)]
    assert disturbed(*worse) or not disturbed(*found)
    # What is not known disturbs nobody.
    assert not disturbed(None, None, None)
    assert disturbed(None, 2 * TAKEN, None) and disturbed(None, None, 2 * SLOWED)
