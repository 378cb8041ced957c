# SPDX-License-Identifier: Apache-2.0
"""Figures of sweeps of every shape: each must be drawn, hide no cell and say what it shows."""

import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from tpcsweep.analysis import node_plots
from tpcsweep.common import processes
from tpcsweep.common.numbers import short
from tpcsweep.data import folding
from tpcsweep.data.flags import FLAGS, graded
from tpcsweep.data.opening import load
from tpcsweep.data.repetitions import settings_of
from tpcsweep.data.variables import LIMITS
from tpcsweep.pages import figures
from tpcsweep.pages.figures.panels import common_parameters, tiles
from tpcsweep.pages.limit_colours import LIMIT_COLOURS as COLOURS
from tpcsweep.pages.panel_grid import Places
from tpcsweep.sweeps.parameters import Value

from tests.support import hostile, synthetic
from tests.support.pictures import hues, pixels, words
from tests.support.workflow import ROOT

ONE = [1]
AXES: dict[str, Sequence[Value]] = {"rtt": [5.0, 50.0], "streams": [1, 2, 4], "repetition": [1, 2]}
EACH = [{"rtt": rtt, "streams": streams} for rtt in AXES["rtt"] for streams in AXES["streams"]]
FOUR: dict[str, Sequence[Value]] = {"rtt": [5.0, 50.0], "streams": [1, 2], "repetition": ONE}


def folded(folder: Path, axes: Mapping[str, Sequence[Value]], **how: Any) -> folding.Folded:
    return folding.fold(synthetic.write_sweep(folder, axes, **how), axes)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> folding.Folded:
    """A sweep in which nothing went wrong; only read."""
    return folded(tmp_path_factory.mktemp("clean"), AXES)


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]


@pytest.mark.parametrize(
    ("axes", "count"),
    [
        ({"repetition": ONE}, 1),
        ({"cores": [1.0, None], "tool": ["curl", "gfal-copy"], "repetition": ONE}, 1),
        ({"origins": [1, 2], "cores": [1.0, 2.0], **FOUR}, 4),
        ({"origins": [1, 2, 3, 4, 5], **FOUR}, 5),
    ],
)
def test_every_other_value_has_a_panel(tmp_path: Path, axes: dict[str, Sequence[Value]], count: int) -> None:
    groups = folded(tmp_path, axes)
    drawn = [draw(groups.summary) for draw in (figures.heatmap, figures.lines, figures.limits)]
    for figure in drawn:
        assert len(panels(figure)) == count
    cpu = figures.cpu(groups.summary)
    assert panels(cpu)
    for figure in (*drawn[2:], cpu):
        assert_shows(figure, tmp_path)


@pytest.mark.parametrize(("streams", "count"), [([1, 2], 0), ([1, 2, 4], 4)])
def test_a_surface_has_three_values_on_both_axes(tmp_path: Path, streams: list[int], count: int) -> None:
    axes = {
        "origins": [1, 2],
        "cores": [1.0, 2.0],
        "rtt": [5.0, 20.0, 50.0],
        "streams": streams,
        "repetition": ONE,
    }
    figure = figures.surface(folded(tmp_path, axes).summary)
    if count:
        assert len(panels(figure)) == count
        top = 1.1 * float(folded(tmp_path, axes).summary.bandwidth)
        assert [axes.get_zlim()[1] for axes in panels(figure)] == pytest.approx([top] * 4, rel=0.03)
        assert_shows(figure, tmp_path)
    else:
        assert "no surface to draw" in words(figure) and "2 of streams and 3 of rtt" in words(figure)


@pytest.mark.parametrize("draw", [figures.heatmap, figures.lines, figures.limits])
def test_values_of_panels_and_names_of_axes_are_written_once(
    tmp_path: Path, draw: Callable[[xr.Dataset], Figure]
) -> None:
    axes = {"origins": [1, 2], "cores": [1.0, 2.0, 4.0], **FOUR}
    figure = draw(folded(tmp_path, axes).summary)
    titles = [axes.get_title() for axes in panels(figure)]
    assert titles == ["cores 1", "cores 2", "cores 4", "", "", ""]
    for row in ("origins 1", "origins 2"):
        assert words(figure).count(row) == 1
    assert [bool(axes.get_xlabel()) for axes in panels(figure)] == [False] * 3 + [True] * 3
    assert [bool(axes.get_ylabel()) for axes in panels(figure)] == [True, False, False] * 2


