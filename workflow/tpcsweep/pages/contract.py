# SPDX-License-Identifier: Apache-2.0
"""Data that a sweep's page hands to its scripts: every name that the scripts in `pages/templates` may read.

`make lint` checks the scripts against these types. Columns have one value for each point of the flattened grid, which
is a setting: all repetitions as one; or for each cell, and those of a setting follow each other. Numbers are texts
for people.
"""

from typing import TypedDict

Texts = list[str | None]
"""Numbers as texts; None where there is no number."""
Numbered = list[tuple[int, str]]
"""Texts of a few cells or rows, with their numbers."""


class Limit(TypedDict):
    """A limit; columns refer to it by its place in `PageData`."""

    name: str
    meaning: str
    letter: str
    colour: str
    on_dark: str  # colour on dark pages


class Axis(TypedDict):
    """An axis with several values, other than that of repetitions."""

    key: str
    label: str
    words: bool  # read from above like a table; numbers grow upwards
    values: list[str]


class FlagWords(TypedDict):
    grade: str
    words: str
    meaning: str


class Distinct(TypedDict):
    """A column with few different texts."""

    texts: list[str]
    at: list[int]  # place of each text


class SettingFlag(TypedDict):
    flag: int  # place in `PageData.flags`
    share: str  # in how many of the setting's repetitions the flag is, unless it is in all


class SettingFlags(Distinct):
    """A column with few different sets of flags; texts are for a row of the table."""

    sets: list[list[SettingFlag]]


class Figure(TypedDict):
    key: str
    name: str  # with its unit
    values: Texts


class Rates(TypedDict):
    """Throughput with the ends of its interval, Gbit/s."""

    value: Texts
    low: Texts
    high: Texts


class CellColumns(Rates):
    status: list[int]  # place in `PageData.states`
    marks: Distinct  # flags, and whether the cell is not in the mean of its setting
    counts: list[int]  # 1 for cells that count in the mean of their setting
    limit: list[int]  # place of the limit, or -1
    message: Numbered
    started: Texts | None  # times of the start of cells, UTC
    figures: list[Figure]


class Points(Rates):
    """Columns of settings, which `data.repetitions` defines."""

    half: Texts  # half-width of the interval, percent of the throughput
    state: list[int]  # place in `PageData.states`
    flags: SettingFlags
    grade: list[int]  # worst grade of the flags: 0 none, 1 note, 2 warning, 3 invalid
    limit: list[int]  # place of the limit, or -1
    second: list[int]  # place of the second limit, or -1
    shares: list[list[list[int]]] | None  # places of limits with their percentage of the setting's time
    paused: Texts | None
    """Percentage of a setting's time that pauses of servers took, if that is a tenth or more."""
    advice: Distinct  # remedies for the setting's limits
    machine: Distinct | None  # how quiet the machine was, or the hosts
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
    gap: int  # byte of a point without a sample; those below it are levels, the highest one at `top`
    quantities: list[Quantity]  # the goodput first
    explained: str  # sentence below the charts
    absent: str  # the sentence in place of the charts of a cell without points


class Transfers(TypedDict):
    counts: list[int]  # of each cell
    most: int  # transfers of a cell that are listed
    stream: list[int]
    start: Texts
    end: Texts
    rate: Texts
    failures: Numbered


class Again(TypedDict):
    """Commands and files of cells that can be measured again."""

    results: str  # the folder in which the sweep was measured
    command: str
    deployments: list[str]
    deployment: list[int]  # place of each cell's deployment
    cell: list[str]  # path of each cell, or "" outside the sweep
    log_folders: list[str]  # of each deployment, in the folder of results
    logs: list[bool]  # whether these exist next to the page
    files: list[bool]


class Answer(TypedDict):
    """A setting or a statement, and the rest of the sentence."""

    setting: str
    text: str


class Plan(Answer):
    most: float  # highest throughput that the setting is sure to reach, Gbit/s


class PlanTable(TypedDict):
    plans: list[Plan]  # the cheapest setting first
    otherwise: Answer  # to targets that no setting reaches


class OtherAxis(TypedDict):
    name: str
    values: list[str]


class Plans(TypedDict):
    """Tables of plans, for each value of other axes and each RTT."""

    rtts: list[float]  # ms
    others: list[OtherAxis]
    tables: list[PlanTable]
    beyond: str  # the answer for larger RTTs


class Change(TypedDict):
    """A row of a forest plot: factor of the throughput between the first and the last value of an axis."""

    words: str
    ratio: float
    low: float | None
    high: float | None
    times: str
    interval: str
    pairs: int
    each: str  # factor for each doubling of the axis' value, or halving; "" if there is one at most
    text: str


class EffectRow(Change):
    """The effect of a value of a setting inside blocks, in all cells or at one value of an axis; `pairs` are blocks."""

    setting: str
    value: str
    axis: str  # "" for all cells
    at: str
    measure: str
    verdict: str
    drawn: bool  # whether the forest plot has it


class SettingEffects(TypedDict):
    """The effects of settings, with the wanted ratio of throughput."""

    headline: str  # the effects in a few sentences
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
    """Data of a history's chart."""

    runs: list[KeptRun]
    changes: list[KeptChange]
    levels: list[float | None]  # mean ratios before, between and after changes


class Sparkline(TypedDict):
    """Mean throughput over one axis, of a sweep in the list of all sweeps."""

    axis: str
    values: list[str]
    rates: list[float | None]  # Gbit/s


class Link(TypedDict):
    """A link of a mesh at its best setting."""

    source: int  # place in `LinkMatrix.sources`
    destination: int
    rate: float | None  # throughput, Gbit/s
    value: str  # the same as text, or ""
    mark: str  # of its verdict, or ""
    compared: bool  # whether it has a colour
    text: str  # lines about it
    about: str  # what the comparison of links says of it beyond its cell, or ""


class SiteRow(TypedDict):
    """A site of a mesh; its throughput over that of the middle half of the others, with interval and links, or ""."""

    site: str
    sends: str
    receives: str


class LinkMatrix(TypedDict):
    sources: list[str]  # with the marks of their verdicts
    destinations: list[str]
    links: list[Link]


class PageData(TypedDict):
    views: dict[str, str]  # labels of the pictures of all settings that a person may choose
    start: dict[str, str]  # the view, and the axes of the places x, y and columns, of a page without choices
    interval: str  # what the ends of a throughput are, for the head of a column
    no_interval: str  # why a cell has none, or ""
    wide: float  # half-width over the mean from which an interval is wide
    scatter: str  # scatter that the interval of a mean contains, in a sentence
    states: list[str]  # of cells and settings; the last one is that of a setting outside of the sweep
    warned: str  # which sections use settings with a warning
    pause: str  # reason of a setting's pauses
    axes: list[Axis]
    repetitions: list[str]
    flags: list[FlagWords]  # those that a cell carries
    limits: list[Limit]
    cells: CellColumns
    points: Points
    series: Series
    transfers: Transfers
    plans: Plans | None
    links: LinkMatrix | None
    again: Again | None
