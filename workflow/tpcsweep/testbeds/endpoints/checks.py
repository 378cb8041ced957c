# SPDX-License-Identifier: Apache-2.0
"""Check a sweep on endpoints against the tools that work there and the user's budget."""

import math
from pathlib import Path

from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.link_goals import read_goals
from tpcsweep.sweeps.parameters import LINK, Parameters
from tpcsweep.sweeps.problems import ConfigurationError, Problem, quoted, suggest
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.units import COUNT, DURATION, show
from tpcsweep.testbeds.endpoints.pairs import Site
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.rules import Rule, allowed_values, at_most, broken, everywhere, known_word, rounded

ABLE = (
    "gfal-copy",
    "gfal2",
    "curl",
    "native",
    "xrdcp-http",
    "xrdcp",
    "davix-put",
    "davix-get",
    "xrdcp-direct",
)
BOTH_LOGINS = ("curl", "native", "xrdcp-http")  # tools that show each end its own credential
PAIR = ("pair", *LINK)
"""Coordinates of a pair."""
ENDS = {"client": "two servers", "source": "a local source", "destination": "a local destination"}
"""Ends of a pair, by the place of the tools that copy between them."""


def check(study: SweepStudy) -> list[Problem]:
    testbed, file, grid = study.testbed, study.testbed_file, study.grid
    assert isinstance(testbed, Endpoints)
    mixed = {pair.name for pair in testbed.all_pairs if len(set(testbed.logins(pair).values())) > 1}

    def one_login(tool: str, *at: str) -> str | None:
        pair = testbed.find(*at)
        shared = tool in BOTH_LOGINS or pair is None or pair.name not in mixed
        return (
            None if shared else f"{' or '.join(BOTH_LOGINS)}: {tool} shows the same credential to both ends"
        )

    def one_protocol(tool: str, *at: str) -> str | None:
        if tool not in ABLE or not (pair := testbed.find(*at)):
            return None  # another rule refuses it
        [spoken], place = pair.protocols, pair.place
        able = [other for other in ABLE if (TOOLS[other].protocol, TOOLS[other].place) == (spoken, place)]
        allowed = f"{' or '.join(able)} with the {spoken} URLs of this pair ({ENDS[place]})"
        return None if tool in able else allowed

    why = f"{', '.join(ABLE)}: others need a process, or files, at the servers"
    rules = [
        *_known_pairs(testbed),
        allowed_values("tool", ABLE, why),
        Rule(("tool", *PAIR), one_protocol),
        Rule(("tool", *PAIR), one_login),
        *_streams(testbed, file),
        *everywhere(2**62, "any storage"),
    ]
    if not grid.cells:
        return []
    return [*broken(rules, study), *_budget(testbed, study, file), *_goals(testbed, study, file)]


def _known_pairs(testbed: Endpoints) -> list[Rule]:
    if not testbed.sites:
        names = [pair.name for pair in testbed.all_pairs]
        return [known_word("pair", names), *(known_word(name, ["only"]) for name in LINK)]

    def link(*at: str) -> str | None:
        return None if testbed.find("only", *at) else "a link of this testbed"

    names = [site.name for site in testbed.sites]
    return [known_word("pair", ["only"]), *(known_word(name, names) for name in LINK), Rule(LINK, link)]


def _goals(testbed: Endpoints, study: SweepStudy, file: str) -> list[Problem]:
    """Return the errors of the table of goals."""
    for table in testbed.goal_tables:
        try:
            read_goals(Path(table), {name: map(str, study.grid.axes[name]) for name in LINK})
        except ConfigurationError as error:
            return [*error.problems]
        except OSError as error:
            return [Problem("goals", quoted(table), f"a CSV file ({error.strerror})", file)]
    return []


def _streams(testbed: Endpoints, file: str) -> list[Rule]:
    """Limit the streams of each end, background traffic included."""
    largest = max([*(site.max_streams or 0 for site in testbed.sites), testbed.max_streams])

    def of_ends(streams: int, beside: str, *at: str) -> str | None:
        if streams > largest or testbed.find(*at) is None or not _known(testbed, beside):
            return None  # another rule refuses it
        pair, source, destination = at
        wanted = Parameters(pair=pair, source=source, destination=destination, beside=beside)
        if (found := testbed.crowded(wanted, streams)) is None:
            return None
        end, count, most = found
        where = f"site {end.name}" if isinstance(end, Site) else end.urls[0]
        more = f"; it has {count} with the background traffic" if count > streams else ""
        return f"at most {most} at {where} (max_streams in {file}){more}"

    def beside(word: str, *at: str) -> str | None:
        if not _known(testbed, word):
            return suggest(word, ["none", "reverse", *testbed.beside])
        pair = testbed.find(*at)
        return (
            f"none: {pair.name} has a local folder"
            if pair and word != "none" and pair.place != "client"
            else None
        )

    return [
        at_most("streams", largest, COUNT, f" (max_streams in {file})"),
        Rule(("streams", "beside", *PAIR), of_ends),
        Rule(("beside", *PAIR), beside),
    ]


def _known(testbed: Endpoints, beside: str) -> bool:
    return beside in ("none", "reverse", *testbed.beside)


def _budget(testbed: Endpoints, study: SweepStudy, file: str) -> list[Problem]:
    grid, budget, problems = study.grid, testbed.budget, []
    if budget.rotate:
        large = [path for path in grid.deployments if not testbed.affordable(grid, [path])]
        allowed = (
            f"budgets of which each allows the bytes and the longest time of {large[0]}" if large else ""
        )
        return [Problem("budget", "too little for one link", allowed, file)] if large else []
    most_bytes = testbed.most_bytes(grid)
    seconds = testbed.expected_seconds(grid)[1]
    if most_bytes == math.inf:
        allowed = "files, or a bandwidth for each pair of the testbed: otherwise nothing bounds the bytes"
        until = study.sweep.measurement.until
        problems.append(Problem("measurement.until", until, allowed, study.sweep_file))
    elif most_bytes > budget.bytes:
        allowed = f"at least {rounded(int(most_bytes))}, the most that the sweep moves, or a smaller sweep"
        problems.append(Problem("budget.bytes", rounded(budget.bytes), allowed, file))
    for use in testbed.uses(grid) if most_bytes < math.inf else ():
        if use.budget is not None and use.bytes > use.budget:
            allowed = (
                f"at least {rounded(int(use.bytes))}, the most that the sweep moves from and to this site"
            )
            problems.append(Problem(f"budget of site {use.name}", rounded(use.budget), allowed, file))
    if seconds > budget.time:
        longest = show(float(round(seconds)), DURATION)
        allowed = f"at least {longest}, the longest that the sweep takes, or a smaller sweep"
        problems.append(Problem("budget.time", show(budget.time, DURATION), allowed, file))
    return problems