def test_panels_that_are_no_table_have_whole_titles(tmp_path: Path) -> None:
    axes = {"origins": [1, 2], "cores": [1.0, 2.0, 4.0], **FOUR}
    without = [{"origins": 1, "cores": 1.0}, {"origins": 2, "cores": 4.0}]
    figure = figures.heatmap(folded(tmp_path, axes, missing=without).summary)
    assert [axes.get_title() for axes in panels(figure)] == [
        f"origins {origins}, cores {cores}" for origins, cores in ((1, 2), (1, 4), (2, 1), (2, 2))
    ]


def assert_shows(figure: Figure, folder: Path) -> None:
    figure.savefig(folder / "seen.png", dpi=150)  # as shipped: smaller letters are wider
    shown = pixels(folder / "seen.png")
    height, width, _ = shown.shape
    for panel in panels(figure):
        at = panel.get_position()
        rows = slice(round((1 - at.y1) * height), round((1 - at.y0) * height))
        columns = slice(round(at.x0 * width), round(at.x1 * width))
        assert hues(shown[rows, columns], 1e-4) > 0  # a point is enough


def test_what_to_know_of_cells_is_marked_and_explained(tmp_path: Path) -> None:
    flags = {flag: [EACH[2 + place % 4]] for place, flag in enumerate(FLAGS)}
    groups = folded(tmp_path, AXES, missing=[EACH[0]], failed=[EACH[1]], flagged=flags)
    summary = groups.summary
    heat_map = figures.heatmap(summary)
    for figure in (heat_map, figures.lines(summary)):
        shown = words(figure)
        assert [mark for mark in figures.MARKS.values() if mark.meaning not in shown] == []
    assert sum(bool(patch.get_hatch()) for patch in heat_map.axes[0].patches) == 2


def test_panels_and_lines_without_a_cell_are_left_out(tmp_path: Path) -> None:
    tools = {"layer": ["network", "memory_to_disk"], "tool": ["iperf3", "curl"]}
    layers = {**tools, "streams": [1, 2], "repetition": ONE}
    unknown = [{"layer": "network", "tool": "curl"}, {"layer": "memory_to_disk", "tool": "iperf3"}]
    groups = folded(tmp_path, layers, missing=unknown)
    lines = figures.lines(groups.summary, Places("streams", "tool"))
    assert [axes.get_title() for axes in panels(lines)] == ["layer network", "layer memory_to_disk"]
    drawn = [[line for line in axes.lines if line.get_linestyle() != ":"] for axes in panels(lines)]
    assert [len(tools) for tools in drawn] == [1, 1]  # the dotted one is the path's bandwidth
    assert len(panels(figures.heatmap(groups.summary))) == 2


def test_every_warning_and_what_is_invalid_has_a_mark_of_its_own() -> None:
    assert set(figures.MARKS) == {"failed", "missing", *graded(FLAGS, "warning", "invalid")}
    assert {flag for flag, mark in figures.MARKS.items() if mark.invalid} == set(graded(FLAGS, "invalid"))
    assert len({mark.marker for mark in figures.MARKS.values()}) == len(figures.MARKS)


def test_the_map_of_limits_names_what_bound_cells_and_has_their_throughput(tmp_path: Path) -> None:
    groups = folded(tmp_path, AXES, failed=[EACH[0]])
    figure = figures.limits(groups.summary)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["B: the path's bandwidth", "W: TCP's window", "failed or not measured"]
    assert short(float(groups.summary.throughput.sel(EACH[1]).mean())) in words(figure)
    assert set(COLOURS) == set(LIMITS)


