# SPDX-License-Identifier: Apache-2.0
"""Goals of links: the rates that they must reach, from a table, and a verdict for each.

A goal is reached if some setting's mean is above it, and not reached if the means of all settings are below it, by
one-sided Student's t tests at 5 % over all goals together: Bonferroni over the settings of a link, Holm over links
(for errors of direction J. P. Shaffer, Annals of Statistics 8, 1980). The variance of a mean is that of its intervals,
of luck of the cell in its run, and of luck that the run shares.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr
from scipy import stats

from tpcsweep.analysis.history.runs import FOLDER, read_kept_runs
from tpcsweep.analysis.holm import holm
from tpcsweep.analysis.links.link_rates import link_settings, require_mesh, waited_rates
from tpcsweep.analysis.links.sentences import WAITED_LABEL, interval_note
from tpcsweep.common.numbers import CONFIDENCE, between, counted, json_number, short
from tpcsweep.data.labels import STATUS
from tpcsweep.data.opening import load
from tpcsweep.data.scatter import SHARED
from tpcsweep.data.variables import LIMIT_NAMES
from tpcsweep.pages.machine_load import cells_on_full_machine
from tpcsweep.sweeps.link_goals import Goal, read_goals
from tpcsweep.sweeps.parameters import LINK, link_text

Verdict = Literal["reached", "not reached", "not decided"]


@dataclass(frozen=True)
class GoalResult:
    """The verdict on a goal, with the setting that decides it: the fewest streams that reach it, or the fastest."""

    goal: Goal
    verdict: Verdict
    throughput: float = math.nan  # mean of the setting, Gbit/s
    low: float = math.nan
    high: float = math.nan
    probability: float = math.nan  # that one measurement of the setting reaches the goal
    streams: float = math.nan
    assumed: bool = False  # whether the setting's cells have no interval, so that a typical one stands for it
    limit: str = ""
    reason: str = ""  # why there is no verdict
    before: str = ""  # another verdict of the last run with one, and its date
    full_machine: bool = (
        False  # whether a cell of a link that does not reach its goal was measured on a full machine
    )

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        numbers = ("throughput", "low", "high", "probability", "streams")
        return {
            **vars(self.goal),
            **{name: value for name, value in vars(self).items() if name != "goal"},
            **{name: json_number(getattr(self, name)) for name in numbers},
        }


def judge_goals(summary: xr.Dataset, goals: Sequence[Goal]) -> list[GoalResult]:
    """Return the verdict on each goal of a mesh."""
    settings = link_settings(summary)
    links = {(str(at[0]), str(at[1])): rows for at, rows in settings.groupby([*LINK], sort=False)}
    measured = [goal for goal in goals if (goal.source, goal.destination) in links]
    tests = [_tests(links[goal.source, goal.destination], goal) for goal in measured]
    smallest = np.array([min(_both(rows)) for rows in tests])
    corrected = holm(smallest)
    results = {
        goal: _judged(goal, rows, bool(p < 1 - CONFIDENCE))
        for goal, rows, p in zip(measured, tests, corrected, strict=True)
    }
    waited = waited_rates(summary)

    def unknown(goal: Goal) -> GoalResult:
        has_waited = (goal.source, goal.destination) in waited
        reason = WAITED_LABEL if has_waited else "no usable measurement"
        return GoalResult(goal, "not decided", reason=reason)

    full = links_on_full_machine(summary)

    def result(goal: Goal) -> GoalResult:
        found = results.get(goal) or unknown(goal)
        doubtful = found.verdict != "reached" and (goal.source, goal.destination) in full
        return replace(found, full_machine=doubtful)

    return [result(goal) for goal in goals]


def links_on_full_machine(summary: xr.Dataset) -> set[tuple[str, str]]:
    full = (summary["status"] == STATUS.index("ok")) & cells_on_full_machine(summary)
    links = full.any([name for name in full.dims if name not in LINK]).transpose(*LINK)
    sources, destinations = (links[name].values.astype(str).tolist() for name in LINK)
    return {(sources[at], destinations[to]) for at, to in np.argwhere(links.values).tolist()}


def _tests(settings: pd.DataFrame, goal: Goal) -> pd.DataFrame:
    """Add to the settings of a link the p-values of a mean at the goal, and the probability to reach it once."""
    distance = settings["log"] - math.log(goal.rate)
    freedom = settings["freedom"].clip(lower=1.0)
    t = distance / np.sqrt(settings["variance"] + SHARED**2)
    once = distance / np.sqrt(settings["variance"] + settings["single"] + 2 * SHARED**2)
    return settings.assign(
        t=t,
        error=np.sqrt(settings["variance"] + SHARED**2),
        above=stats.t.sf(t, freedom),
        below=stats.t.cdf(t, freedom),
        probability=stats.t.cdf(once, freedom),
    )


def _both(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the p-values of "some setting reaches it" and of "none does"."""
    return min(1.0, float(rows["above"].min()) * len(rows)), float(rows["below"].max())


