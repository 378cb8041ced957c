# SPDX-License-Identifier: Apache-2.0
"""Figures of publications: their sweeps, their scaling, the claims on them, and what is never invented."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xarray as xr
import yaml
from bs4 import BeautifulSoup
from cases import MEASURED
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.display import Markdown
from matplotlib.figure import Figure
from runs import Run, read_folder
from table import verdicts as terena2005
from tpcsweep.analysis.claims.judging import CLAIMS
from tpcsweep.analysis.publications import report, reproduction
from tpcsweep.analysis.publications.catalogue import FIGURES, published_figure
from tpcsweep.analysis.publications.report import claim_rows, predictions
from tpcsweep.analysis.publications.reproduction import (
    Caption,
    Data,
    JudgedClaim,
    figure_caption,
    judge_claims,
    make_figure,
    without_data,
)
from tpcsweep.data import folding as datasets
from tpcsweep.data.importing.table_import import import_table
from tpcsweep.pages.figures.line_plots import lines
from tpcsweep.sweeps.problems import ConfigurationError, read_yaml
from tpcsweep.sweeps.scaling import FEWEST_CORES, MOST_STREAMS, scaled
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.sweep import Grid, Sweep, expand
from tpcsweep.testbeds.loading import load, load_import, studies
from tpcsweep.testbeds.netns import checks as netns
from tpcsweep.testbeds.support import check

from tests.support import projects, simulated
from tests.support.browser import DESKTOP, PHONE
from tests.support.notebooks import executed
from tests.support.outsider import broken
from tests.support.pictures import drawn, embedded, hues, pixels, words
from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT

MACHINE = replace(projects.MACHINE, memory=8 * 2**30, disk=40 * 2**30)
SWEPT = [figure.name for figure in FIGURES.values() if figure.source is None]
PUBLISHED = read_yaml(ROOT / "config/published.yaml", "config/published.yaml")
LISTED = dict(name.split("@") for name in PUBLISHED["sweep"])
"""The testbed of each figure."""
SCALED = [name for name in SWEPT if name not in ("usatlas2007", "cambridge", "chep2024_buffers")]
"""What is measured on two CPUs by a factor: the tests of 2007 are as they were, davix flows have no quota, and of the
smaller buffers a factor leaves too little."""
Simulated = Callable[[str], Path]
"""The file of the simulated dataset of a figure."""
TABLED = {"terena2005.loss", "terena2005.recovery", "terena2005.mtu_fairness"}


@cache
def sweep(name: str) -> Sweep:
    file = ROOT / f"config/published/{name}.yaml"
    return Sweep.model_validate(read_yaml(file, file.name))


@cache
def grid(name: str) -> Grid:
    return expand(sweep(name))


def configuration(name: str, results: Path | str = "results", **more: str) -> SweepStudy:
    return load({"sweep": name, "testbed": LISTED[name], "results": str(results), **more}, ROOT)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Each is written once, and only read."""
    folder = tmp_path_factory.mktemp("simulated")
    return cache(lambda name: simulated.write(configuration(name, folder), folder / f"{name}.nc"))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge under 2 random parameter sets instead of 40, and draw 50 dots an inch instead of 150."""
    monkeypatch.setattr(reproduction, "DRAWS", 2)
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda *given, **how: save(*given, **how | {"dpi": 50}))


def test_every_figure_has_a_sweep_and_is_listed_with_a_testbed_that_simulates_it() -> None:
    # The sweep `settle` has no figure: it would settle the open questions, on the published hardware.
    assert {path.stem for path in (ROOT / "config/published").glob("*.yaml")} == {*SWEPT, "settle"}
    found = studies({"testbed": "netns", **PUBLISHED}, ROOT)
    assert [published_figure(study) for study in found.values()] == SWEPT
    assert len(grid("chep2023_fig4").cells) >= 1500
    for study in found.values():
        assert isinstance(study, SweepStudy) and study.testbed.simulated
        assert check(study) == []


def test_every_claim_has_a_figure_or_a_reason_without_one() -> None:
    shown = {name for figure in FIGURES.values() for name in figure.claims}
    tabled = {row["claim"] for row in terena2005([])}
    elsewhere = {name for name, claim in CLAIMS.items() if claim.elsewhere}
    assert shown | tabled | elsewhere == set(CLAIMS)
    assert not (shown | tabled) & elsewhere


FOLLOWING = {
    "chep2023_fig4": {"chep2023.streams_peak"},
    "chep2024_fig7": {"chep2024.near_limit", "chep2024.saturated_flat"},
    "usatlas2007": {"usatlas2007.more_streams", "usatlas2007.tuned_buffers"},
}
"""Claims that follow from an assumption, by figure."""
FILES = {"file_size": {4 * 10**9}, "tcp_buffer": {10**9}, "mtu": {9000}}
LAYERS = {"network", "memory_to_memory", "memory_to_disk", "disk_to_disk"}
SET_UP: dict[str, dict[str, set[Any]]] = {
    "chep2023_fig3": {"origins": {13}, "rtt": {3}, "bandwidth": {400}},
    "chep2024_fig4": {"origins": {2}, "cores": {32}, "bandwidth": {100}, **FILES},
    "chep2024_fig5": {"origins": {4}, "cores": {64}, "bandwidth": {100, 200}, **FILES},
    "chep2024_fig6": {"origins": {8}, "cores": {128}, "bandwidth": {200}, **FILES},
    "chep2024_fig7": {"origins": {8}, "cores": {128}, "bandwidth": {200, 400}, **FILES},
    "chep2024_fig8": {"origins": {8}, "cores": {128}, "bandwidth": {400}, **FILES},
    "usatlas2007": {
        "streams": {1, 2, 4, 8, 12},
        "layer": LAYERS,
        "tcp_buffer": {65_536, 4_000_000, 8_000_000},
    },
}
"""The published values of parameters, by figure."""
# Origins of 100 Gbit/s each: more are more than the hosts carry.
ENDS = {"streams": (1, 520), "rtt": (0.1, 120), "cores": (8, 128), "origins": (1, 4)}
REACHED = {"chep2023_fig4": ENDS, "chep2023_fig3": {"streams": (13, 520)}}
"""The smallest and largest values of axes, by figure."""


@pytest.mark.parametrize("name", SWEPT)
def test_a_figure_has_the_published_set_up_and_the_axes_that_its_claims_need(
    name: str, dataset: Simulated
) -> None:
    for key, values in SET_UP.get(name, {}).items():
        assert {cell.value(key) for cell in grid(name).cells} == values, key
    axes = grid(name).axes
    for key, ends in REACHED.get(name, {}).items():
        assert (min(axes[key]), max(axes[key])) == ends, key
    found = judge_claims(Data(dataset(name)).summary, FIGURES[name].claims)
    for claim in found:
        assert "the dataset has" not in claim.verdict.reason, claim.verdict.reason
        assert claim.verdict.data == "simulated"
    assumed = {claim.verdict.claim.name for claim in found if claim.role == "assumption"}
    assert FOLLOWING.get(name, set()) <= assumed
    if name in ("chep2024_fig4", "usatlas2007"):
        said = words(draw(name, Data(dataset(name))))
        assert "simulated throughput (Gbit/s)" in said and "computed from a model, not measured" in said


def test_a_claim_that_chose_a_parameter_is_an_input_and_agreement_is_counted(dataset: Simulated) -> None:
    data = Data(dataset("chep2024_fig8"))
    half = data.summary.assign(throughput=data.summary["throughput"] / 2)
    [cap] = judge_claims(data.summary, ["chep2024.server_cap"], [data.summary, half, half])
    assert (cap.word, cap.role, cap.verdict.outcome.value) == ("input", "input", "holds")
    assert (cap.agree, cap.draws) == (1, 3)
    assert cap.verdict.effect.interval.low < 200 < cap.verdict.effect.interval.high
    other = data.summary.assign_attrs(claims_used_as_inputs="")
    assert judge_claims(other, ["chep2024.server_cap"])[0].role == "prediction"


def test_a_claim_that_follows_from_an_assumption_says_from_which(dataset: Simulated) -> None:
    data = Data(dataset("chep2024_fig7"))
    [limit] = judge_claims(data.summary, ["chep2024.near_limit"], [data.summary])
    assert limit.word == limit.verdict.outcome.value
    assert "saturation" in limit.to_dict()["follows_from"]
    said = words(draw("chep2024_fig7", data, limit))
    assert "follows from an assumption: saturation" in said and "prediction" not in said


def predicted(claim: str, outcome: str, agree: int, role: str = "prediction") -> dict[str, Any]:
    return {"claim": claim, "outcome": outcome, "draws_agree": agree, "draws": 40, "role": role}


def test_a_prediction_is_confirmed_where_it_holds_on_every_figure_whatever_is_not_known() -> None:
    put_in, sure = predicted("a.put_in", "holds", 40, "assumption"), predicted("a.sure", "holds", 39)
    lucky = predicted("a.lucky", "holds", 30)
    split = [predicted("a.split", outcome, 40) for outcome in ("holds", "does not hold")]
    others = "a.lucky holds (75% of sets), a.split holds (100% of sets) and does not hold (100% of sets)."
    assert predictions([put_in]) == "No independent prediction is confirmed."
    assert predictions([put_in, sure]) == "Confirmed: a.sure."
    assert predictions([sure, lucky, *split]) == f"Confirmed: a.sure; {others}"
    assert predictions([lucky, *split]) == f"No independent prediction is confirmed; {others}"


def test_agreement_on_nothing_is_not_shown(dataset: Simulated) -> None:
    data = Data(dataset("chep2023_fig3"))
    short = data.summary.assign(duration=0 * data.summary["duration"] + 60)  # s
    [hour] = judge_claims(short, ["chep2023.saturate"], [short] * 3)
    assert (hour.verdict.outcome.value, hour.role) == ("not testable here", "")
    assert hour.to_dict()["draws_agree"] is None
    said = words(draw("chep2023_fig3", data, hour))
    assert "agree" not in said and "prediction" not in said


def test_claims_of_the_table_are_judged_by_what_is_there_of_the_published_settings() -> None:
    verdicts = {(row["claim"], row["data"]): row["verdict"] for row in terena2005([])}
    others = {verdicts[claim, data] for claim in TABLED for data in ("simulated", "measured")}
    assert others == {"not testable here"}
    [wan] = [case for case in MEASURED if case.name == "loss_reno_1000M_120ms_0.0001"]
    runs = [Run(wan, "measured", [{"goodputs": [rate]} for rate in (0.1, 0.1, 0.101)], {}, None, None)]
    row = {(row["claim"], row["data"]): row for row in terena2005(runs)}["terena2005.loss", "measured"]
    assert (row["verdict"], row.get("testbed")) == ("does not hold", None)
    assert row["value"] == pytest.approx(0.1, rel=0.01)


def test_shipped_measurements_are_not_taken_for_those_of_this_machine(tmp_path: Path) -> None:
    rows = claim_rows([], terena2005(read_folder(tmp_path)))
    assert {row["claim"] for row in rows} == set(CLAIMS)
    testbeds = {(row["claim"], row["data"]): row["testbed"] for row in rows}
    for claim in TABLED:
        assert testbeds[claim, "measured"] == "shipped: examples/terena2005"
        assert testbeds[claim, "by formula"] is testbeds[claim, "simulated"] is None


def test_verdicts_of_the_study_in_the_results_take_the_place_of_those_that_ship(tmp_path: Path) -> None:
    own = tmp_path / "terena2005/verdicts.json"
    own.parent.mkdir()
    own.write_text("[]")
    asked = ["sweep=chep2024_fig8@simulation", f"results={tmp_path}"]
    said = snakemake("-n", "published", "--printshellcmds", "--config", *asked).stdout
    assert str(own) in said and "examples/terena2005-verdicts.json" not in said


SCALES = st.integers(1, 400).map(lambda count: f"1/{count}")


@settings(max_examples=15)
@given(SCALES, st.sampled_from(SCALED), st.sampled_from(["netns", "kubernetes", "simulation"]))
def test_one_factor_scales_rates_and_sizes_and_is_written(scale: str, name: str, kind: str) -> None:
    by = Fraction(scale)
    try:
        smaller = scaled(sweep(name), scale, kind)
        after = expand(smaller)
    except ConfigurationError as error:
        assert "allowed" in str(error)
        return
    ours = grid(name).axes
    first, scaled_first = grid(name).cells[0], after.cells[0]
    for key in ("bandwidth", "cores"):
        before, found = ours.get(key, (first.value(key),)), after.axes.get(key, (scaled_first.value(key),))
        assert found == pytest.approx([value * by for value in before])
    for key in ("file_size", "tcp_buffer"):
        assert scaled_first.value(key) == round(first.value(key) * by)
    most = MOST_STREAMS if by < 1 and kind == "netns" else math.inf
    streams = [value for value in ours["streams"] if value <= most]
    assert list(after.axes.get("streams", (scaled_first.value("streams"),))) == streams
    if by < 1:
        for cell in after.cells:
            assert cell.value("cores") / cell.value("origins") >= FEWEST_CORES
    written = smaller.model_dump(mode="json", exclude_unset=True, warnings=False)
    again = Sweep.model_validate(yaml.safe_load(yaml.safe_dump(written)))
    assert again.scale == smaller.scale and smaller.scale is not None
    assert smaller.scale.attributes["scale"] == scale
    assert [cell.path for cell in expand(again).cells] == [cell.path for cell in after.cells]
    assert again.measurement == smaller.measurement


def test_scale_notes_name_deviations_and_factor_one_changes_nothing() -> None:
    same, after = (scaled(sweep("chep2023_fig4"), by, "netns") for by in ("1/1", "1/150"))
    assert same.model_copy(update={"scale": None}) == sweep("chep2023_fig4")
    assert same.scale.notes == ()
    text = after.scale.attributes["scale_notes"]
    notes = "without queue_limit 1000", f"streams up to {MOST_STREAMS} of 520", "RTT 0 added for 0.1 ms"
    assert all(note in text for note in notes)
    assert expand(after).cells[0].value("queue_limit") is None


@pytest.mark.parametrize(
    ("parameters", "by", "message"),
    [
        ({"bandwidth": "1 Gbit/s", "tcp_buffer": "4 MB"}, "1/200", "a scale of at least 1/61"),
        ({"cores": 8}, "1/20", "a bandwidth: scaling changes it"),
        ({"bandwidth": 10, "cores": [None, 8]}, "1/20", "cannot be scaled"),
        ({"bandwidth": 10, "streams": [100, 200]}, "1/20", "each stream is a process on this machine"),
        ({"bandwidth": 10, "streams": [1, 13, 100]}, "1/20", "3 values or more of at most 64"),
        ({"bandwidth": 10, "cores": 1, "origins": 8}, "1/20", "0.1 cores for each origin"),
    ],
)
def test_scaling_is_refused_with_the_reason(parameters: dict[str, Any], by: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        scaled(Sweep.model_validate({"parameters": parameters}), by, "netns")


@pytest.mark.parametrize("given", ["2/1", "0/5", "1/0", "1/200\n", "much", 2, 0.005])
def test_a_scale_is_one_over_a_whole_number(given: object) -> None:
    with pytest.raises(ConfigurationError, match=r"--config: scale: given .+ such as 1/200") as error:
        load({"sweep": "smoke", "testbed": "netns", "scale": given}, ROOT)
    assert repr(given) in str(error.value)


@pytest.mark.parametrize("name", [name for name in SCALED if name != "chep2023_fig3"])
def test_scaled_sweeps_can_be_measured_on_two_cpus(name: str) -> None:
    smaller = configuration(name, testbed="netns", scale="1/150")
    assert smaller.folder == Path(f"results/{name}_scaled_1_150")
    assert published_figure(smaller) == name
    assert netns.check(smaller, MACHINE) == []


def test_a_testbed_refuses_a_figure_that_it_cannot_measure() -> None:
    problems = "\n".join(map(str, check(configuration("chep2024_fig8", testbed="netns"))))
    assert "parameters.bandwidth: given 400 Gbit/s, allowed: at most 5" in problems
    streams = r"^config/published/chep2023_fig3\.yaml: parameters\.streams: given 13, 65"
    with pytest.raises(ConfigurationError, match=streams):
        configuration("chep2023_fig3", testbed="netns", scale="1/400")


def draw(name: str, data: Data, *claims: JudgedClaim) -> Figure:
    return FIGURES[name].draw(data, Caption("a title; simulated", (), claims))


def test_origins_grow_to_the_right_and_values_of_ours_are_marked(dataset: Simulated) -> None:
    data = Data(dataset("chep2023_fig4"))
    vars(data)["summary"] = data.summary.sel(cores=[8, 16, 128], rtt=[20, 120])
    drawn = draw("chep2023_fig4", data)
    panels = drawn.axes[:-1]  # the last one has the claims
    assert [axes.get_title() for axes in panels[:4]] == ["origins 1 *", "origins 2", "origins 4 *", ""]
    rows = [text.get_text() for axes in panels for text in axes.texts if text.get_text().startswith("cores")]
    assert rows == ["cores 8 *", "cores 16 *", "cores 128"]
    first, second = (panel.get_subplotspec() for panel in panels[:2])
    assert (second.rowspan, second.colspan.start) == (first.rowspan, first.colspan.stop)
    assert {axes.get_yscale() for axes in panels} == {"log"}
    said = words(drawn)
    assert all(text in said for text in ("20 ms *", "120 ms", "Ours"))
    assert "120 ms *" not in said


def test_the_hour_is_drawn_over_time_with_a_port(dataset: Simulated) -> None:
    data = Data(dataset("chep2023_fig3"))
    assert "time (min)" not in words(draw("chep2023_fig3", data))  # a simulated cell has no course
    vars(data)["summary"] = data.summary.assign_attrs(testbed_kind="netns")
    minutes = [60.0 * at for at in range(60)]
    goodput = xr.full_like(data.summary["throughput"], 390.0).expand_dims(time=minutes)
    vars(data)["samples"] = xr.Dataset({"goodput": goodput})
    drawn = draw("chep2023_fig3", data)
    [over_time] = [axes for axes in drawn.axes if axes.get_xlabel() == "time (min)"]
    total, port = (line for line in over_time.lines if len(line.get_ydata()) > 2)
    assert [line.get_ydata() for line in (total, port)] == [pytest.approx(390), pytest.approx(30)]
    assert float(max(total.get_xdata())) == pytest.approx(59)
    assert "mean of a port" in words(drawn)


def test_two_figures_that_are_the_same_when_simulated_say_so(dataset: Simulated) -> None:
    for name in ("chep2024_fig2", "chep2024_fig3"):
        data = Data(dataset(name))
        vars(data)["summary"] = data.summary.isel(streams=[0, -1])
        assert any("the same picture" in note for note in figure_caption(FIGURES[name], data).notes)


def test_claims_of_a_figure_without_data_are_not_testable_and_name_the_commands_that_make_it() -> None:
    [row] = without_data(FIGURES["nrp2021"])
    assert (row["verdict"], row["value"]) == ("not testable here", None)
    assert row["to_test"] == (
        "tpcsweep import nrp-wan-2020 FILE && snakemake published --config dataset=results/nrp-wan-2020/dataset.nc"
    )
    asked = {row["to_test"] for row in without_data(FIGURES["chep2024_fig4"])}
    assert asked == {"snakemake published --configfile config/published.yaml"}


def test_a_figure_is_drawn_of_data_from_elsewhere(tmp_path: Path) -> None:
    name, settings = load_import("nrp-wan-2020", ROOT)
    places = [(tool, rtt) for tool in ("gridftp", "xrootd") for rtt in (10, 60)]
    rows = [f"{tool},{streams},{rtt},{20 + streams},1" for tool, rtt in places for streams in range(1, 13)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["tool,streams,rtt_ms,throughput_gibit_per_s,run", *rows]))
    file = tmp_path / name / "dataset.nc"
    file.parent.mkdir()
    datasets.write(import_table(settings, table, name), file, name)
    [study] = studies({"sweep": "demo", "testbed": "netns", "dataset": str(file)}, ROOT).values()
    assert published_figure(study) == "nrp2021"
    make_figure(FIGURES["nrp2021"], file, tmp_path / "published.png")
    assert hues(pixels(tmp_path / "published.png"), share=1e-4) > 0
    [row] = json.loads((tmp_path / "published.json").read_text())
    assert (row["figure"], row["data"]) == ("nrp2021", "imported")


def test_a_scaled_dataset_says_its_scale_in_every_title(tmp_path: Path) -> None:
    scaled_down = configuration("chep2024_fig8", tmp_path, scale="1/100")
    assert scaled_down.folder == tmp_path / "chep2024_fig8_scaled_1_100@simulation"
    data = Data(simulated.write(scaled_down, tmp_path / "dataset.nc"))
    assert data.summary.attrs["scale"] == "1/100"
    said = "simulated, testbed simulation, scaled 1/100: bandwidth, cores, files and buffers × 1/100"
    assert said in figure_caption(FIGURES["chep2024_fig8"], data).title
    assert said in words(lines(data.summary))  # a figure of the sweep's page


def test_a_page_is_whole_offline(tmp_path: Path, dataset: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    # The picture of a table of all claims takes long to draw.
    monkeypatch.setattr(report, "FIGURES", {name: FIGURES[name] for name in ("chep2024_fig8", "nrp2021")})
    monkeypatch.setattr(report, "CLAIMS", {})
    picture = tmp_path / "published.png"
    make_figure(FIGURES["chep2024_fig8"], dataset("chep2024_fig8"), picture)
    assert picture.with_suffix(".svg").is_file()
    [cap] = json.loads(picture.with_suffix(".json").read_text())
    assert (cap["claim"], cap["data"], cap["draws"]) == ("chep2024.server_cap", "simulated", 2)
    report.write_report(tmp_path, [picture], terena2005([]))
    rows = report.claim_rows([picture], terena2005([]))
    page = (tmp_path / "published.html").read_text()
    body = BeautifulSoup(page, "html.parser").body
    for key in ("src", "href", "srcset", "data"):
        for element in body.select(f"[{key}]"):
            assert str(element[key]).startswith(("data:", "#"))
    [shown] = embedded(page)
    assert hues(shown) > 0
    cells = [[cell.get_text(" ") for cell in row.find_all(["th", "td"])] for row in body.find_all("tr")]
    expected = {cap["claim"]: "simulated, simulation", "nrp2021.xrootd_vs_gridftp": "not testable here"}
    for claim, said in expected.items():
        [line] = [row for row in cells if row[0].startswith(claim)]
        assert said in line
        assert line[0].endswith(CLAIMS[claim].text)
    assert "No independent prediction is confirmed." in body.get_text()
    assert json.loads((tmp_path / "verdicts.json").read_text()) == rows
    assert [broken(tmp_path / "published.html", wide) for wide in (PHONE, DESKTOP)] == [[], []]
    assert list(pd.read_csv(tmp_path / "verdicts.csv")["claim"]) == [row["claim"] for row in rows]
    assert drawn(pixels(tmp_path / "verdicts.png")) > 0.05


def test_the_notebook_runs(tmp_path: Path, dataset: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "results/published/chep2024_fig7@simulation/dataset.nc"
    place.parent.mkdir(parents=True)
    place.symlink_to(dataset("chep2024_fig7"))
    displayed: list[object] = []
    monkeypatch.setattr("IPython.display.display", displayed.append)
    space = executed(ROOT / "notebooks/published.ipynb", tmp_path)
    assert hues(pixels(tmp_path / "results/published/notebook/chep2024_fig7.png")) > 0
    said = "\n".join(shown.data for shown in displayed if isinstance(shown, Markdown))
    for claim in space["shown"].claims:
        assert f"### {claim.verdict.claim.name}: {claim.word}" in said
    assert "*Follows from an assumption (saturation" in said