def test_repetitions_that_were_bound_by_different_things_are_hatched(tmp_path: Path) -> None:
    summary = folded(tmp_path, {**FOUR, "repetition": [1, 2, 3]}).summary
    summary["limit"].loc[EACH[0] | {"repetition": 1}] = "machine"
    figure = figures.limits(summary)
    assert "repetitions differ" in words(figure)
    assert sum(bool(patch.get_hatch()) for patch in figure.axes[0].patches) == 1
    first = np.ravel(figure.axes[0].collections[0].get_array())[0]
    assert list(LIMITS)[int(first)] == "bandwidth"  # two of three


def test_limits_with_warnings_are_hatched_and_letters_are_legible(tmp_path: Path) -> None:
    flags = {"not_steady": [EACH[1]], "implausible": [EACH[2]], "wide_interval": [EACH[3]]}
    figure = figures.limits(folded(tmp_path, AXES, flagged=flags).summary)
    [drawn] = panels(figure)
    assert [patch.get_hatch() for patch in drawn.patches if patch.get_hatch()] == ["///", "xxx"]
    assert [text.get_text() for text in figure.legends[0].get_texts()][-2:] == ["a warning", "invalid"]
    letters = {text.get_text()[0]: text.get_color() for text in drawn.texts if text.get_bbox_patch() is None}
    assert letters["B"] == "white" != letters["W"]


def test_a_failed_repetition_is_marked_and_left_out(clean: folding.Folded, tmp_path: Path) -> None:
    assert not figures.heatmap(clean.summary).legends
    groups = folded(tmp_path, AXES, failed=[EACH[0] | {"repetition": 2}])
    shown = words(figures.heatmap(groups.summary))
    assert "failed" in shown
    expected = float(groups.summary.throughput.sel(rtt=5, streams=1, repetition=1))
    assert f"{expected:.3f}" in shown


def test_repetitions_are_averaged_and_bars_are_the_intervals_of_the_means(clean: folding.Folded) -> None:
    summary = clean.summary
    axes = figures.lines(summary).axes[0]
    assert np.allclose(axes.get_lines()[0].get_ydata(), summary.throughput.sel(rtt=5).mean("repetition"))
    bars = np.array(axes.collections[0].get_segments())[:, :, 1]  # of the first line
    settings = settings_of(summary).sel(rtt=5)
    assert np.allclose(bars, np.transpose([settings.throughput_low, settings.throughput_high]))


def test_the_axis_ends_above_the_path_and_arrows_mark_longer_bars(clean: folding.Folded) -> None:
    summary = clean.summary.copy(deep=True)
    summary["throughput_high"].loc[EACH[1]] = 9.0
    for content, arrow in ((clean.summary, False), (summary, True)):
        figure = figures.lines(content)
        assert figure.axes[0].get_ylim() == (0, pytest.approx(1.1 * float(summary.bandwidth)))
        assert ("beyond the axis" in words(figure)) is arrow


def test_lines_have_their_names_at_their_ends(tmp_path: Path) -> None:
    axes = {"streams": [1, 2, 4, 8], "rtt": [5.0, 10.0, 20.0, 50.0, 80.0], "repetition": ONE}
    figure = figures.lines(folded(tmp_path, axes).summary)
    figure.draw_without_rendering()
    [drawn] = panels(figure)
    names = [text for text in drawn.texts if text.get_text().endswith(" ms")]
    assert sorted(name.get_text() for name in names) == ["10 ms", "20 ms", "5 ms", "50 ms", "80 ms"]
    # Without the lines that lead to them, which an annotation's own extent has.
    boxes = [Text.get_window_extent(name) for name in [*names, *figure.texts]]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert max(box.x1 for box in boxes) < figure.bbox.x1


def test_nothing_measured_is_drawn_too(tmp_path: Path) -> None:
    groups = folded(tmp_path, FOUR, failed=[{}])
    for draw in (figures.heatmap, figures.lines):
        assert "failed" in words(draw(groups.summary))
    for draw in (figures.cpu, figures.limits):
        assert "No cell" in words(draw(groups.summary))
    assert "No cell" in words(figures.series(groups.summary, groups.samples))


def test_every_cell_has_a_series_or_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = folded(tmp_path, FOUR, flagged={"not_steady": [EACH[4]]})
    figure = figures.series(groups.summary, groups.samples)
    assert len(panels(figure)) == 4
    assert_shows(figure, tmp_path)
    monkeypatch.setattr("tpcsweep.pages.figures.cell_plots._MOST_PANELS", 2)
    figure = figures.series(groups.summary, groups.samples)
    assert "2 of 4 measured cells" in words(figure) and "not steady" in words(figure)
    assert len(panels(figure)) == 2


