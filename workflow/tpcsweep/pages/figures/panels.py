# SPDX-License-Identifier: Apache-2.0
"""Shared parts of figures: panels, marks, title, notes, legend, colours, style, display in notebooks.

Text from data is escaped in the pages made from notebooks.
"""

import itertools
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import pandas as pd  # type: ignore[import-untyped]
import seaborn as sns  # type: ignore[import-untyped]
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from tpcsweep.common.numbers import plain, short
from tpcsweep.data.flags import FLAGS
from tpcsweep.data.labels import data_origin
from tpcsweep.deploying.xrootd.releases import SYSTEM
from tpcsweep.pages.figures.axis_labels import escape_math, panel_title, text_width
from tpcsweep.pages.panel_grid import Arrangement, evenly
from tpcsweep.sweeps.parameters import name_text, value_text

COLOURS = "viridis"
INVALID = "#D55E00"  # fill colour of marks on cells with invalid figures
_UNSPECIFIC = ("only", SYSTEM, "usual")  # values of parameters that leave the choice to testbed and tool
_MOST_PANELS = 40  # in one figure
_MOST_COLUMNS = 8  # in a figure with several rows
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


Panels = Sequence[tuple[Axes, Mapping[str, Any]]]
"""Panels of a figure, each with its values of the axes without another place."""


Colour = tuple[float, float, float]


class Mark(NamedTuple):
    """Style of a cell's property: failed, missing, a warning, or invalid.

    Flags that are notes have no mark: they concern the interval, which is drawn itself.
    """

    marker: str
    meaning: str
    invalid: bool = False

    def face(self, otherwise: str) -> str:
        return INVALID if self.invalid else otherwise


_MARKERS = {
    "not_steady": "^",
    "transfers_failed": "v",
    "files_missing": "<",
    "counters_disagree": "P",
    "monitoring_disagrees": ">",
    "machine_saturated": "*",
    "deployment_broken": "h",
    "path_slow": "D",
    "disturbed": "s",
    "implausible": "8",
    "beyond_path": "H",
    "setting_changed": "d",
    "production_load": "p",
    "waited": r"$\Vert$",
}

MARKS = {
    "failed": Mark("X", "failed"),
    "missing": Mark("o", "not measured"),
    **{
        flag: Mark(marker, f"{FLAGS[flag].grade}: {FLAGS[flag].label}", FLAGS[flag].grade == "invalid")
        for flag, marker in _MARKERS.items()
    },
}


def lay_out(
    grid: Arrangement, wide: float, high: float, **look: Any
) -> tuple[Figure, list[tuple[Axes, Mapping[str, Any]]], list[str]]:
    """Return a figure with a panel (inches `wide` × `high`) for each part of a grid, as `facets` does."""
    return facets(grid.panels(), grid.columns, wide, high, **look)


