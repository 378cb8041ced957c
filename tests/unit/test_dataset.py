# SPDX-License-Identifier: Apache-2.0
"""Folding of cell files, written and opened again as users open it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import orjson
import pandas as pd
import pytest
import xarray as xr
from tpcsweep.analysis import comparison
from tpcsweep.analysis.history import runs
from tpcsweep.analysis.models.observations import observe
from tpcsweep.data import folding, labels, opening, reduction, tables
from tpcsweep.data.cell_files import format_content
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.importing.import_settings import TAKEN
from tpcsweep.data.labels import about_flags, coordinates
from tpcsweep.data.short_reasons import short_reasons
from tpcsweep.data.variables import LIMITS, SAMPLES, SUMMARY, TRANSFERS
from tpcsweep.pages import figures
from tpcsweep.pages.content import page_content
from tpcsweep.pages.page_flags import page_flags
from tpcsweep.sweeps.parameters import Parameters, quantity

from tests.support import synthetic

AXES = synthetic.FOUR_AXES
HOLE = {"origins": 2, "cores": 2.0, "rtt": 100.0, "streams": 8}
FAILED = {"origins": 2, "cores": 2.0, "rtt": 100.0, "streams": 4}
WIDE = {"origins": 1, "rtt": 100.0, "streams": 1}
TWO = {"streams": [1, 2], "repetition": [1]}
SHARED = {"share_window": 0.52, "share_bandwidth": 0.48}
LINES = {"rtt": [5.0, 20.0], "streams": [1, 2, 4, 8], "repetition": [1]}

Specs = dict[Path, dict[str, Any]]
Sweep = tuple[Path, Specs]
Lines = tuple[Path, list[dict[str, Any]]]


def change(path: Path, how: Callable[[dict[str, Any]], object]) -> None:
    content = orjson.loads(path.read_bytes())
    how(content)
    path.write_bytes(synthetic.edited(orjson.dumps(content)))


@pytest.fixture
def batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder; processes read three cells at a time, after the first one."""
    monkeypatch.setattr("tpcsweep.data.reduction.SERIAL_CELLS", 1)
    monkeypatch.setattr("tpcsweep.data.reduction._BATCH", 3)
    return tmp_path


@pytest.fixture
def two(tmp_path: Path) -> Specs:
    return synthetic.write_sweep(tmp_path, TWO)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    folder = tmp_path_factory.mktemp("sweep")
    flagged = {"wide_interval": [WIDE], "not_steady": [WIDE | {"cores": 1.0}]}
    specs = synthetic.write_sweep(folder, AXES, missing=[HOLE], failed=[FAILED], flagged=flagged)
    path = folder / "out" / "dataset.nc"
    folding.write(folding.fold(specs, AXES, specs.values()), path)
    return path, specs


@pytest.fixture(scope="module")
def summary(sweep: Sweep) -> xr.Dataset:
    return xr.load_dataset(sweep[0])


def test_cells_that_were_measured_under_conditions_of_their_own_fold_with_the_others(two: Specs) -> None:
    path, spec = next(iter(two.items()))
    own = spec | {"conditions": {"cpu_period": 200_000}}
    change(path, lambda c: c.update(spec=own))
    with pytest.raises(reduction.DatasetError, match=r"conditions is .*, not absent"):
        folding.fold(two, TWO, two.values())
    assert folding.fold(two, TWO, [own, *list(two.values())[1:]]).summary.throughput.notnull().all()


@pytest.mark.parametrize("rtt", [None, 20.0])
def test_nothing_is_known_of_other_peoples_storage_that_they_did_not_declare(
    tmp_path: Path, rtt: float | None
) -> None:
    axes = {"pair": ["a", "b"], "streams": [1, 2], "repetition": [1]}
    for path in (specs := synthetic.write_sweep(tmp_path, axes, kind="endpoints")):
        change(path, lambda c: c["spec"]["parameters"].update(rtt=rtt, bandwidth=None))
    folding.write(folded := folding.fold(specs, axes), file := tmp_path / "dataset.nc")
    summary = opening.load(file)
    assert np.isnan(summary.bandwidth) and "not declared" in summary.bandwidth.comment
    assert bool(np.isnan(summary.rtt)) == (rtt is None)
    assert not {"cores", "tcp_buffer", "mtu", "loss", "layer"} & set(summary.coords)
    assert comparison.compare(summary, summary).alignment.different == {}
    assert "bandwidth" not in observe(summary).frame
    assert ("rtt" in observe(summary).frame) == (rtt is not None)
    page = page_content(summary, folded.samples, folded.transfers)
    told = dict(page["about"]["facts"])
    assert told["bandwidth"] == "not declared"
    assert ("RTT" in told) == (rtt is None)
    words = f"{json.dumps(page)} {figures.panels.common_parameters(summary)}"
    assert not any("the path's" in found["text"] for found in page["findings"])
    assert "Tbit/s" not in words and "RTT 0 ms" not in words and "nan" not in words.lower()
    assert runs.read_run("x", summary).parameters.keys() >= {"tool"}
    assert "bandwidth" not in runs.read_run("x", summary).parameters


