# SPDX-License-Identifier: Apache-2.0
"""Data that a sweep's page hands to its scripts: every name that the scripts in `pages/templates` may read.

`make lint` checks the scripts against these types. Columns have one value for each cell of the flattened grid, or for
each point, which is a cell without its repetition. Numbers are texts for people.
"""

from typing import TypedDict

Texts = list[str | None]
"""Numbers as texts; None where there is no number."""
Numbered = list[tuple[int, str]]
"""Texts of a few cells or rows, with their numbers."""
Limit = tuple[str, str, str, str]
"""Name, meaning, colour and letter of a limit; columns refer to limits by their places in `PageData`."""


class View(TypedDict):
    """A picture of all settings that a person may choose."""

    key: str
    label: str


class Axis(TypedDict):
    key: str
    label: str
    comment: str  # what it means; "" in datasets from elsewhere
    repetition: bool
    values: list[str]


class FlagWords(TypedDict):
    grade: str
    words: str
    meaning: str


class Flag(FlagWords):
    mask: int  # bit in the column `flags` of cells


class Distinct(TypedDict):
    """A column with few different texts."""

    texts: list[str]
    at: list[int]  # place of each cell's text


class Figure(TypedDict):
    key: str
    name: str
    units: str
    values: Texts


class CellColumns(TypedDict):
    value: Texts  # throughput, Gbit/s
    low: Texts
    high: Texts
    status: list[int]  # place in `PageData.states`
    flags: list[int]
    limit: list[int]  # place of the limit, or -1
    second: list[int]  # place of the second limit, or -1
    shares: list[list[list[int]]] | None  # places of limits with their percentage of the cell's time
    advice: Distinct  # remedies for the cell's limits
    message: Numbered
    figures: list[Figure]


class Points(TypedDict):
    """Columns of settings: cells with their repetitions as one."""

    value: Texts  # mean throughput, Gbit/s
    low: Texts
    high: Texts
    state: list[int]  # place in `PageData.states`
    grade: list[int]  # worst grade of the flags: 0 none, 1 note, 2 warning, 3 invalid
    limit: list[int]  # place of the limit, or -1
    path: Texts  # the path's bandwidth, Gbit/s
    quota: Texts  # cores of each side
    fitted: Texts | None
    ratio: Texts | None  # fitted over measured


class Quantity(TypedDict):
    key: str
    label: str
    chart: str  # title of the chart that it shares with quantities of the same unit
    colour: str
    units: str
    top: Texts  # highest point of each cell
    bytes: str  # base64, one byte for each point of each cell


class Series(TypedDict):
    points: int  # of each cell; 0 if the page has no series
    step: float  # from one point to the next, seconds
    step_text: str
    gap: int  # byte of a point without a sample; those below it are levels, the highest one at `top`
    quantities: list[Quantity]  # the goodput first
    absent: str  # the sentence in place of the chart of a cell without points


class Transfers(TypedDict):
    counts: list[int]  # of each cell
    most: int  # transfers of a cell that are listed
    stream: list[int]
    ok: list[int]
    start: Texts
    end: Texts
    rate: Texts
    message: Numbered


class Again(TypedDict):
    """Commands and files of cells that can be measured again."""

    folder: str
    command: str
    deployments: list[str]
    deployment: list[int]  # place of each cell's deployment
    cell: list[str]  # path of each cell, or "" outside the sweep
    logs: list[bool]  # whether the logs of each deployment exist
    files: list[bool]


class Plan(TypedDict):
    most: float  # highest throughput that the setting is sure to reach, Gbit/s
    assured: str  # the same as text
    expected: str
    setting: str


class OtherAxis(TypedDict):
    name: str
    values: list[str]


class Plans(TypedDict):
    """Tables of plans, for each value of other axes and each RTT: the cheapest setting first."""

    rtts: list[float]  # ms
    others: list[OtherAxis]
    tables: list[list[Plan]]
    measured: list[str]  # what is measured under the conditions of each table
    probability: str


class Change(TypedDict):
    """A row of a forest plot: factor of the throughput between the first and the last value of an axis."""

    words: str
    ratio: float
    low: float | None
    high: float | None
    times: str
    interval: str
    pairs: int
    text: str


class EffectRow(Change):
    """The effect of a setting inside blocks; `pairs` are blocks."""

    measure: str
    verdict: str
    drawn: bool  # whether the forest plot has it


class SettingEffects(TypedDict):
    """The effects of settings, with the wanted ratio of throughput."""

    over: str  # the values that others are compared with
    wanted: float
    rows: list[EffectRow]
    notes: list[str]


class KeptRun(TypedDict):
    time: str  # ISO 8601
    ratio: float | None  # mean of all cells over that before the first change
    differs: bool  # whether its settings or software differ from those of the run before
    text: str


class KeptChange(TypedDict):
    time: str
    verdict: str


class History(TypedDict):
    """Data of a history's charts; columns of cells have one value for each run."""

    runs: list[KeptRun]
    changes: list[KeptChange]
    levels: list[float | None]  # mean ratios before, between and after changes
    cells: list[list[float | None]]  # ratios to each shown cell's own mean
    span: list[float]  # of all cells' ratios, also of those that are not shown


class Sparkline(TypedDict):
    """Mean throughput over one axis, of a sweep in the list of all sweeps."""

    axis: str
    values: list[str]
    rates: list[float | None]  # Gbit/s


class LinkMatrix(TypedDict):
    """Links of a mesh at their best settings; columns have one value for each link."""

    sources: list[str]
    destinations: list[str]
    sends: list[str]  # mark of each source's verdict, or ""
    receives: list[str]
    source: list[int]  # place of each link's source
    destination: list[int]
    value: Texts  # throughput, Gbit/s
    mark: list[str]  # of the link's verdict, or ""
    text: list[str]  # lines about the link


class PageData(TypedDict):
    views: list[View]
    interval: str  # what the ends of a throughput are, for the head of a column
    states: list[str]  # of cells and settings; the last one is that of a setting outside of the sweep
    axes: list[Axis]
    x: int  # axis across, or -1
    y: int  # axis with a line for each value, and up in maps, or -1
    columns: int  # axis of the columns of panels, or -1; all other axes are in their rows
    flags: list[Flag]  # those that a cell carries
    limits: list[Limit]
    cells: CellColumns
    points: Points
    series: Series
    transfers: Transfers
    plans: Plans | None
    links: LinkMatrix | None
    again: Again | None