def facets(
    rows: Sequence[Sequence[Mapping[str, Any]]],
    across: str | None,
    wide: float,
    high: float,
    projection: str | None = None,
    beside: float = 0.0,
    margin: tuple[float, float] = (0.0, 0.0),
) -> tuple[Figure, list[tuple[Axes, Mapping[str, Any]]], list[str]]:
    """Return a figure with titled panels, each with the values of its axes, and notes on omitted ones.

    The panels share their axes, except for those of a projection.

    Args:
        rows: The values of each panel, row by row. If rows have different columns, panels are wrapped.
        across: The axis with a column for each value.
        wide: Width of a panel in inches.
        high: Height of a panel in inches.
        projection: Of matplotlib, such as 3d.
        beside: Inches at the right of each panel for texts.
        margin: Inches for long tick labels at the left of and below all panels.
    """
    if len({tuple(where.get(str(across)) for where in row) for row in rows}) > 1:
        rows = [list(itertools.chain.from_iterable(rows))]
    every = sum(map(len, rows))
    columns = evenly(len(rows[0]), _MOST_PANELS if len(rows) == 1 else _MOST_COLUMNS)
    kept = evenly(len(rows), max(1, _MOST_PANELS // columns.size))
    rows = [[rows[row][column] for column in columns] for row in kept]
    shown = kept.size * columns.size
    notes = [f"{shown} of {every} panels, evenly over their values; the dataset has all."]
    if len(rows) == 1 and len(rows[0]) > 4:  # a single long row is easier to read wrapped
        rows = [rows[0][at : at + 4] for at in range(0, len(rows[0]), 4)]
    # Panels that have titles of their own need room for them.
    between = 0.15 if len(set(map(len, rows))) == 1 else 0.3
    size = (
        max((wide + beside + 0.1) * len(rows[0]) + 1.0 + margin[0], 5.2),
        (high + between) * len(rows) + 0.6 + margin[1],
    )
    shared = projection is None
    look: dict[str, Any] = {"subplot_kw": {"projection": projection}, "sharex": shared, "sharey": shared}
    figure, axes = _panels(size, list(map(len, rows)), **look)
    panels = list(zip(axes, itertools.chain.from_iterable(rows), strict=True))
    title_panels(panels, across, (wide, high), beside)
    return figure, panels, notes if shown < every else []


def title_panels(
    panels: Panels,
    columns: str | None,
    size: tuple[float, float],
    beside: float = 0.0,
    text: Callable[[Mapping[str, Any]], str] = panel_title,
) -> None:
    """Write values of axes once, above each column and at the right of each row, or above every panel if no table.

    Args:
        panels: Panels with the values of their axes.
        columns: The axis with a column for each value.
        size: Width and height of a panel in inches.
        beside: Inches of other texts between a panel and the title of its row.
        text: Returns the text of some values.
    """
    above, right = _titles(panels, columns)
    for axes, where in panels:
        row, column = _place(axes)
        if not right:
            axes.set_title(_wrapped(text(where), size[0]))
            continue
        if row == 0:
            axes.set_title(_wrapped(text(above[column]), size[0]))
        if column == max(above):
            look: dict[str, Any] = {
                "rotation": 270,
                "ha": "left",
                "va": "center",
                "textcoords": "offset points",
            }
            axes.annotate(
                _wrapped(text(right[row]), size[1]), (1, 0.5), (72 * beside + 5, 0), "axes fraction", **look
            )


def _wrapped(text: str, wide: float) -> str:
    """Break a text to `wide` inches, between values rather than between a name and its value."""
    parts = text.split(", ")
    letters = max(12, int(wide * 11))
    if max(map(len, parts)) < letters:
        parts = [part.replace(" ", "\u00a0") for part in parts]
    return textwrap.fill(", ".join(parts), letters).replace("\u00a0", " ")


def _titles(panels: Panels, columns: str | None) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the values of columns and of rows; none of rows if there is one row, or panels are no table."""
    above: dict[int, Any] = {}
    right: dict[int, Any] = {}
    for axes, where in panels:
        row, column = _place(axes)
        of_row = {name: value for name, value in where.items() if name != columns}
        of_column = {name: value for name, value in where.items() if name == columns}
        if above.setdefault(column, of_column) != of_column or right.setdefault(row, of_row) != of_row:
            return {}, {}
    return above, right if len(right) > 1 else {}


def label_edges(panels: Iterable[Axes], x: str, y: str) -> None:
    """Write axis labels once: of x below each column's lowest panel, of y at the left of each row."""
    panels = list(panels)
    lowest = {column: row for row, column in sorted(map(_place, panels))}
    for axes in panels:
        row, column = _place(axes)
        axes.set_xlabel(x if row == lowest[column] else "")
        axes.set_ylabel(y if column == 0 else "")


def _place(axes: Axes) -> tuple[int, int]:
    """Return row and column of a panel in its grid."""
    spec = axes.get_subplotspec()
    return (spec.rowspan.start, spec.colspan.start) if spec else (0, 0)


def tiles(
    count: int,
    wide: float,
    high: float,
    margin: tuple[float, float] = (0.4, 0.0),
    least: float = 5.2,
    sharey: bool | Literal["row"] = True,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels, four in a row, sharing the scale of x, and of y as `sharey` says.

    Lengths are in inches: width and height of a panel, the figure's margin around all panels, and its least width.
    """
    rows = [min(4, count - first) for first in range(0, count, 4)]
    size = (max(wide * rows[0] + margin[0], least), high * len(rows) + margin[1])
    return _panels(size, rows, sharex=True, sharey=sharey)


def _panels(size: tuple[float, float], rows: Sequence[int], **settings: Any) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=size, layout="constrained")
    return figure, used_panels(figure.subplots(len(rows), max(rows), squeeze=False, **settings), rows)


def used_panels(axes: NDArray[Any], rows: Sequence[int]) -> list[Axes]:
    """Return the first panels of each row, as many as `rows` say, and remove the others.

    The lowest panel of each column has tick labels, also if panels share their axes.
    """
    for row, count in enumerate(rows):
        for column in range(count, axes.shape[1]):
            axes[row, column].remove()
            if row and column < rows[row - 1]:
                axes[row - 1, column].tick_params(labelbottom=True)
    return [panel for line, count in zip(axes, rows, strict=True) for panel in line[:count]]


def finish(
    figure: Figure, summary: xr.Dataset, topic: str, notes: Sequence[str], handles: Sequence[Any] = ()
) -> None:
    """Add title, common parameters, notes and one legend; the figure grows by their height."""
    title = f"{topic}: sweep {summary.attrs['sweep']}, {data_origin(summary)}"
    add_header(figure, title, [common_parameters(summary), *notes], handles)


def common_parameters(summary: xr.Dataset) -> str:
    """Describe the parameters with one value, except those whose value leaves the choice to testbed and tool."""
    single = {str(name): summary[name].item() for name in summary.coords if not summary[name].dims}
    return ", ".join(
        f"{name_text(name)} {value_text(name, value)}"
        for name, value in single.items()
        if value not in _UNSPECIFIC
    )


def add_header(figure: Figure, title: str, notes: Sequence[str], handles: Sequence[Any] = ()) -> None:
    """Add title, notes and one legend; the figure grows by their height."""
    wide, high = figure.get_size_inches()
    lines = textwrap.wrap(escape_math(title), int(wide * 9.8))
    small = [line for text in notes for line in textwrap.wrap(escape_math(text), int(wide * 16))]
    widest = max((text_width(str(handle.get_label())) for handle in handles), default=0.0)
    columns = max(1, min(len(handles), int(wide / max(1.75, widest + 0.6))))
    above = 0.12 + 0.2 * len(lines) + 0.145 * len(small) + 0.08
    below = 0.19 * math.ceil(len(handles) / columns) + 0.12 if handles else 0.0
    total = high + above + below
    figure.set_size_inches(wide, total)
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, below / total, 1 - 0.08 / wide, high / total))
    left = 0.12 / wide
    top = 1 - 0.1 / total
    figure.text(left, top, "\n".join(lines), va="top", fontsize=11, fontweight="bold", linespacing=1.25)
    below_title = top - (0.2 * len(lines) + 0.03) / total
    figure.text(left, below_title, "\n".join(small), va="top", fontsize=7.5, color="#333333", linespacing=1.3)
    if handles:
        figure.legend(
            handles=list(handles),
            loc="lower center",
            bbox_to_anchor=(0.5, 0.04 / total),
            ncols=columns,
            frameon=False,
            fontsize=8,
            borderaxespad=0,
            columnspacing=1.4,
            handletextpad=0.5,
        )


@contextmanager
def styled(style: Any = _STYLE) -> Iterator[None]:
    """Apply the style of all figures, as context manager or decorator.

    The style starts from matplotlib's defaults, not from the user's matplotlibrc.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        with mpl.rc_context(style):
            yield


@styled()
def placeholder(summary: xr.Dataset, topic: str, text: str) -> Figure:
    figure, [axes] = tiles(1, 6.4, 3.0, (0, 0))
    axes.set_axis_off()
    axes.text(0.5, 0.5, textwrap.fill(text, 60), ha="center", va="center", fontsize=11)
    finish(figure, summary, topic, [])
    return figure


def cell_marks(cells: xr.Dataset) -> list[str]:
    return [name for name in MARKS if bool(cells[name].any())]


def mark_handles(grid: Arrangement, face: str) -> list[Line2D]:
    """Return legend entries of the marks that occur; `face` fills marks that are not invalid."""
    return [
        point_handle(MARKS[name].meaning, "black", MARKS[name].marker, MARKS[name].face(face), markersize=5)
        for name in cell_marks(grid.cells)
    ]


def point_handle(label: str, colour: str, marker: str, face: str | None = None, **look: Any) -> Line2D:
    """Return the legend entry of points, filled with `face` or their edge colour."""
    look |= {"markerfacecolor": face or colour, "markeredgecolor": colour}
    return Line2D([], [], linestyle="", marker=marker, label=label, **look)


def curve_handles(axis: str, values: Sequence[Any], palette: Sequence[Any]) -> list[Line2D]:
    return [
        Line2D([], [], color=colour, marker=".", label=panel_title({axis: value}))
        for value, colour in zip(values, palette, strict=True)
    ]


def colours(count: int) -> list[Colour]:
    """Return `count` colours, without the ends of the scale, which are faint on white."""
    return list(sns.color_palette(COLOURS, count))


def colour_scale(cells: xr.Dataset) -> Normalize:
    """Return a colour scale from zero to the largest throughput, shared by all panels."""
    largest = float(cells["throughput"].max())
    return Normalize(0, largest if largest > 0 else 1)  # False for NaN


def save(figure: Figure, folder: str | Path, name: str) -> None:
    """Write `name`.png and `name`.svg into a folder, reproducibly."""
    for suffix in ("png", "svg"):
        write_figure(figure, Path(folder) / f"{name}.{suffix}")


def write_figure(figure: Figure, file: Path) -> None:
    """Write a figure as PNG (150 dpi), SVG or PDF by the file's suffix, reproducibly; create the folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    nameless = {".png": "Software", ".svg": "Date", ".pdf": "CreationDate"}[file.suffix]
    with styled({"svg.hashsalt": "tpcsweep", "savefig.dpi": 150, "pdf.fonttype": 42}):
        figure.savefig(file, metadata={nameless: None})
        figure.set_layout_engine("none")  # the layout is done, and takes a second with many panels


def show(figure: Figure, folder: str | Path, name: str, alt: str | None = None) -> None:
    """Write a figure to a folder as PNG and SVG, and display the PNG with `alt`, by default its name."""
    from IPython.display import Image, display

    save(figure, Path(folder), name)
    width = 96 * figure.get_figwidth()
    display(Image(Path(folder) / f"{name}.png", width=width, alt=alt or name))  # type: ignore[no-untyped-call]


def as_table(frame: pd.DataFrame, *, index: bool = True) -> Any:
    """Return a pandas Styler for a page: rounded numbers, "" for NaN, and escaped HTML."""
    table = frame.style.format(_numbers(short), na_rep="", escape="html")
    for axis in ("index", "columns"):
        table = table.format_index(_numbers(plain), escape="html", axis=axis).format_index_names(
            escape="html", axis=axis
        )
    return table if index else table.hide(axis="index")


def _numbers(text: Callable[[float], str]) -> Callable[[Any], Any]:
    return lambda value: text(value) if isinstance(value, float) else value


def as_text(content: object) -> str:
    """Return Markdown that displays the text literally, with Markdown's and HTML's characters escaped."""
    signs = r"[!#$&()*+:<>@\[\\\]^_`{|}~-]"
    return re.sub(signs, lambda sign: f"&#{ord(sign[0])};", " ".join(str(content).split()))
