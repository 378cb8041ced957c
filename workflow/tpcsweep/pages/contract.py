# SPDX-License-Identifier: Apache-2.0
"""Data that a sweep's page hands to its script: every name that `pages/templates/page.js` may read.

The script reads these names only, and a name that is missing here is an error there. Columns have one value for each
cell of the flattened grid, or for each point, which is a cell without its repetition. Numbers are texts for people.
"""

from collections.abc import Mapping
from typing import Any, TypedDict

Texts = list[str | None]
"""Numbers as texts; None where there is no number."""
Numbered = list[tuple[int, str]]
"""Texts of a few cells or rows, with their numbers."""
Limit = tuple[str, str, str, str]
"""Name, meaning, colour and letter of a limit; columns refer to limits by their places in `PageData`."""


class Axis(TypedDict):
    label: str
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
    status: list[int]  # place in `data.labels.STATUS`
    flags: list[int]
    limit: list[int]  # place of the limit, or -1
    second: list[int]  # place of the second limit, or -1
    shares: list[list[list[int]]] | None  # places of limits with their percentage of the cell's time
    advice: Distinct  # remedies for the cell's limits
    message: Numbered
    figures: list[Figure]


class Points(TypedDict):
    value: Texts
    fitted: Texts | None
    ratio: Texts | None  # fitted over measured


class Series(TypedDict):
    points: int  # of each cell; 0 if the page has no series
    step: float  # from one point to the next, seconds
    step_text: str
    top: Texts  # highest point of each cell, Gbit/s
    gap: int  # byte of a point without a sample; those below it are levels, the highest one at `top`
    bytes: str  # base64, one byte for each point of each cell
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


class PageData(TypedDict):
    axes: list[Axis]
    x: int  # axis across, or -1
    y: int  # axis up, or -1
    facets: list[int]  # axes of the panels
    flags: list[Flag]
    limits: list[Limit]
    cells: CellColumns
    points: Points
    series: Series
    transfers: Transfers
    plans: Mapping[str, Any] | None  # of `forecast`
    again: Again | None