def test_every_cell_is_in_its_place(sweep: Sweep, summary: xr.Dataset) -> None:
    found = {name: summary[name].values for name in (*SUMMARY, "status", "message")}
    for path, spec in sweep[1].items():
        place = spec["parameters"] | {"repetition": spec["repetition"]}
        at = tuple(values.index(place[name]) for name, values in AXES.items())
        written = orjson.loads(path.read_bytes())
        for name in SUMMARY:
            value = written["summary"][name]
            assert np.isnan(found[name][at]) if value is None else found[name][at] == value
        assert labels.STATUS[found["status"][at]] == written["status"]
        assert found["message"][at] == written["message"]


def test_axes_figures_and_fixed_parameters_have_their_values_units_and_names(summary: xr.Dataset) -> None:
    assert tuple(summary.throughput.dims) == tuple(AXES)
    named = {
        "rtt": "round-trip time",
        "streams": "streams",
        "file_size": "file size",
        "tcp_buffer": "TCP buffer",
    }
    assert {name: summary[name].long_name for name in named} == named
    for name, units in (("rtt", "ms"), ("streams", "1"), ("file_size", "B")):
        assert summary[name].units == units
    for name, one in SUMMARY.items():
        assert (summary[name].units, summary[name].comment) == (one.units, one.meaning)
        assert len(summary[name].long_name) < 40
    assert summary.streams.dtype.kind == "i"
    assert (summary.tool.item(), summary.tcp_buffer.item()) == ("gfal-copy", 4 * 2**20)
    assert "units" not in summary.tool.attrs


def test_holes_failures_and_flags_stay_visible(summary: xr.Dataset) -> None:
    hole, failed = summary.sel(HOLE), summary.sel(FAILED)
    assert (hole.status == 0).all() and (failed.status == 2).all()
    assert hole.throughput.isnull().all()
    assert (hole.provenance == -1).all()
    assert np.isnat(hole.started).all()
    assert summary.status.attrs["flag_meanings"] == "not_measured ok failed"
    found = {name: int(labels.flagged(summary, name).sum()) for name in ("wide_interval", "not_steady")}
    assert found == {"wide_interval": 6, "not_steady": 3}
    about = summary["flags"].attrs
    assert about.keys() == about_flags().keys()
    assert about["flag_meanings"].split() == list(FLAGS)
    assert about["flag_grades"].split() == [flag.grade for flag in FLAGS.values()]
    with pytest.raises(KeyError):
        labels.flagged(summary, "unheard")
    assert (summary.limit.sel(rtt=5, origins=1) == "bandwidth").all()
    assert (hole.limit == "").all() and (failed.limit == "").all()
    assert summary.limit.attrs["flag_meanings"].split() == list(LIMITS)


def test_what_arrived_before_a_cell_failed_is_no_throughput(two: Specs) -> None:
    first, _ = two
    change(first, lambda c: c.update(status="failed", message="gave up"))
    folded = folding.fold(two, TWO)
    assert np.isnan([folded.summary[name].values[0] for name in ("throughput", "throughput_max")]).all()
    assert folded.summary.duration.values[0] == 12
    assert folded.samples.goodput.notnull().any("time").all()
    assert "failed" in figures.series(folded.summary, folded.samples).axes[0].get_title()