def _judged(goal: Goal, rows: pd.DataFrame, is_clear: bool) -> GoalResult:
    reaches, fails = _both(rows)
    verdict: Verdict = "not decided" if not is_clear else "reached" if reaches < fails else "not reached"
    fastest = rows.loc[rows["log"].idxmax()]
    chosen = fastest
    if verdict == "reached":
        enough = rows[rows["above"] * len(rows) < 1 - CONFIDENCE]
        enough = enough if len(enough) else rows.loc[[rows["above"].idxmin()]]
        chosen = enough.sort_values(["streams", "log"], ascending=[True, False]).iloc[0]
    half = float(stats.t.isf((1 - CONFIDENCE) / 2, max(1.0, chosen["freedom"])) * chosen["error"])
    rate, low, high = np.exp([chosen["log"], chosen["log"] - half, chosen["log"] + half]).tolist()
    streams = float(chosen["streams"]) if verdict != "not reached" else math.nan
    chance, limit = float(chosen["probability"]), str(chosen["limit"])
    return GoalResult(goal, verdict, rate, low, high, chance, streams, bool(chosen["assumed"]), limit)


def overall(results: Sequence[GoalResult]) -> Verdict:
    """Return the verdict on all goals together."""
    verdicts = {result.verdict for result in results}
    return (
        "not reached" if "not reached" in verdicts
        else "not decided" if "not decided" in verdicts
        else "reached"
    )  # fmt: skip


def judged_with_history(dataset: Path, summary: xr.Dataset, table: Path) -> list[GoalResult]:
    """Return the verdicts on a table of goals, with changes since earlier runs. Raises the errors of `read_goals`."""
    require_mesh(summary)
    goals = read_goals(table, {name: map(str, summary[name].values.tolist()) for name in LINK})
    return _with_history(dataset, summary, judge_goals(summary, goals))


def _with_history(dataset: Path, summary: xr.Dataset, results: Sequence[GoalResult]) -> list[GoalResult]:
    """Add to each result another verdict of the last kept run that has a verdict, with the day of that run."""
    folder = dataset.with_name(FOLDER)
    if not folder.is_dir():
        return list(results)
    goals, before = [result.goal for result in results], dict[Goal, str]()
    decided: dict[Goal, Verdict] = {}
    for run in read_kept_runs(folder)[0]:
        kept = load(folder / run.file)
        if str(kept.attrs["measured_until"]) == str(summary.attrs["measured_until"]):
            continue
        for each in judge_goals(kept, goals):
            if each.verdict != "not decided":
                decided[each.goal], before[each.goal] = each.verdict, f"{run.ended:%Y-%m-%d}"
    return [
        replace(result, before=f"{decided[result.goal]} on {before[result.goal]}")
        if decided.get(result.goal, result.verdict) != result.verdict
        else result
        for result in results
    ]


HEADS = (
    "source",
    "destination",
    "goal",
    "Gbit/s",
    "interval",
    "chance",
    "streams",
    "verdict",
    "limit",
    "before",
)


def texts(results: Sequence[GoalResult]) -> Iterator[tuple[str, ...]]:
    """Yield a row of texts with `HEADS` for each result."""
    for result in results:
        known = math.isfinite(result.throughput)
        yield (
            result.goal.source,
            result.goal.destination,
            f"{short(result.goal.rate)} Gbit/s",
            short(result.throughput) if known else "",
            between(result.low, result.high) + interval_note(result.assumed) if known else "",
            _percent(result.probability) if known else "",
            str(int(result.streams)) if math.isfinite(result.streams) else "",
            result.verdict
            + (f": {result.reason}" if result.reason else "")
            + (", on a full measuring machine" if result.full_machine else ""),
            LIMIT_NAMES.get(result.limit, ""),
            result.before,
        )


def _percent(share: float) -> str:
    return "> 99 %" if share > 0.99 else "< 1 %" if share < 0.01 else f"{100 * share:.0f} %"


_MOST_NAMED = 4  # links in a sentence


def in_a_sentence(results: Sequence[GoalResult]) -> str:
    """Count the verdicts, name the links of few that are not reached or not decided, and those to measure again."""
    parts = []
    for verdict in _ORDER:
        with_it = [result for result in results if result.verdict == verdict]
        if with_it:
            names = "" if verdict == "reached" else _names(with_it)
            parts.append(f"{len(with_it)} {verdict}{names and f': {names}'}")
    text = f"{counted(len(results), 'goal')}: {'; '.join(parts)}."
    full = [result for result in results if result.full_machine]
    if full:
        which, whose = (
            _names(full) or f"{len(full)} of these",
            "its rate" if len(full) == 1 else "their rates",
        )
        text += f" Measured on a full machine, so that {whose} may be the machine's own: {which}."
    return text


def _names(results: Sequence[GoalResult]) -> str:
    names = [link_text(result.goal.source, result.goal.destination) for result in results]
    return ", ".join(names) if len(names) <= _MOST_NAMED else ""


_ORDER: Sequence[Verdict] = ("reached", "not reached", "not decided")
