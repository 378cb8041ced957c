# SPDX-License-Identifier: Apache-2.0
"""TCP on long fat paths: formulas, windows that fall and recover, the table, and ns-3 itself on a small path."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import formulas
import numpy as np
import pytest
import simulation
import table
import tcp_figures as draw
from cases import MEASURED, SHARES, SIMULATED, UTILISATIONS, Case, measured_in
from hypothesis import given
from hypothesis import strategies as st
from measurement import MeasurementError, goodputs, largest
from recovery import Dropper, follow
from runs import Run, interval, read_folder
from simulation import Sample, simulate, stall
from tpcsweep import tcp
from tpcsweep.claims.earlier import RECOVERIES
from tpcsweep.extras import missing
from tpcsweep.figures import panels
from tpcsweep.linux.sockets import Connection

from tests.support.notebooks import executed, sketched
from tests.support.workflow import ROOT

SHIPPED_VERDICTS = ROOT / "examples/terena2005-verdicts.json"
BANDWIDTHS = st.floats(0.01, 100)
RTTS = st.floats(0.01, 500)
MTUS = st.integers(576, 65536)
LOSSES = st.floats(1e-7, 0.1)


@given(BANDWIDTHS, RTTS, MTUS)
def test_recovery_is_quadratic_in_rtt_and_linear_in_bandwidth(bandwidth: float, rtt: float, mtu: int) -> None:
    once = tcp.recovery_time(bandwidth, rtt, mtu)
    assert tcp.recovery_time(bandwidth, 3 * rtt, mtu) == pytest.approx(9 * once)
    assert tcp.recovery_time(3 * bandwidth, rtt, mtu) == pytest.approx(3 * once)


@given(BANDWIDTHS, RTTS, MTUS)
def test_cubic_never_recovers_much_later_than_reno(bandwidth: float, rtt: float, mtu: int) -> None:
    # It loses less, and grows at least as Reno would with what it has lost (RFC 9438, section 4.3).
    assert formulas.cubic_recovery_time(bandwidth, rtt, mtu) < 1.2 * tcp.recovery_time(bandwidth, rtt, mtu)


@given(BANDWIDTHS, RTTS, MTUS, LOSSES)
def test_loss_and_delayed_acks_cost_utilisation(bandwidth: float, rtt: float, mtu: int, loss: float) -> None:
    used = formulas.utilisation(bandwidth, rtt, mtu, loss)
    assert 0 < formulas.utilisation(bandwidth, rtt, mtu, 2 * loss) <= used <= 1
    assert formulas.utilisation(bandwidth, rtt, mtu, loss, packets_per_ack=2) <= used
    assert used <= formulas.cubic_utilisation(bandwidth, rtt, mtu, loss) <= 1


def test_published_figures_are_what_their_formulas_give_but_for_one() -> None:
    [chicago] = [row for row in RECOVERIES if not row.agrees]
    assert (chicago.id, chicago.published / 60) == ("recovery.chicago", 92)
    assert chicago.by_formula / 60 == pytest.approx(102.7, abs=0.05)
    lan, wan = (formulas.utilisation(row.bandwidth, row.rtt, row.mtu, row.loss) for row in UTILISATIONS)
    assert lan == pytest.approx(1448 / 1500)  # a full path
    assert wan == pytest.approx(UTILISATIONS[1].published, abs=0.0005)
    # Two MTUs share a path less unequally than published.
    small, large = formulas.shares([row.mtu for row in SHARES])
    assert SHARES[1].published / SHARES[0].published > large / small == pytest.approx(8948 / 1448)


def sawtooth(full: float, rounds: int, rtt: float) -> tuple[list[float], list[float], float]:
    """Reno over one loss, a sample a round trip: times, windows, and when the packet was dropped."""
    windows = [full] * 5 + [min(full, full / 2 + n) for n in range(rounds)]
    return [n * rtt for n in range(len(windows))], windows, 4 * rtt


@pytest.mark.parametrize(("full", "rtt"), [(20, 0.3), (499, 0.001)])
def test_a_window_is_followed_from_its_fall_to_what_it_was(full: int, rtt: float) -> None:
    times, windows, drop = sawtooth(full, full, rtt)
    fall = follow(times, windows, drop)
    assert (fall.before, fall.lowest) == (full, full / 2)
    assert fall.seconds == pytest.approx(math.ceil(full / 2) * rtt)


def test_what_does_not_fall_or_does_not_recover_is_told_apart() -> None:
    times, windows, drop = sawtooth(100, 10, 0.01)
    assert follow(times, windows, drop).seconds is None
    assert follow(times, [100.0] * len(times), drop).seconds == 0
    with pytest.raises(ValueError, match="no sample of the window"):
        follow(times[3:], windows[3:], -1)


def test_packets_are_dropped_where_the_window_fills_the_path() -> None:
    rtt, full = 0.04, 100.0
    dropper, window, drops, pending = Dropper(full, rtt, patience=1), 10.0, [], None
    for step in range(4000):
        now = step * rtt / 8
        if pending is not None and now >= pending:
            window, pending = window / 2, None
        elif drops:
            window += 1 / 8
        else:
            window *= 2 ** (1 / 8)
        if dropper.look(now, window):
            drops.append((now, window))
            pending = now + rtt
    assert full / 3 <= drops[0][1] < full
    assert len(drops) > 4
    # Each finds the window at what it was when the last was known, or above.
    times, windows = np.transpose(drops[1:])
    assert (np.diff(windows) >= 0).all() and (full <= windows).all() and (windows < 1.25 * full).all()
    # A recovery takes half a window of round trips, and a few more to rest.
    assert np.diff(times) == pytest.approx((full / 2 + 6) * rtt, rel=0.15)


LOSSY = Case("lossy", "loss", 1, 120, 60, loss=1e-3, warm_up=10)


def flow(rates: Sequence[int], windows: Sequence[int]) -> list[Sample]:
    """A sample a second."""
    seconds = enumerate(zip(itertools.accumulate(rates), windows, strict=True))
    return [Sample(at, (total,), (window,)) for at, (total, window) in seconds]


def test_a_flow_that_moves_nothing_or_by_timeouts_alone_has_stalled() -> None:
    wide = [14480] * 60
    assert stall(LOSSY, flow([9000] * 60, wide)) is None
    assert stall(LOSSY, flow([9000] * 20 + [0] * 40, wide)) == 19
    assert stall(LOSSY, flow([9000] * 20 + [1448] * 40, wide[:20] + [1448] * 40)) == 19
    # A few timeouts in a row are no stall.
    assert stall(LOSSY, flow([9000] * 20 + [0] * 5 + [9000] * 35, wide)) is None


def test_intervals_are_students() -> None:
    mean, alone = interval([1.0, 2.0, 3.0]), interval([1.0])
    assert mean and alone and mean.value == 2
    assert mean.high - 2 == pytest.approx(4.303 / math.sqrt(3), rel=1e-3)
    assert interval([]) is None and math.isnan(alone.low)


def test_goodput_is_of_what_was_sent_for_the_first_time_by_those_that_carry_data() -> None:
    idle = Connection(1, "10.88.2.1", 40.0, 10, 0, 0.0, 0.0, 0.0, 500, 0)
    then = [idle, idle._replace(cookie=2, sent=1_000_000), idle._replace(cookie=3, sent=2_000_000)]
    now = [idle, idle._replace(cookie=2, sent=2_250_000, resent=250_000), then[2]]
    chosen = largest(then, 2)
    assert [connection.cookie for connection in chosen] == [2, 3]
    assert goodputs(chosen, now, 2.0) == {2: pytest.approx(0.004), 3: 0}
    with pytest.raises(MeasurementError, match="1 of 2 connections ended"):
        goodputs(chosen, now[:2], 2.0)


def made(case: Case, how: str, repetitions: list[dict[str, object]]) -> Run:
    return Run(case, how, repetitions, {}, None, 1.0)  # type: ignore[arg-type]


def test_without_measurements_the_table_says_which_command_makes_them() -> None:
    rows = table.rows([])
    asked = [row for row in rows if row.measured == table.MEASURE]
    assert len(asked) == len(MEASURED) + 1  # two rows of two MTUs
    published = {f"terena2005.{row.id}" for row in (*RECOVERIES, *UTILISATIONS, *SHARES)}
    assert published <= {row.id for row in rows}
    [wrong] = [row for row in rows if "not what the publication's own formula gives" in row.note]
    assert (wrong.published, wrong.formula) == ("1 h 32 min", "1 h 42.7 min")
    assert {row.simulated for row in rows} == {"not simulated"}
    assert {row.measured for row in rows} == {"not measured", table.MEASURE}
    assert len(table.markdown(rows).splitlines()) == len(rows) + 2


def test_what_was_run_is_in_the_cell_of_how_it_was_made() -> None:
    wan = next(case for case in SIMULATED if case == Case("", "loss", 1, 120, 0, loss=1e-4))
    measured = next(case for case in MEASURED if case == wan)
    rates = [{"goodputs": [rate]} for rate in (0.010, 0.011, 0.012)]
    runs = [made(wan, "simulated", [*rates, {"broken": "stalled at 3 s"}]), made(measured, "measured", rates)]
    [row] = [row for row in table.rows(runs) if row.id == "terena2005.loss.wan"]
    # 11 Mbit/s of payload of 1 Gbit/s, as the formula has it.
    assert row.measured == "1.1 ± 0.2 %"
    assert row.simulated == "1.1 ± 0.2 % (1 of 4 stalled or crashed)"
    stalled = made(wan, "simulated", [{"broken": "stalled at 3 s"}])
    [row] = [row for row in table.rows([stalled]) if row.id == "terena2005.loss.wan"]
    assert row.simulated == "1 of 1 stalled or crashed"
    refused = replace(runs[1], refused="this kernel has no reno")
    [row] = [row for row in table.rows([refused]) if row.id == "terena2005.loss.wan"]
    assert row.measured == "not measured: this kernel has no reno"


def test_figures_say_how_each_point_was_made() -> None:
    runs = [made(next(case for case in SIMULATED if case.kind == "loss"), "simulated", [{"goodputs": [0.5]}])]
    for figure in (draw.fairness(runs), draw.recovery(runs), draw.utilisation(runs)):
        said = " ".join(" ".join(text.get_text() for text in figure.texts).split())
        assert "snakemake -s studies/terena2005/Snakefile measured" in said
        assert "measured on a kernel" not in said
    assert "simulated by ns-3" in said  # of the only kind of case that there is


def test_figures_have_the_intervals_of_repetitions_and_the_formula_for_one() -> None:
    fairness, recovery = (
        next(case for case in MEASURED if case.kind == kind and case.control in controls)
        for kind, controls in (("mtu_fairness", ("reno", "cubic")), ("recovery", ("reno",)))
    )
    shares: list[dict[str, object]] = [{"goodputs": [0.02, 0.07]}, {"goodputs": [0.01, 0.08]}]
    for count, bars in ((1, 0), (2, 1)):
        figure = draw.fairness([made(fairness, "measured", shares[:count])])
        assert [type(kept).__name__ for kept in figure.axes[0].containers].count("ErrorbarContainer") == bars
    by_formula = tcp.recovery_time(recovery.bandwidth, recovery.rtt, recovery.mtus[0])
    figure = draw.recovery([made(recovery, "measured", [{"seconds": 1.2 * by_formula}] * 2)])
    heights = [float(height) for line in figure.axes[0].lines for height in np.ravel(line.get_ydata())]
    assert any(height == pytest.approx(1.2) for height in heights)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if lacking := missing(["ns3"]):
        pytest.skip(*lacking)
    binary = tmp_path_factory.mktemp("ns3") / "bottleneck"
    simulation.build(binary)
    return binary


def test_ns3_agrees_with_mathis_within_a_factor(program: Path) -> None:
    case = Case("small", "loss", 0.02, 40, 15, loss=1e-2, warm_up=3, repetitions=2)
    simulated = simulate(case, program)
    rates = [run["goodputs"][0] for run in simulated["repetitions"]]
    used = formulas.utilisation(case.bandwidth, case.rtt, 1500, case.loss)
    assert all(0.5 < rate / case.bandwidth / used < 2 for rate in rates)
    assert rates[0] != rates[1]  # each has losses of its own
    assert (simulated["made"], Case(**simulated["case"])) == ("simulated", case)
    assert simulated["case"]["name"] == "small"


def test_ns3_recovers_from_one_loss_as_the_formula_says(program: Path) -> None:
    case = Case("small", "recovery", 0.05, 10, 0.5, repetitions=1)
    [fall] = simulate(case, program)["repetitions"]
    assert fall["lowest"] < 0.65 * fall["before"]
    assert fall["seconds"] == pytest.approx(tcp.recovery_time(0.05, 10, 1500), rel=0.2)


def test_shipped_measurements_stand_in_until_something_is_measured_here(tmp_path: Path) -> None:
    shipped = read_folder(tmp_path)
    assert {run.case.name for run in shipped} == {case.name for case in MEASURED}
    assert all(run.made == "measured" and "shipped: examples/terena2005" in run.where for run in shipped)
    here = tmp_path / "loss.json"
    here.touch()
    assert measured_in(tmp_path) == [here]


def test_the_notebook_makes_the_verdicts_that_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "save", sketched)
    executed(ROOT / "studies/terena2005/terena2005.ipynb", results=str(tmp_path))
    figures = (f"figures/{name}.png" for name in ("utilisation", "recovery", "fairness"))
    assert all((tmp_path / name).stat().st_size > 0 for name in ("table.csv", "table.md", *figures))
    made, shipped = (json.loads(file.read_text()) for file in (tmp_path / "verdicts.json", SHIPPED_VERDICTS))
    for new, old in zip(made, shipped, strict=True):
        floats = {key: pytest.approx(value) for key, value in old.items() if isinstance(value, float)}
        assert new == old | floats