def test_all_cells_of_a_sweep_decide_which_are_too_short(tmp_path: Path) -> None:
    axes = {"streams": [1, 2, 4, 8], "cores": [0.5, 1.0], "repetition": [1, 2]}
    flagged = {"too_short": [{"streams": 1}], "wide_interval": [{"cores": 1.0}]}
    specs = synthetic.write_sweep(tmp_path, axes, flagged=flagged)
    of_streams = {1: {"batch_correlation": -0.1}, 2: {"batch_correlation": -0.1, "length_rtts": 14}}
    of_streams |= {4: {"batch_correlation": 0.5}, 8: {"duration": 9.0}}
    for path, spec in specs.items():
        figures = of_streams[spec["parameters"]["streams"]]
        change(path, lambda cell, figures=figures: cell["summary"].update(figures))
    summary = folding.fold(specs, axes).summary
    # One stream's cells are like their neighbours; eight streams have no correlation, so their flags remain.
    short = labels.flagged(summary, "too_short")
    assert short.all(["cores", "repetition"]).values.tolist() == [False, True, True, False]
    assert not short.sel(streams=[1, 8]).any()
    assert labels.flagged(summary, "wide_interval").sel(cores=1.0).all()
    # A page names the one reason of each cell, in the place of the flag.
    reasons = {key: held for key, held in short_reasons(summary).items() if held.any()}
    assert {key: set(summary.streams.values[held.any((1, 2))]) for key, held in reasons.items()} == {
        "round_trips": {2},
        "slow": {4},
    }
    carried = {flag.words["words"]: int(flag.cells.sum()) for flag in page_flags(summary)}
    assert carried == {
        "shorter than 15 RTTs": 4,
        "short, as similar cells vary slowly": 4,
        "no interval as narrow as asked": 8,
    }


def test_limits_and_their_shares_are_those_of_the_cells(two: Specs) -> None:
    _, second = two
    limits = {"limit": "window", "limit_second": "bandwidth"}
    change(second, lambda c: c.update(limits, summary=c["summary"] | SHARED))
    folded = folding.fold(two, TWO).summary
    assert folded.limit.values.ravel().tolist() == ["bandwidth", "window"]
    assert folded.limit_second.values.ravel().tolist() == ["", "bandwidth"]
    assert folded.share_window.values.ravel().tolist() == pytest.approx([np.nan, 0.52], nan_ok=True)
    assert figures.limits(folded)


def test_no_axis_of_an_import_can_have_the_name_of_a_variable_or_dimension(sweep: Sweep) -> None:
    groups = [xr.load_dataset(sweep[0], group=group) for group in labels.GROUPS]
    found = set().union(*({*content.variables, *content.dims} for content in groups))
    assert found - {*AXES, *Parameters.model_fields} <= TAKEN


def test_attributes_say_where_when_and_with_what(summary: xr.Dataset) -> None:
    expected = {"Conventions": "CF-1.11, ACDD-1.3", "sweep": "demo", "testbed_kind": "netns"}
    expected |= {"software": "gfal2 2.23.0, xrootd 5.9.0", "commit": "0123abc"}
    expected |= dict.fromkeys(("measured_from", "time_coverage_start"), "2026-01-02T03:04:25Z")
    expected |= dict.fromkeys(("measured_until", "time_coverage_end"), "2026-01-02T03:05:17Z")
    about = summary.attrs
    assert about.items() >= expected.items()
    assert "over origins × cores × rtt × streams" in about["summary"]
    assert "HTTP-TPC" in about["keywords"].split(", ")
    assert "interval in s" in about["measurement_units"].split(", ")
    # One record for each deployment, not for each cell.
    assert summary.sizes["record"] == len(AXES["origins"]) * len(AXES["rtt"])
    record = summary.provenance_record.values[int(summary.provenance[0, 0, 1, 0, 0])]
    assert orjson.loads(str(record))["path"] == {"rtt": 20.05}


def test_a_file_says_what_it_is_called_and_when_it_was_made(two: Specs, tmp_path: Path) -> None:
    first, second = two
    about = []
    for number, files in enumerate(([first, second], [first, second], [first])):
        folding.write(folding.fold(files, TWO), tmp_path / f"made/{number}.nc")
        about.append(xr.load_dataset(tmp_path / f"made/{number}.nc").attrs)
    assert about[0]["history"].startswith(f"{about[0]['date_created']} tpcsweep: folded")
    assert UUID(about[0]["id"])
    assert about[0]["id"] == about[1]["id"] != about[2]["id"]
    assert sorted(file.name for file in (tmp_path / "made").glob("0*")) == ["0.nc", "0.nc.sha256"]


