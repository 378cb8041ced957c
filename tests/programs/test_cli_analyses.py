# SPDX-License-Identifier: Apache-2.0
"""The commands that analyse results: their answers, files, errors and exit codes, from any folder."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xarray as xr
from bs4 import BeautifulSoup
from tpcsweep.analysis.claims.judging import CLAIMS, judge
from tpcsweep.analysis.plans.recommendations import COLUMNS

from tests.support import histories
from tests.support.commands import tpcsweep
from tests.support.histories import weekly
from tests.support.made_up import write_results
from tests.support.notebooks import run_here
from tests.support.odd import rewrite
from tests.support.pictures import hues, pixels
from tests.support.workflow import ROOT, succeeded

SURFACE = ROOT / "examples" / "surface.nc"
AXES = {"rtt": [5.0, 50.0, 100.0], "streams": [1, 2, 4, 8], "repetition": [1, 2, 3]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results/demo: a dataset, and the fits of one model to it."""
    folder = tmp_path_factory.mktemp("project")
    write_results(folder, AXES)
    return folder


@pytest.fixture(autouse=True)
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a copy of `made`."""
    shutil.copytree(made / "results", tmp_path / "results", copy_function=shutil.copy2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_the_page_of_a_shipped_dataset_is_written_to_results(here: Path) -> None:
    done = tpcsweep("page", SURFACE)
    page = here / "results/surface.html"
    assert (done.exit_code, done.output) == (0, f"{page}\n")
    assert (
        "settings without warnings fill the path" in BeautifulSoup(page.read_text(), "html.parser").get_text()
    )


def test_the_page_of_a_folder_is_its_index(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpcsweep.pages.making.make_page", lambda *_, **_options: None)
    assert tpcsweep("page", "demo").output == f"{here / 'results/demo/index.html'}\n"
    assert tpcsweep("page", "results/demo", "-o", "new/page.html").output == f"{here / 'new/page.html'}\n"
    assert tpcsweep("page", "results/demo/dataset.nc").output == f"{here / 'results/demo.html'}\n"
    shutil.copy("results/demo/dataset.nc", "index.nc")
    assert (
        tpcsweep("page", "index.nc").output == f"{here / 'results/index.nc.html'}\n"
    )  # no page of all sweeps


def test_a_figure_is_drawn_for_any_axes(here: Path) -> None:
    axes = ("--x", "rtt", "--lines", "streams", "--panels", "origins,cores")
    done = tpcsweep("figure", SURFACE, *axes, "-o", "new/lines.svg")
    assert (done.exit_code, done.output) == (0, f"written: {here / 'new/lines.svg'}\n")
    drawn = set(re.findall("<!-- (.*) -->", Path("new/lines.svg").read_text()))
    assert {"RTT (ms)", "origins 4", "cores 0.4", "streams"} <= drawn
    for kind in ("map", "limits", "surface", "cpu", "series"):
        assert tpcsweep("figure", "demo", "--kind", kind).exit_code == 0
        assert Path(f"{kind}.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--x", "stream"), "--x stream: no axis of this dataset. Use streams? one of rtt, streams."),
        (("--panels", "rtt, loss"), "--panels loss: no axis of this dataset. Use one of rtt, streams."),
        (("--x", "rtt", "--lines", "rtt"), "--lines rtt: --x has it already. Use each axis once."),
        (("--kind", "cpu", "--x", "rtt"), "--x: only for --kind lines, map, limits, surface."),
        (("-o", "lines.jpg"), "-o lines.jpg: the file's name must end with one of .pdf, .png, .svg."),
    ],
)
def test_an_error_of_a_figure_names_the_allowed_words(options: tuple[str, ...], error: str) -> None:
    done = tpcsweep("figure", "demo", *options)
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, f"Error: {error}")
    assert not list(Path().glob("*.pdf"))


def test_claims_are_a_table_of_80_columns_and_a_count_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(tpcsweep("claims", "demo", "--json").output)
    assert [verdict["claim"] for verdict in found] == list(CLAIMS)
    verdicts = judge(xr.load_dataset(SURFACE))
    monkeypatch.setattr("tpcsweep.analysis.claims.judging.judge", lambda _: verdicts)
    done = tpcsweep("claims", SURFACE)
    assert done.exit_code == 0
    assert max(map(len, done.output.splitlines())) <= 120
    text = " ".join(done.output.split())
    assert "chep2023.origins_help" in text and "does not hold" in text
    assert re.search(r"over that with the fewest: 0\.647 \(0\.58 to 0\.73\)", text)
    [left] = re.findall(r"(\d+) claims are not testable on this dataset. List them with --all.", text)
    every = tpcsweep("claims", SURFACE, "--all").output
    assert "not testable on this dataset" not in every and all(name in every for name in CLAIMS)
    assert len(CLAIMS) - int(left) == sum(name in done.output for name in CLAIMS)


def test_a_comparison_is_a_summary_and_the_cells_that_differ() -> None:
    done = tpcsweep("compare", f"{SURFACE}:cores=0.1", f"{SURFACE}:cores=0.4")
    assert done.exit_code == 0
    text = " ".join(done.output.split())
    assert "faster, by a ratio of 1.447 over 36 cells" in text
    assert "different from base to new: cores 0.1 → 0.4" in text
    assert "28 faster, 8 no difference found" in text
    assert tpcsweep("compare", "demo", "results/demo").output.count("│") == 0


def test_a_comparison_below_its_gate_fails_and_has_files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpcsweep.running.notebooks.run_notebook", run_here)
    sides = ("results/demo:rtt=5 ms", "demo:rtt=100ms")
    done = tpcsweep("compare", *sides, "--fail-below", "95%", "-o", "out")
    assert done.exit_code == 1
    assert done.stdout.endswith(f"{here / 'out/compare.html'}\n")
    assert "NEW does not meet --fail-below:\nstreams 1 in one cell: the ratio is 0.3" in done.stderr
    content = json.loads((here / "out/comparison.json").read_text())
    assert content["gate"]["fail_below"] == 0.95 and content["gate"]["failures"]
    assert len(pd.read_csv(here / "out/cells.csv")) == 4
    for name in ("forest", "ratios"):
        assert hues(pixels(here / f"out/figures/{name}.png")) > 0
    assert "Two sweeps compared" in (here / "out/compare.html").read_text()
    printed = tpcsweep("compare", *sides, "--fail-below", "0.95", "--json")
    assert printed.exit_code == 1
    assert json.loads(printed.stdout) == content
    assert tpcsweep("compare", *reversed(sides), "--fail-below", "0.95").exit_code == 0


def test_a_plan_is_answered_from_the_fits_beside_the_dataset() -> None:
    done = tpcsweep("plan", "0.5Gbit/s", "--rtt", "60ms", "--probability", "90%", "results/demo")
    assert done.output.startswith(
        "500 Mbit/s with a probability of 90 %: reached\nmodel window and measured cells, made up\n"
    )
    assert "cheapest" in done.output and len(done.output.splitlines()) < 20
    assert (done.exit_code, done.stderr) == (0, "")


def answer(*words: str) -> Any:
    return json.loads(tpcsweep("plan", *words, "--json").stdout)


def test_a_target_has_its_unit_with_a_space_or_without_and_several_values_limit_the_search() -> None:
    for target in (["0.5", "Gbit/s"], ["0.5 Gbit/s"], ["500Mbit/s"]):
        found = answer(*target, "demo", "--rtt=60 ms", "--tcp_streams=1")
        assert (found["target"], found["fixed"]) == (0.5, {"rtt": 60.0, "tcp_streams": 1})
    found = answer("0.1Gbit/s", "demo", "--rtt=60ms", "--streams=2,4", "--cores=null")
    assert set(found["settings"]["streams"]) == {2, 4} and found["fixed"]["cores"] == [None]


def test_recommendations_alone_and_with_a_plan() -> None:
    alone = tpcsweep("plan", "--recommend", "demo")
    assert alone.output.startswith("recommended settings") and "100 ms" in alone.output
    both = answer("0.5Gbit/s", "demo", "--rtt=5ms", "--recommend")
    assert both["reached"] and both["recommendations"]["rows"]
    assert list(both["recommendations"]["columns"]) == list(COLUMNS)


def test_a_plan_writes_its_files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpcsweep.running.notebooks.make_notebook", lambda *run: run[1].write_text(repr(run)))
    done = tpcsweep("plan", "0.5Gbit/s", "demo", "--rtt=60ms", "-o", "out")
    assert done.output.endswith(f"{here / 'out/plan.html'}\n")
    names = {"plan.json", "plan.png", "plan.svg", "plan.html", "recommendations.json", "recommendations.csv"}
    assert {file.name for file in (here / "out").iterdir()} == names
    assert "'target': 0.5, 'probability': 0.95" in (here / "out/plan.html").read_text()


def test_fits_belong_to_the_cells_and_not_to_times_of_files(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = here / "results/demo/models.json"
    kept, fitted = fits.read_bytes(), []

    def fit_all(_summary: xr.Dataset, path: Path, dataset: Path) -> None:
        fitted.append(dataset.name)
        path.write_bytes(kept)

    monkeypatch.setattr("tpcsweep.analysis.models.cache.fit_all", fit_all)
    monkeypatch.setenv("TPCSWEEP_CACHE", str(here / "cache"))
    question = ("plan", "0.1Gbit/s", "--rtt=60ms")
    os.utime(fits, (0, 0))  # as `cp -r` may leave them
    done = tpcsweep(*question, "demo")
    assert (done.exit_code, done.stderr, fitted) == (0, "", [])
    fits.write_bytes(b"{}")
    done = tpcsweep(*question, "demo")
    said = "results/demo/dataset.nc: no fits of these cells yet. Fitting the models …\n"
    assert (done.exit_code, done.stderr, fitted) == (0, said, ["dataset.nc"])
    alone = shutil.copy(here / "results/demo/dataset.nc", here / "alone.nc")
    assert tpcsweep(*question, alone).stderr == ""  # the same cells under another name
    assert fits.read_bytes() == b"{}"
    with monkeypatch.context() as other:
        other.setattr("importlib.metadata.version", lambda _: "0.0.1")  # its formulas may differ
        assert tpcsweep(*question, alone).stderr.endswith("Fitting the models …\n")
    (here / "cache/fits").rename(here / "cache/old")
    (here / "cache/fits").touch()  # a cache that cannot be written
    assert tpcsweep(*question, alone).stderr.endswith("Fitting the models …\n")


@pytest.mark.parametrize(
    ("words", "said"),
    {
        "plan 1Gbit/s demo": "rtt: given nothing, allowed: this key is needed, for rtt varies in the data",
        "plan 1Gbit/s demo --recommend": "rtt: given nothing, allowed: this key is needed",
        "plan 1Gbit/s demo --rtt 5ms --tool curl": "allowed: a value in the data: gfal-copy",
        "plan --recommend demo --tool curl": "allowed: a value in the data: gfal-copy",
    }.items(),
)
def test_a_question_is_checked_before_models_are_fitted(
    here: Path, words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "results/demo/models.json").unlink()
    monkeypatch.setattr("tpcsweep.analysis.models.cache.fits_of", lambda *_: pytest.fail("fitted"))
    done = tpcsweep(*words.split())
    assert done.exit_code == 2 and said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    {
        "compare demo demo:rtt=6ms": "for rtt: one of 5 ms, 50 ms, 100 ms",
        "compare demo demo --fail-below 1.5": "'1.5' is not allowed. Use a fraction",
        "plan": "Give TARGET, and RESULTS if you have any, as in tpcsweep plan",
        "plan 100": "for TARGET: '100' has no unit. Use one, as in '100 Gbit/s'",
        "plan 5ms demo": "for TARGET: '5ms' is not allowed. Use a rate such as",
        "plan 1Gbit/s demo --rtt 40": "'--rtt': '40' has no unit. Use one, as in '40 ms'",
        "plan 1Gbit/s demo --rtt 9h": "'--rtt': '9h' is not allowed. Use a time such as \"50 ms\" (ns, us, ms, s",
        "plan 1Gbit/s demo --streams 1,x": "'--streams': 'x' is not allowed. Use a whole number",
        "plan 1Gbit/s demo --loss x": "'--loss': 'x' is not allowed. Use a fraction such as \"1 %\" (%), or a plain",
        "plan 1Gbit/s demo --copy-mode pul": "copy_mode: given 'pul', allowed: pull or push",
        "plan 1Gbit/s demo --rtt 5ms --tool curl": "allowed: a value in the data: gfal-copy",
    }.items(),
)
def test_a_wrong_question_is_an_error_with_the_fix(words: str, said: str) -> None:
    done = tpcsweep(*words.split())
    assert (done.exit_code, said in done.stderr, done.stdout) == (2, True, ""), done.stderr


def test_a_history_keeps_the_run_and_fails_on_a_change(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here / "results/weekly/history"
    folder.mkdir(parents=True)
    once = histories.folded(folder.parent)
    slower = lambda number, summary: histories.times(summary, 0.7) if number >= 6 else summary  # noqa: E731
    *before, last = weekly(once, 10, slower, seed=1)
    rewrite(folder.parent / "dataset.nc", lambda _: last)
    for number, summary in enumerate(before):
        summary.to_netcdf(folder / f"{number}.nc")
    done = tpcsweep("history", "results/weekly", "--fail-on", "slower")
    assert done.exit_code == 1, done.stderr
    assert done.stdout.startswith("10 runs, the last of 2026-03-08 03:00\n")
    assert done.stdout.endswith(f"{folder / 'index.html'}\n")
    said = "new since the last run:\nBetween 2026-02-08 03:00 and 2026-02-15 03:00 throughput"
    assert done.stderr.startswith(said)
    assert {file.name for file in folder.glob("[!0-9]*")} == {"history.json", "index.html"}
    assert (folder / "2026-03-08T030000Z.nc").exists()
    page = (folder / "index.html").read_text()
    assert "slower</span>: 0." in page
    assert "../index.html" not in page  # there is none
    monkeypatch.setattr("tpcsweep.analysis.history.history_page.make_history", lambda *_: {"verdict": None})
    printed = tpcsweep("history", "weekly", "--json")
    assert (printed.exit_code, len(json.loads(printed.stdout)["runs"])) == (0, 10)


def test_status_loads_no_library_that_it_does_not_need() -> None:
    start = (
        "import sys; from tpcsweep.cli import main; main(['status'], standalone_mode=False);"
        "print([*{'matplotlib', 'numpy', 'pandas', 'psutil', 'scipy', 'xarray'} & {*sys.modules}])"
    )
    assert succeeded([sys.executable, "-c", start]).endswith("[]\n")
