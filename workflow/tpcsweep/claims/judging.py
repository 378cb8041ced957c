# SPDX-License-Identifier: Apache-2.0
"""All claims, made of their YAML files, and the verdicts on them for a dataset."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import xarray as xr

from tpcsweep import claims
from tpcsweep.claims import predicates
from tpcsweep.claims.base import FUNCTIONS, Claim, Need, Verdict, judge_claim
from tpcsweep.claims.cells import claim_cells
from tpcsweep.claims.effects import ABOUT, REGIONS, Region, about_region
from tpcsweep.claims.publications import publications

for _module in iter_modules(claims.__path__):
    import_module(f"{claims.__name__}.{_module.name}")  # registers its functions for claims

_REGION_OF: Mapping[str, Callable[[float], Region]] = {
    "about": about_region,
    "at_least": lambda figure: Region(low=figure),
    "at_least_about": lambda figure: Region(low=figure / ABOUT),
    "at_most": lambda figure: Region(high=figure),
    "reached": predicates.target_region,
    "short_of": lambda figure: Region(high=predicates.target_region(figure).low),
}


def _claims(publication: str, content: Mapping[str, Any]) -> Iterator[Claim]:
    for name, entry in content["claims"].items():
        given = entry.get("regions", {"region": entry["region"]} if "region" in entry else {})
        regions = {key: _region(value) for key, value in given.items()}
        yield Claim(
            f"{publication}.{name}",
            text=entry["published"],
            reading=entry["tested"].format(**regions),
            source=f"{content['publication']}, {entry['source']}",
            needs=tuple(need for axis in entry.get("needs", {}).items() for need in _needs(*axis)),
            cells=entry.get("cells", ""),
            regions=regions,
            test=_function(entry.get("test")),
            **{key: entry.get(key, "") for key in ("beyond", "advice", "elsewhere")},
            rows=_rows(entry.get("rows", ())),
        )


def _region(given: Any) -> Region:
    match given:
        case str(word):
            return REGIONS[word]
        case [low, high]:
            return Region(low, high)
    [(kind, figure)] = given.items()
    return _REGION_OF[kind](figure)


def _needs(axis: str, given: list[Any]) -> Iterator[Need]:
    values, *required = given
    sweep = f"{axis}: {values}"
    words: list[frozenset[str]] = []
    for requirement in required:
        match requirement:
            case int(count):
                yield Need(axis, count, sweep=sweep)
            case str(word):
                words.append(frozenset([word]))
            case [str(), *_]:
                words.append(frozenset(requirement))
            case [low, high, *count]:
                yield Need(axis, sum(count) or 1, low, high, sweep=sweep)
    if words:
        yield Need(axis, words=tuple(words), sweep=sweep)


def _function(given: Any) -> Callable[..., Any] | None:
    if isinstance(given, dict):
        [(name, settings)] = given.items()
        return partial(FUNCTIONS[name], **settings)
    return given and FUNCTIONS[given]


def _rows(given: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(FUNCTIONS[given]() if isinstance(given, str) else given)


CLAIMS: Mapping[str, Claim] = {
    claim.name: claim for each in publications().items() for claim in _claims(*each)
}
"""Claims by identifier."""


def judge(ds: xr.Dataset, names: Iterable[str] = CLAIMS) -> list[Verdict]:
    """Return the verdicts on claims for a dataset. Raises KeyError without throughput, or if a claim is unknown."""
    cells = claim_cells(ds)
    return [judge_claim(CLAIMS[name], ds, cells) for name in names]