@pytest.mark.parametrize("kind", ["netns", "simulation"])
def test_every_number_has_a_unit(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "dataset.nc"
    folding.write(folding.fold(synthetic.write_sweep(tmp_path, TWO, kind=kind), TWO), file)
    for group in labels.GROUPS:
        with xr.open_dataset(file, group=group, decode_times=False) as content:
            numbers = {name for name, values in content.variables.items() if values.dtype.kind in "iuf"}
            assert len(numbers) > 10
            # Numbers that stand for words say which.
            named = {name for name in numbers if "flag_meanings" in content[name].attrs}
            assert not {name for name in numbers - named if not content[name].attrs.get("units")}
            plain = {name for name in numbers if content[name].ndim and not content[name].encoding["zlib"]}
            assert plain <= {"started"}  # all others are compressed


def test_the_table_has_a_row_for_each_cell(summary: xr.Dataset, tmp_path: Path) -> None:
    table = tables.table(summary)
    assert len(table) == summary["status"].size
    assert list(table.columns[:5]) == list(AXES)
    grades = {"": "", "wide_interval": "note", "not_steady wide_interval": "warning"}
    assert set(table["flags"]) == set(grades)
    assert (table["grade"] == table["flags"].map(grades)).all()
    hole = "rtt == 100 and streams == 8 and origins == 2 and cores == 2"
    assert set(table.query(hole)["status"]) == {"not_measured"}
    tables.write_table(summary, tmp_path / "cells.csv")
    assert (tmp_path / "cells.csv").read_text().count("\n") == len(table) + 1
    assert set(pd.read_csv(tmp_path / "cells.csv").limit.dropna()) == {"bandwidth", "window"}


def test_simulated_says_so(tmp_path: Path) -> None:
    folded = folding.fold(synthetic.write_sweep(tmp_path, TWO, kind="simulation"), TWO)
    groups = ((folded.summary, SUMMARY), (folded.samples, SAMPLES), (folded.transfers, TRANSFERS))
    for group, names in groups:
        assert "simulated" in group.title and "not measured" in group.comment
        assert group.testbed_kind == "simulation"
        assert all(group[name].long_name.startswith("simulated ") for name in names)


def test_a_failed_write_leaves_the_old_file(two: Specs, tmp_path: Path) -> None:
    folded = folding.fold(two, TWO)
    (tmp_path / "dataset.nc").write_text("old")
    folded.transfer_table.attributes = {"bad": object()}  # the other groups are written before this one
    with pytest.raises(TypeError):
        folding.write(folded, tmp_path / "dataset.nc")
    assert (tmp_path / "dataset.nc").read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cells", "dataset.nc"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda c: c["spec"]["parameters"].update(mtu=1500), r"parameters\.mtu is 1500, not 9000; delete"),
        (lambda c: c.update(format=2), "not a cell file of format 1"),
        (lambda c: c.pop("summary"), "without summary as cells"),
        (lambda c: c["flags"].append("unheard"), "with unheard, which"),
        (lambda c: c["summary"].update(speed=1), "with speed, which"),
        (lambda c: c["samples"].update(speed=[1]), "'speed'"),
        (lambda c: c.update(status="fine"), "'fine'"),
        (lambda c: c["transfers"]["size"].__setitem__(0, None), "size of a transfer is null"),
    ],
)
def test_a_wrong_cell_is_named(two: Specs, how: Callable[[dict[str, Any]], object], message: str) -> None:
    last = list(two)[-1]
    change(last, how)
    with pytest.raises(reduction.DatasetError, match=message) as caught:
        folding.fold(two, TWO, two.values())
    assert str(last) in str(caught.value)