def test_more_panels_than_fit_have_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpcsweep.pages.figures.panels._MOST_PANELS", 4)
    axes: dict[str, Sequence[Value]] = {"origins": [1, 2], "tcp_buffer": [4096, 8192, 12288], **FOUR}
    figure = figures.heatmap(folded(tmp_path, axes).summary)
    assert len(panels(figure)) == 4
    assert "4 of 6 panels, evenly over their values" in words(figure)
    assert "TCP buffer 4 KiB" in words(figure) and "TCP buffer 12 KiB" in words(figure)


def test_maps_of_many_values_stay_of_a_size_and_have_no_numbers(tmp_path: Path) -> None:
    axes = {"streams": range(1, 41), "rtt": [5.0, 20.0, 50.0], "repetition": ONE}
    summary = folded(tmp_path, axes).summary
    for figure in (figures.heatmap(summary), figures.limits(summary)):
        [drawn] = panels(figure)
        assert not drawn.texts
        named = [tick.get_text() for tick in drawn.get_xticklabels()]
        assert (named[0], named[-1]) == ("1", "40")
        assert len(drawn.get_xticks()) < 20
        assert max(figure.get_size_inches()) < 12
    assert "24 of 40 values of streams, evenly over them" in words(figures.surface(summary))


def test_marks_of_one_cell_are_side_by_side(tmp_path: Path) -> None:
    flags = {"not_steady": [EACH[4]], "disturbed": [EACH[4]]}
    [drawn] = panels(figures.heatmap(folded(tmp_path, FOUR, flagged=flags).summary))
    alone = [one.get_offsets()[0] for one in drawn.collections if len(one.get_offsets()) == 1]
    marks = sorted(map(tuple, alone))
    assert [(round(x, 2), round(y, 2)) for x, y in marks if 1 < y < 1.2] == [(1.33, 1.14), (1.67, 1.14)]


def test_intervals_are_drawn_themselves_and_not_marked(tmp_path: Path) -> None:
    summary = folded(tmp_path, FOUR, flagged={"wide_interval": [{}], "too_short": [{}]}).summary
    figure = figures.heatmap(summary)
    assert not figure.legends
    [drawn] = panels(figure)
    low, high = (summary[f"throughput_{end}"].sel(streams=2, rtt=50.0).item() for end in ("low", "high"))
    [shown] = [text for text in drawn.texts if text.get_position()[0] == 1.5 and "–" in text.get_text()][1:]
    assert [float(end) for end in shown.get_text().split("–")] == pytest.approx([low, high], rel=0.01)
    assert "Small numbers: 95 % confidence interval" in words(figure)


@pytest.mark.parametrize("name", ["heatmap", "lines", "surface", "limits", "cpu"])
def test_a_figure_has_no_settings_of_the_users(clean: folding.Folded, tmp_path: Path, name: str) -> None:
    rc = tmp_path / "matplotlibrc"
    rc.write_text(hostile.BAD_RC)
    for whose, settings in (("ours", None), ("theirs", rc)):
        with mpl.rc_context(fname=settings):
            figures.save(getattr(figures, name)(clean.summary), tmp_path, whose)
    for kind in ("png", "svg"):
        assert (tmp_path / f"ours.{kind}").read_bytes() == (tmp_path / f"theirs.{kind}").read_bytes()


def test_chosen_axes_take_the_place_of_streams_and_rtt(tmp_path: Path) -> None:
    axes: dict[str, Sequence[Value]] = {"queue_limit": [1000, None], **AXES, "repetition": ONE}
    figure = figures.lines(folded(tmp_path, axes).summary, Places("rtt", "queue_limit"))
    assert [axes.get_title() for axes in panels(figure)] == [f"streams {count}" for count in (1, 2, 4)]
    assert {axes.get_xlabel() for axes in panels(figure)} == {"RTT (ms)"}
    assert "1000 sized to the path queue limit" in words(figure)


