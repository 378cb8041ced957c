# SPDX-License-Identifier: Apache-2.0
"""Filters and columns of the table of a page, and the parts of the page's address that they change; pure functions."""

from collections.abc import Iterable
from typing import NamedTuple

from tpcsweep.pages.contract import PageData


class Filter(NamedTuple):
    name: str  # part of the address
    label: str
    options: list[tuple[str, str]]  # values and texts


class Column(NamedTuple):
    key: str  # in the address of a sorted table
    label: str


def filters(data: PageData) -> list[Filter]:
    """Return a filter for each axis, the limits of settings and the flags."""
    limits = dict.fromkeys(data["limits"][place]["name"] for place in data["points"]["limit"] if place >= 0)
    flags = [(flag["words"], f"{flag['grade']}: {flag['words']}") for flag in data["flags"]]
    return [
        *(Filter(f"only.{axis['key']}", axis["label"], _alike(axis["values"])) for axis in data["axes"]),
        Filter("limit", "limit", _alike(limits)),
        Filter("flag", "flag", [("none", "no warning"), *flags]),
    ]


def _alike(values: Iterable[str]) -> list[tuple[str, str]]:
    return [(value, value) for value in values]


def columns(data: PageData) -> list[Column]:
    return [
        *(Column(axis["key"], axis["label"]) for axis in data["axes"]),
        Column("throughput", "Gbit/s"),
        Column("interval", data["interval"]),
        Column("limit", "limit"),
        Column("flags", "flags"),
    ]