@pytest.mark.parametrize("processes", [1, 2])
def test_an_unusable_file_is_set_aside_and_its_cell_says_why(batches: Path, processes: int) -> None:
    axes = {"streams": [1, 2, 4, 8, 16], "repetition": [1]}
    specs = synthetic.write_sweep(batches, axes)
    first, second, third, fourth, _ = specs
    first.write_text("{")
    change(second, lambda c: c["samples"]["goodput"].pop())
    third.unlink()
    third.mkdir()
    change(fourth, lambda c: c["spec"]["parameters"].update(mtu=1500))
    told: dict[Path, str] = {}
    folded = folding.fold(specs, axes, specs.values(), processes, set_aside=told.__setitem__).summary
    assert folded.status.values.ravel().tolist() == [0, 0, 0, 0, 1]
    assert list(told) == [first, second, third, fourth]
    for path, message in zip(told, folded.message.values.ravel(), strict=False):
        assert message == f"its file was set aside: {told[path]}"
    assert "goodput are not as many as times" in told[second]
    assert told[fourth] == "of another specification: parameters.mtu is 1500, not 9000"
    for known, aside in ((specs.values(), None), (None, told.__setitem__)):  # its place may not be known
        with pytest.raises(reduction.DatasetError, match=f"{first}: not JSON"):
            folding.fold(specs, axes, known, processes, set_aside=aside)
    with pytest.raises(reduction.DatasetError, match=f"no cell was measured; reason for {first}.*not JSON"):
        folding.fold([first], axes, [specs[first]], processes, set_aside=told.__setitem__)


@pytest.fixture
def lines(batches: Path) -> Lines:
    """A file with a line for each of 8 cells."""
    specs = synthetic.write_sweep(batches, LINES)
    file = batches / "cells.jsonl"
    file.write_bytes(b"".join(path.read_bytes() + b"\n" for path in specs))
    return file, [*specs.values()]


def of_lines(file: Path, specs: list[dict[str, Any]], processes: int = 2) -> folding.Folded:
    return folding.fold(folding.cell_lines(file, len(specs)), LINES, specs, processes, {"scale": "1/200"})


def test_lines_fold_as_files_do(tmp_path: Path, lines: Lines) -> None:
    found = of_lines(*lines)
    expected = folding.fold(synthetic.write_sweep(tmp_path, LINES), LINES, attributes={"scale": "1/200"})
    for group in ("summary", "samples", "transfers"):
        xr.testing.assert_identical(getattr(found, group), getattr(expected, group))


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda texts: [b"", *texts[1:]], "line 1: not JSON.*"),
        (lambda texts: [*texts[:-1], format_content({"spec": {}})], "line 8: without status and .*"),
        (
            lambda texts: [*texts[:5], synthetic.edited(texts[5].replace(b"9000", b"1500")), *texts[6:]],
            r"line 6: of another specification: parameters\.mtu is 1500, not 9000",
        ),
        (lambda texts: texts[:4], "line 5: missing"),
        (lambda texts: [*texts, b"{}"], "line 9: of a cell that the grid does not contain"),
    ],
)
def test_an_unusable_line_is_named_with_a_fix(lines: Lines, change: Any, said: str, processes: int) -> None:
    file = lines[0]
    file.write_bytes(b"\n".join(change(file.read_bytes().splitlines())))
    with pytest.raises(reduction.DatasetError, match=f"{file}, {said}; delete the file and run"):
        of_lines(*lines, processes)


def test_cells_off_the_grid_and_no_cells_are_refused(two: Specs) -> None:
    with pytest.raises(reduction.DatasetError, match="streams is 2, and the grid has 1"):
        folding.fold(two, {**TWO, "streams": [1]})
    with pytest.raises(reduction.DatasetError, match="no cell files"):
        folding.fold([], TWO)


def test_flags_are_read_by_the_bits_of_their_dataset() -> None:
    about = {"flag_meanings": "not_steady machine_saturated", "flag_masks": np.array([1, 2], np.int32)}
    other = xr.Dataset({"flags": ("streams", np.array([0, 1, 2, 3], np.int32), about)})
    assert labels.flagged(other, "machine_saturated").values.tolist() == [False, False, True, True]
    assert labels.flags_in(3, labels.flag_masks(other)) == ["not_steady", "machine_saturated"]


def test_inf_is_commented_by_the_parameters_own_meaning_of_null() -> None:
    nullable = {
        name: known.null for name in Parameters.model_fields if (known := quantity(name)) and known.null
    }
    assert {"cores", "queue_limit"} <= nullable.keys()
    for name, null in nullable.items():
        *_, attributes = coordinates({name: [None, 1]}, {})[name]
        assert attributes["comment"].endswith(f"null: {null}; inf: {null}")
