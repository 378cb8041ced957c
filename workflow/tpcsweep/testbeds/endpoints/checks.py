# SPDX-License-Identifier: Apache-2.0
"""Check a sweep on endpoints against the tools that work there and the user's budget."""

import math

from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.problems import Problem
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.units import COUNT, DURATION, show
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.rules import Rule, allowed_values, at_most, broken, everywhere, known_word, rounded

ABLE = ("gfal-copy", "gfal2", "curl", "native", "xrdcp", "davix-put", "davix-get", "xrdcp-direct")
ENDS = {"client": "two servers", "source": "a local source", "destination": "a local destination"}
"""Ends of a pair, by the place of the tools that copy between them."""


def check(study: SweepStudy) -> list[Problem]:
    testbed, file, grid = study.testbed, study.testbed_file, study.grid
    assert isinstance(testbed, Endpoints)
    names = [pair.name for pair in testbed.pairs]
    mixed = [pair.name for pair in testbed.pairs if len(set(testbed.logins(pair).values())) > 1]

    def one_login(tool: str, name: str) -> str | None:
        shared = tool in ("curl", "native") or name not in mixed
        return None if shared else f"curl or native: {tool} shows the same credential to both ends"

    def one_protocol(tool: str, name: str) -> str | None:
        if tool not in ABLE or name not in names:
            return None  # another rule refuses it
        [spoken], place = testbed.pair(name).protocols, testbed.pair(name).place
        able = [other for other in ABLE if (TOOLS[other].protocol, TOOLS[other].place) == (spoken, place)]
        allowed = f"{' or '.join(able)} with the {spoken} URLs of this pair ({ENDS[place]})"
        return None if tool in able else allowed

    why = f"{', '.join(ABLE)}: others need a process, or files, at the servers"
    rules = [
        known_word("pair", names),
        allowed_values("tool", ABLE, why),
        Rule(("tool", "pair"), one_protocol),
        Rule(("tool", "pair"), one_login),
        at_most("streams", testbed.max_streams, COUNT, f" (max_streams in {file})"),
        *everywhere(2**62, "any storage"),
    ]
    return [*broken(rules, study), *_budget(testbed, study, file)] if grid.cells else []


def _budget(testbed: Endpoints, study: SweepStudy, file: str) -> list[Problem]:
    grid, budget, problems = study.grid, testbed.budget, []
    most_bytes = testbed.most_bytes(grid)
    seconds = testbed.expected_seconds(grid)[1]
    if most_bytes == math.inf:
        allowed = "files, or a bandwidth for each pair of the testbed: otherwise nothing bounds the bytes"
        until = study.sweep.measurement.until
        problems.append(Problem("measurement.until", until, allowed, study.sweep_file))
    elif most_bytes > budget.bytes:
        allowed = f"at least {rounded(int(most_bytes))}, the most that the sweep moves, or a smaller sweep"
        problems.append(Problem("budget.bytes", rounded(budget.bytes), allowed, file))
    if seconds > budget.time:
        longest = show(float(round(seconds)), DURATION)
        allowed = f"at least {longest}, the longest that the sweep takes, or a smaller sweep"
        problems.append(Problem("budget.time", show(budget.time, DURATION), allowed, file))
    return problems
