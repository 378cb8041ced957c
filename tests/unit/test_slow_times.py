# SPDX-License-Identifier: Apache-2.0
"""Slow links of a mesh that were measured in the same minute are one event; those of other times are links."""

from collections.abc import Mapping

import numpy as np
import pytest
import xarray as xr
from tpcsweep.analysis.links.headline import headline
from tpcsweep.analysis.links.same_time import CAUSE, slow_times
from tpcsweep.analysis.links.sentences import sentences

from tests.support import meshes

SITES = meshes.names(8)
NOON = np.datetime64("2026-05-04T12:00:00", "ns")
SLOW = [("S01", "S02"), ("S03", "S04"), ("S05", "S06"), ("S07", "S08")]


def mesh(seconds: Mapping[tuple[str, str], float], repetitions: int = 1) -> xr.Dataset:
    """A mesh of eight sites in rounds of four links, a minute and a half each, with four slow links.

    Slow links begin at the given seconds after noon, the others in their rounds; a repetition follows hours later.
    """
    truth = meshes.truth(SITES, 1, site_spread=0.03, pair_spread=0.02, links=dict.fromkeys(SLOW, 0.4))
    made = meshes.measured(truth.logs, SITES, 1)
    made = xr.concat(
        [made.assign_coords(repetition=[1 + number]) for number in range(repetitions)], "repetition"
    )
    made = made.transpose("source", "destination", "streams", "repetition")
    starts = np.full(made["throughput"].shape, NOON)
    links = [(one, other) for one in SITES for other in SITES if one != other]
    for number, link in enumerate(links):
        at = seconds.get(link, 600.0 + 90 * (number // 4))
        place = tuple(map(SITES.index, link))
        for again in range(repetitions):
            starts[(*place, slice(None), again)] = NOON + np.timedelta64(int(at + 7200 * again), "s")
    return made.assign(started=(made["throughput"].dims, starts))


def test_slow_links_of_one_minute_are_said_once_with_their_time() -> None:
    found = meshes.found_in(mesh(dict(zip(SLOW, [185, 190, 200, 241], strict=True))))
    assert meshes.named(found) == set(SLOW)
    [event] = slow_times(found)
    assert {(link.source, link.destination) for link in event.links} == set(SLOW)
    [about] = [text for text in sentences(found) if "S01 → S02" in text]
    assert about.startswith("4 slow links were all measured between 12:03 and 12:04 UTC: ")
    assert all(f"{one} → {other} (0." in about for one, other in SLOW) and about.endswith(CAUSE)
    assert "4 slow links were all measured between 12:03 and 12:04 UTC" in headline(found)
    assert "alone is slow" not in headline(found)


@pytest.mark.parametrize(
    ("seconds", "repetitions"),
    [
        ([185, 1000, 2000, 3000], 1),  # at other times
        ([185, 190, 1000, 2000], 1),  # two are close by chance
        ([185, 190, 200, 241], 2),  # a second measurement hours later is as slow
    ],
)
def test_slow_links_of_several_times_are_named_each(seconds: list[float], repetitions: int) -> None:
    found = meshes.found_in(mesh(dict(zip(SLOW, seconds, strict=True)), repetitions))
    assert not slow_times(found)
    assert sum("alone is slow" in text for text in sentences(found)) == 4


def test_slow_links_among_many_of_their_time_are_no_event() -> None:
    """All links of a mesh that is measured within a minute have the same time."""
    made = mesh({})
    assert not slow_times(
        meshes.found_in(made.assign(started=made["started"].copy(data=np.full_like(made["started"], NOON))))
    )
    assert not slow_times(meshes.found_in(made.drop_vars("started")))
