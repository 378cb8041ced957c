# SPDX-License-Identifier: Apache-2.0
"""Fast sites and links of a mesh, and links that waited for a server, next to slow ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import xarray as xr
from tpcsweep.analysis.links import handing_over, matrix_plots
from tpcsweep.analysis.links.goals import judge_goals
from tpcsweep.analysis.links.headline import headline
from tpcsweep.analysis.links.sentences import link_matrix, sentences
from tpcsweep.sweeps.link_goals import read_goals

from tests.support import meshes

SITES = meshes.names(6)


@pytest.mark.parametrize("count", [4, 6, 12])
def test_fast_sites_and_links_are_named_and_make_no_others_slow(count: int) -> None:
    sites, link = meshes.names(count), ("S03", "S04")
    links = {link: 3.0} if count > 4 else {}
    truth = meshes.truth(sites, 1, receives={"S02": 2.5}, links=links, site_spread=0.03, pair_spread=0.02)
    found = meshes.found_in(meshes.measured(truth.logs, sites, 1))
    assert meshes.named(found, "fast") == {("receives", "S02"), *links} and not meshes.named(found)
    text = headline(found)
    assert text.startswith("Site S02 receives 2.") and "limits it" not in text
    assert text.count("S03 → S04 alone is fast: ") == len(links)
    matrix = link_matrix(found)
    marks = [link["mark"] for link in matrix["links"]]
    assert matrix["destinations"][1].endswith(" ▲") and marks.count("▲") == len(links)


def test_a_few_slow_sites_make_no_others_fast() -> None:
    truth = meshes.truth(SITES, 1, sends={"S02": 0.3, "S03": 0.3}, site_spread=0.03, pair_spread=0.02)
    found = meshes.found_in(meshes.measured(truth.logs, SITES, 1))
    assert meshes.named(found) == {("sends", "S02"), ("sends", "S03")} and not meshes.named(found, "fast")


def test_a_link_that_waited_for_a_server_is_marked_and_not_called_slow(tmp_path: Path) -> None:
    truth = meshes.truth(SITES, 4, site_spread=0.02, pair_spread=0.02)
    plain = meshes.measured(truth.logs, SITES, 4)
    made = meshes.waited(plain, "S01", "S03", 0.003)
    missing = meshes.measured(truth.logs, SITES, 4, missing=[("S01", "S03")])
    found, without = meshes.found_in(made), meshes.found_in(missing)
    assert meshes.named(found, "waited") == {("S01", "S03")} and not meshes.named(found)
    assert found.sites == without.sites, "its rate has no part in the model"
    assert "29 of 30 links are within chance of the expectation, 1 waited for Retry-After." in headline(found)
    text = " ".join(sentences(found))
    assert (
        "Links that waited for Retry-After, so that pauses made their rate, are not compared: "
        "S01 → S03 (0.003 Gbit/s). The slowest link that is compared: " in text
    )
    place = [link.verdict for link in found.links].index("waited")
    link = link_matrix(found)["links"][place]
    assert (link["mark"], link["value"], link["compared"]) == ("‖", "0.003", False)
    assert link["text"] == "S01 → S03\n0.003 Gbit/s\nwaited for Retry-After: not compared"
    goals = tmp_path / "goals.csv"
    goals.write_text("source,destination,Gbit/s\nS01,S03,1\n")
    [goal] = judge_goals(made, read_goals(goals, {"source": SITES, "destination": SITES}))
    assert (goal.verdict, goal.reason) == ("not decided", "waited for Retry-After")
    [setting] = [
        each
        for each in handing_over.link_recommendations(made, rtt=20)[0]
        if (each.source, each.destination) == ("S01", "S03")
    ]
    assert setting.origin == handing_over.BY_LAW and setting.throughput > 1
    drawn = matrix_plots.matrix(made)
    legend = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert "waited for Retry-After, not compared" in legend
    once = meshes.waited(plain.sel(streams=4, drop=False), "S01", "S03", 0.003)
    other = plain.sel(streams=1, drop=False)
    partly = xr.concat([other, once], "streams").transpose(*plain["throughput"].dims)
    assert not meshes.named(meshes.found_in(partly.assign_attrs(plain.attrs)), "waited"), (
        "another setting did not wait"
    )
