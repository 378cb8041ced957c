# SPDX-License-Identifier: Apache-2.0
"""TCP on long fat paths: formulas, windows that fall and recover, the table, and ns-3 itself on a small path."""

import json
from dataclasses import replace
from pathlib import Path

import formulas
import pytest
import simulation
import table
from cases import MEASURED, SHARES, SIMULATED, UTILISATIONS, Case, measured_in
from runs import Run, read_folder
from simulation import simulate
from tpcsweep.analysis.claims.before_2023 import RECOVERIES
from tpcsweep.common.extras import missing_extras
from tpcsweep.measuring import tcp
from tpcsweep.pages.figures import panels

from tests.support.notebooks import executed, sketched
from tests.support.workflow import ROOT

SHIPPED_VERDICTS = ROOT / "examples/terena2005-verdicts.json"


def made(case: Case, how: str, repetitions: list[dict[str, object]]) -> Run:
    return Run(case, how, repetitions, {}, None, 1.0)


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


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if lacking := missing_extras(["ns3"]):
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


def test_published_figures_are_what_their_formulas_give_but_for_one() -> None:
    [chicago] = [row for row in RECOVERIES if not row.agrees]
    assert (chicago.id, chicago.published / 60) == ("recovery.chicago", 92)
    assert chicago.by_formula / 60 == pytest.approx(102.7, abs=0.05)
    lan, wan = (formulas.utilisation(row.bandwidth, row.rtt, row.mtu, row.loss) for row in UTILISATIONS)
    assert lan == pytest.approx(1448 / 1500)  # a full path
    assert wan == pytest.approx(UTILISATIONS[1].published, abs=0.0005)
    small, large = formulas.shares([row.mtu for row in SHARES])
    assert SHARES[1].published / SHARES[0].published > large / small == pytest.approx(8948 / 1448)