def test_releases_have_a_row_of_panels_for_each_value_of_the_axes_that_are_left(tmp_path: Path) -> None:
    axes = {"xrootd": ["5.5.3", "5.8.1", "6.2.0"], **FOUR, "repetition": [1, 2, 3]}
    broke = [{"xrootd": "5.5.3", **EACH[1]}]
    groups = folded(tmp_path, axes, failed=broke, flagged={"deployment_broken": broke})
    figure = node_plots.releases(groups.summary, groups.transfers, "xrootd", "streams")
    assert len(panels(figure)) == 2 * 5
    assert [axes.get_title() for axes in panels(figure)[::5]] == ["RTT 5 ms", "RTT 50 ms"]
    assert [text.get_text() for text in panels(figure)[-1].get_xticklabels()] == axes["xrootd"]
    shares = [[line.get_ydata()[0] for line in panels(figure)[at].lines] for at in (4, 9)]
    assert shares == [[0.5, 0, 0, 0, 0, 0], [0] * 6]
    assert_shows(figure, tmp_path)
    groups.summary["status"].loc[{"rtt": 50.0}] = 0  # not measured: excluded, as likely as not
    figure = node_plots.releases(groups.summary, groups.transfers, "xrootd", "streams")
    assert [axes.get_title() for axes in panels(figure)[::5]] == ["RTT 5 ms"]


@pytest.mark.parametrize("place", ["matplotlibrc", "elsewhere"])
def test_a_matplotlibrc_that_cannot_be_decoded_has_no_effect(place: str, tmp_path: Path) -> None:
    (tmp_path / place).write_bytes("font.family: Déjà\n".encode("cp1252"))
    shown = "import tpcsweep.pages.figures.panels, matplotlib as m; print(*m.rcParams['font.family'])"
    env = {**os.environ, "MATPLOTLIBRC": str(tmp_path / place)}
    done = processes.run([sys.executable, "-c", shown], env, cwd=tmp_path)
    assert done.stdout == "sans-serif\n", done.stderr


def test_intervals_fit_their_cells() -> None:
    """Some have 13 characters: 0.0654–0.0696."""
    figure = figures.heatmap(load(ROOT / "examples/surface.nc"))
    figure.set_dpi(150)  # that of pictures
    figure.draw_without_rendering()
    for panel in panels(figure):
        wide = panel.get_window_extent().width / 4  # streams
        boxes = [text.get_window_extent() for text in panel.texts if "–" in text.get_text()]
        assert len(boxes) == 12
        assert max(box.width for box in boxes) < 0.97 * wide


WORDS = [f"Networks of Somewhere {number} GmbH" for number in range(6)]


@pytest.mark.parametrize("draw", [figures.lines, figures.heatmap])
def test_words_at_an_axis_do_not_overlap(tmp_path: Path, draw: Callable[[xr.Dataset], Figure]) -> None:
    axes = {"tool": WORDS, "congestion_control": WORDS, "repetition": [1]}
    figure = draw(folded(tmp_path, axes).summary)
    figure.draw_without_rendering()
    panel, *_ = figure.axes
    for axis in (panel.xaxis, panel.yaxis):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_text()]
        assert len(boxes) > 4
        assert not any(one.overlaps(other) for one, other in pairwise(boxes))
    for legend in figure.legends:
        assert legend.get_window_extent().width < figure.bbox.width


def test_the_lowest_panel_of_each_column_has_tick_labels() -> None:
    figure, drawn = tiles(9, 3.0, 2.0)
    figure.draw_without_rendering()
    labelled = [any(label.get_visible() and label.get_text() for label in a.get_xticklabels()) for a in drawn]
    assert labelled == [False] * 5 + [True] * 4


def test_a_caption_names_no_parameter_at_its_value_of_before() -> None:
    summary = synthetic.bare(np.ones((2, 1)), 0.1, {"streams": [1, 2], "repetition": [1]})
    named = common_parameters(summary.assign_coords(pair="only", encryption="usual", loss=0.0))
    assert "loss" in named and "only" not in named and "usual" not in named
    assert "site a to b" in common_parameters(summary.assign_coords(pair="site a to b"))
