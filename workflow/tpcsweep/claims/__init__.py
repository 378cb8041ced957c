# SPDX-License-Identifier: Apache-2.0
"""Published claims as predicates on a dataset, with verdicts from "holds" to "not testable".

`docs/published.md` explains the reading of each claim. A claim is an entry in the YAML file of its publication, and one
line in `configuration/testbeds.py`. An entry contains:

- source, published: place of the statement in the publication, and its text
- tested: the tested statement; {region} or the names of `regions` are replaced by the regions
- needs: for each axis or fixed parameter: the values to write into a sweep, then requirements. A requirement is a
  number of values, a range with at least one value ([low, high] or [low, high, count]), a word, or a list of words of
  which the dataset must have one
- cells: pandas query for the cells of the claim (`cells.CellTable` lists the columns)
- region, regions: effects for which the claim is true: a word of `effects.REGIONS`, [low, high], or a function of
  `_REGION_OF` with its figure
- test: function of `predicates`, `chep` or `earlier`, alone or with its settings
- beyond, advice: instead of a test: why no dataset can show it, and which measurement would
- elsewhere: where it is judged, or why it is not, if no published figure carries it
- rows: evidence that does not depend on a dataset
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, get_args

import xarray as xr

from tpcsweep.claims import chep, earlier, predicates
from tpcsweep.claims.base import Claim, Need, Outcome, Verdict, judge_claim
from tpcsweep.claims.cells import claim_cells
from tpcsweep.claims.effects import ABOUT, REGIONS, Region, about_region
from tpcsweep.configuration.problems import read_yaml
from tpcsweep.configuration.testbeds import ClaimName
from tpcsweep.installation import PACKAGE

__all__ = ["CLAIMS", "Claim", "Outcome", "Verdict", "judge"]

_REGION_OF: Mapping[str, Callable[[float], Region]] = {
    "about": about_region,
    "at_least": lambda figure: Region(low=figure),
    "at_least_about": lambda figure: Region(low=figure / ABOUT),
    "at_most": lambda figure: Region(high=figure),
    "reached": predicates.target_region,
    "short_of": lambda figure: Region(high=predicates.target_region(figure).low),
}
_TESTS: Mapping[str, Callable[..., Any]] = {**vars(predicates), **vars(chep), **vars(earlier)}


def _claims(publication: str) -> Iterator[Claim]:
    file = PACKAGE / f"claims/{publication}.yaml"
    content = read_yaml(file, file.name)
    for name, entry in content["claims"].items():
        given = entry.get("regions", {"region": entry["region"]} if "region" in entry else {})
        regions = {key: _region(value) for key, value in given.items()}
        full_name = f"{publication}.{name}"
        yield Claim(
            full_name,
            text=entry["published"],
            reading=entry["tested"].format(**regions),
            source=f"{content['publication']}, {entry['source']}",
            needs=tuple(need for axis in entry.get("needs", {}).items() for need in _needs(*axis)),
            cells=entry.get("cells", ""),
            regions=regions,
            test=_test(entry.get("test")),
            **{key: entry.get(key, "") for key in ("beyond", "advice", "elsewhere")},
            rows=earlier.ROWS.get(full_name, tuple(entry.get("rows", ()))),
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


def _test(given: Any) -> Callable[..., Any] | None:
    if isinstance(given, dict):
        [(name, settings)] = given.items()
        return partial(_TESTS[name], **settings)
    return given and _TESTS[given]


_PUBLICATIONS = dict.fromkeys(name.partition(".")[0] for name in get_args(ClaimName))
CLAIMS: Mapping[str, Claim] = {
    claim.name: claim for publication in _PUBLICATIONS for claim in _claims(publication)
}
"""Claims by identifier."""


def judge(ds: xr.Dataset, claims: Iterable[str] = CLAIMS) -> list[Verdict]:
    """Return the verdicts on claims for a dataset. Raises KeyError without throughput, or if a claim is unknown."""
    cells = claim_cells(ds)
    return [judge_claim(CLAIMS[name], ds, cells) for name in claims]
