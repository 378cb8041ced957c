"""A sweep and its grid: axes → cells → deployments. Pure: no files, no clock, no machine."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from tpcsweep.configuration.notebooks import Notebooks
from tpcsweep.configuration.parameters import (
    DEPLOYMENT,
    Count,
    Given,
    Parameters,
    Selection,
    Strict,
    Value,
    chosen,
    show_value,
)
from tpcsweep.configuration.problems import ConfigurationError, Problem
from tpcsweep.configuration.scale import Scale
from tpcsweep.configuration.units import COUNT, DURATION, FRACTION, Quantity, canonical, show

__all__ = [
    "Cell",
    "Grid",
    "Group",
    "Measurement",
    "Parameters",
    "Sweep",
    "computing_seconds",
    "expand",
    "expected_seconds",
]

ONLY_DEPLOYMENT = "deployment=only"
"""The path of the deployment where no axis changes it: a path must not be empty."""

REPETITION = "repetition"

_Positive = Annotated[float, Quantity(DURATION, above=0)]
_Share = Annotated[float, Quantity(FRACTION, above=0, below=1)]


class Measurement(Strict):
    """How a cell is measured."""

    until: Literal["steady", "seconds", "files"] = Field(
        default="steady",
        description="when a cell ends: when its throughput is steady and known well enough, after a fixed time, or "
        "when each stream has transferred a number of files",
    )
    interval: _Positive = Field(default=0.1, description="time between samples")
    min_time: _Positive = Field(default=4.0, description="shortest time that a cell is measured until steady")
    max_time: _Positive = Field(
        default=20.0,
        description="longest time that a cell is measured until steady or until its files are there",
    )
    seconds: Annotated[float | None, Quantity(DURATION, above=0, null="another rule")] = Field(
        default=None, description="how long a cell is measured with until: seconds"
    )
    files: Annotated[int | None, Quantity(COUNT, at_least=1, null="another rule")] = Field(
        default=None, description="how many files each stream transfers with until: files"
    )
    precision: _Share = Field(
        default=0.05, description="half-width of the confidence interval over the mean at which a cell ends"
    )
    confidence: _Share = Field(default=0.95, description="confidence of the interval")

    @property
    def bounds(self) -> tuple[float, float]:
        """The shortest and longest time that a cell may take, s."""
        if self.until == "seconds":
            assert self.seconds is not None
            return self.seconds, self.seconds
        return (self.min_time if self.until == "steady" else 0.0), self.max_time

    @model_validator(mode="after")
    def _of_its_rule(self) -> Measurement:
        used = _USED[self.until]
        for name in sorted(set().union(*_USED.values())):
            given = name in self.model_fields_set and getattr(self, name) is not None
            if given and name not in used:
                _refuse_measurement(f"{name} with until: {self.until}", f"only {' and '.join(used)} there")
            if not given and name in used and self.until != "steady":
                _refuse_measurement(f"until: {self.until} without {name}", f"{' and '.join(used)} as well")
        return self

    @model_validator(mode="after")
    def _ordered(self) -> Measurement:
        names = ("interval", *_USED[self.until])
        for small, large in itertools.pairwise(name for name in names if name != "files"):
            low, high = getattr(self, small), getattr(self, large)
            if low > high:
                _refuse_measurement(
                    f"{small} {show(low, DURATION)} and {large} {show(high, DURATION)}",
                    f"{small} at most {large}",
                )
        return self


_USED = {
    "steady": ("min_time", "max_time"),
    "seconds": ("seconds",),
    # Whole files may take any time: the default of max_time would cut them short unasked.
    "files": ("files", "max_time"),
}
"""The keys that each rule uses, times from the shortest; what another rule uses is refused rather than ignored."""


def _refuse_measurement(given: str, allowed: str) -> None:
    raise PydanticCustomError("measurement", "{allowed}", {"given": given, "allowed": allowed})


class Sweep(Strict):
    """A named grid: axes with values, fixed parameters, how to measure."""

    description: str = Field(default="", strict=True, description="what the sweep is for")
    parameters: Given = Field(  # type: ignore[valid-type]
        default_factory=Given, description="parameters: one value, or a list for an axis"
    )
    exclude: tuple[Selection, ...] = Field(  # type: ignore[valid-type]
        default=(), description="cells to leave out: those with one of the given values in every given key"
    )
    include: tuple[Selection, ...] = Field(  # type: ignore[valid-type]
        default=(), description="cells to add: given values of some axes, with all values of the other axes"
    )
    repetitions: Count = Field(default=1, description="how often each cell is measured")
    seed: Annotated[int, Quantity(COUNT, at_least=0)] = Field(
        default=0, description="shuffles the order of deployments and of the cells in each"
    )
    max_cells: Count = Field(
        default=10_000, description="more cells than this, before exclude, are taken for an accident"
    )
    measurement: Measurement = Field(default_factory=Measurement, description="how a cell is measured")
    again: Annotated[float, Quantity(FRACTION, at_least=0, at_most=1)] = Field(
        default=0.2,
        description="share of the cells that are measured once more at the end of a run, at most: those where the "
        "machine was disturbed or saturated, or that were not steady; 0: none",
    )
    notebooks: Notebooks = Field(
        default_factory=Notebooks, description="notebooks for the report, with the axes that they show"
    )
    scale: Scale | None = Field(
        default=None, description="how the sweep was made of a published one; written by its figure's target"
    )


@dataclass(frozen=True, slots=True)
class Point:
    """Values of the axes of a deployment, or of the other axes, with the path that names them."""

    path: str
    values: Mapping[str, Value] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid with its repetition. Points and defaults are shared, so that cells are cheap."""

    defaults: Parameters = field(hash=False, repr=False)
    deployment: Point
    setting: Point
    repetition: int
    cell_path: str
    """What names the cell in its deployment: copy_mode=pull/streams=4/repetition=1."""

    @property
    def deployment_path(self) -> str:
        """What names the deployment: origins=2/cores=0.5/rtt=50."""
        return self.deployment.path

    @property
    def path(self) -> str:
        """What names the cell in its sweep, without a suffix."""
        return f"{self.deployment.path}/{self.cell_path}"

    @property
    def axes(self) -> dict[str, Value]:
        """The cell's coordinates: values of the axes, with the repetition."""
        return {**self.deployment.values, **self.setting.values, REPETITION: self.repetition}

    def value(self, name: str) -> Value:
        """One parameter in its base unit."""
        for point in (self.deployment, self.setting):
            if name in point.values:
                return point.values[name]
        value: Value = getattr(self.defaults, name)
        return value

    @property
    def parameters(self) -> Parameters:
        """All the parameters in base units."""
        # Values were validated with their axis: 10⁵ cells are not validated again.
        return self.defaults.model_copy(update={**self.deployment.values, **self.setting.values})


@dataclass(frozen=True, slots=True)
class Group:
    """Deployments that hold the same cells; the workflow makes one rule of them."""

    deployments: tuple[str, ...]
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """The cells of a sweep."""

    sweep: Sweep
    axes: Mapping[str, tuple[Value, ...]]
    """Values of each axis in the order of the sweep, `repetition` last."""
    cells: tuple[Cell, ...]
    """In the order of the axes."""

    @cached_property
    def deployments(self) -> Mapping[str, tuple[Cell, ...]]:
        """The cells of each deployment, in the order in which they are to be measured."""
        by_path: dict[str, list[Cell]] = {}
        for cell in self.cells:
            by_path.setdefault(cell.deployment_path, []).append(cell)
        seed = self.sweep.seed
        return MappingProxyType(
            {
                path: tuple(sorted(cells, key=lambda cell: _shuffled(seed, path, cell.cell_path)))
                for path, cells in by_path.items()
            }
        )

    @cached_property
    def rank(self) -> Mapping[str, int]:
        """The place of each deployment in the shuffled order. The highest is first, as job priorities are."""
        order = sorted(self.deployments, key=lambda path: _shuffled(self.sweep.seed, path), reverse=True)
        return MappingProxyType({path: len(order) - place for place, path in enumerate(order)})

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The deployments, grouped by the cells that they hold."""
        held: dict[str, list[str]] = {}
        for cell in self.cells:
            held.setdefault(cell.deployment_path, []).append(cell.cell_path)
        alike: dict[tuple[str, ...], list[str]] = {}
        for path, cells in held.items():
            alike.setdefault(tuple(cells), []).append(path)
        return tuple(Group(tuple(paths), cells) for cells, paths in alike.items())

    @cached_property
    def by_path(self) -> Mapping[str, Cell]:
        """Each cell by its path."""
        return MappingProxyType({cell.path: cell for cell in self.cells})


def expand(sweep: Sweep, defaults: Mapping[str, Value] = MappingProxyType({})) -> Grid:
    """The grid of a sweep: the product of its axes, less what is excluded, plus what is included.

    Parameters that the sweep leaves out have the values of `defaults`, else those of `Parameters`.

    Raises:
        ConfigurationError: for too many cells or none, an exclude that matches nothing, an include that adds
            nothing or names what is not an axis, and a notebook that is to show what is not an axis.
    """
    given = chosen(sweep.parameters)
    axes = {name: values for name, values in given.items() if isinstance(values, tuple)}
    fixed = {name: value for name, value in given.items() if name not in axes}
    others = Parameters().model_copy(update={**defaults, **fixed})
    includes = [_as_lists(entry) for entry in sweep.include]
    _refuse(_unknown_axes(includes, axes))
    merged = _merge(axes, includes)
    _refuse(_too_many(sweep, axes, includes))
    _refuse(sweep.notebooks.problems(axes))

    names = tuple(axes)
    excludes = [_as_lists(entry) for entry in sweep.exclude]
    _refuse(_never_matching(excludes, axes, others))
    kept, matched = _without(itertools.product(*axes.values()), names, excludes)
    problems = [
        Problem(f"exclude[{index}]", _text(excludes[index]), "what matches at least one cell of the axes")
        for index in range(len(excludes))
        if index not in matched
    ]
    points = dict.fromkeys(kept)
    for index, entry in enumerate(includes):
        before = len(points)
        points.update(dict.fromkeys(itertools.product(*(entry.get(name, axes[name]) for name in names))))
        if len(points) == before:
            problems.append(Problem(f"include[{index}]", _text(entry), "what adds at least one cell"))
    if not points:
        problems.append(Problem("exclude", "rules that leave no cell", "rules that leave at least one"))
    _refuse(problems)
    ordered = _in_order(points, merged) if includes else points
    cells = tuple(_cells(ordered, names, others, sweep.repetitions))
    return Grid(sweep, MappingProxyType(merged | {REPETITION: tuple(range(1, sweep.repetitions + 1))}), cells)


def expected_seconds(grid: Grid, deploy_seconds: float, cell_seconds: float = 0.0) -> tuple[float, float]:
    """The shortest and longest duration of a sweep in seconds.

    A deployment costs `deploy_seconds` to bring up and tear down, a cell `cell_seconds` beside its measuring. In the
    longest, as many cells as may be are measured once more, each in a deployment of its own.
    """
    cells = len(grid.cells)
    base = computing_seconds(grid, deploy_seconds, cell_seconds)
    shortest, longest = grid.sweep.measurement.bounds
    again = math.ceil(grid.sweep.again * cells) * (deploy_seconds + cell_seconds + longest)
    return base + cells * shortest, base + cells * longest + again


def computing_seconds(grid: Grid, deploy_seconds: float, cell_seconds: float) -> float:
    """What a sweep takes beside measuring: all of it where cells are computed."""
    return len(grid.deployments) * deploy_seconds + len(grid.cells) * cell_seconds


def _as_lists(selection: Strict) -> dict[str, tuple[Value, ...]]:
    return {
        name: value if isinstance(value, tuple) else (value,) for name, value in chosen(selection).items()
    }


def _text(entry: Mapping[str, Sequence[Value]]) -> str:
    """An exclude or include for people: rtt: 5 ms, 20 ms; streams: 4."""
    shown = (f"{name}: {', '.join(show_value(name, v) for v in values)}" for name, values in entry.items())
    return "; ".join(shown) or "nothing"


def _refuse(problems: Sequence[Problem]) -> None:
    if problems:
        raise ConfigurationError(problems)


def _unknown_axes(includes: Sequence[Mapping[str, Any]], axes: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(
            f"include[{index}].{name}", "a parameter that is no axis", f"one of {', '.join(axes) or 'none'}"
        )
        for index, entry in enumerate(includes)
        for name in entry
        if name not in axes
    ]


def _never_matching(
    excludes: Sequence[Mapping[str, tuple[Value, ...]]],
    axes: Mapping[str, tuple[Value, ...]],
    defaults: Parameters,
) -> list[Problem]:
    """Values of excludes that no cell has: a typo would otherwise go unseen."""
    problems = []
    for index, entry in enumerate(excludes):
        for name, values in entry.items():
            known = axes.get(name, (getattr(defaults, name),))
            wrong = [value for value in values if value not in known]
            if wrong:
                allowed = ", ".join(show_value(name, value) for value in known)
                problems.append(
                    Problem(f"exclude[{index}].{name}", _text({name: wrong}), f"one of {allowed}")
                )
    return problems


def _too_many(
    sweep: Sweep, axes: Mapping[str, tuple[Value, ...]], includes: Sequence[Mapping[str, tuple[Value, ...]]]
) -> list[Problem]:
    """Counted before anything is expanded, as the product may be beyond any memory."""

    def size(entry: Mapping[str, tuple[Value, ...]]) -> int:
        return math.prod(len(entry.get(name, values)) for name, values in axes.items()) * sweep.repetitions

    cells = size({}) + sum(size(entry) for entry in includes)
    if cells <= sweep.max_cells:
        return []
    factors = [f"{len(values)} {name}" for name, values in axes.items()]
    product = " × ".join([*factors, f"{sweep.repetitions} repetitions"])
    more = f" and {len(includes)} includes" if includes else ""
    return [
        Problem("parameters", f"{cells} cells ({product}{more})", f"at most max_cells, {sweep.max_cells}")
    ]


def _merge(
    axes: Mapping[str, tuple[Value, ...]], includes: Sequence[Mapping[str, tuple[Value, ...]]]
) -> dict[str, tuple[Value, ...]]:
    """The axes with the values that only includes bring: numbers before the first that is larger."""
    merged = {name: list(values) for name, values in axes.items()}
    for name, new in itertools.chain.from_iterable(entry.items() for entry in includes):
        values = merged[name]
        for value in (value for value in new if value not in values):
            larger = (i for i, other in enumerate(values) if _is_larger(other, value))
            values.insert(next(larger, len(values)), value)
    return {name: tuple(values) for name, values in merged.items()}


def _is_larger(other: Value, value: Value) -> bool:
    return isinstance(other, int | float) and isinstance(value, int | float) and other > value


def _without(
    points: Iterable[tuple[Value, ...]],
    names: Sequence[str],
    excludes: Sequence[Mapping[str, tuple[Value, ...]]],
) -> tuple[list[tuple[Value, ...]], set[int]]:
    """The points that no exclude matches, and the indices of the excludes that matched any."""
    # A key that is no axis holds for every cell or for none; those for none were refused before.
    rules = [
        [(names.index(name), frozenset(values)) for name, values in entry.items() if name in names]
        for entry in excludes
    ]
    kept, matched = [], set()
    for point in points:
        hits = [i for i, rule in enumerate(rules) if all(point[at] in values for at, values in rule)]
        matched.update(hits)
        if not hits:
            kept.append(point)
    return kept, matched


def _in_order(
    points: Iterable[tuple[Value, ...]], axes: Mapping[str, tuple[Value, ...]]
) -> list[tuple[Value, ...]]:
    places = [{value: place for place, value in enumerate(values)} for values in axes.values()]
    return sorted(points, key=lambda point: [place[v] for place, v in zip(places, point, strict=True)])


def _cells(
    points: Iterable[tuple[Value, ...]], names: Sequence[str], defaults: Parameters, repetitions: int
) -> Iterator[Cell]:
    split = sum(name in DEPLOYMENT for name in names)
    deployments: dict[tuple[Value, ...], Point] = {}
    settings: dict[tuple[Value, ...], tuple[Point, list[str]]] = {}
    for values in points:
        ours, theirs = values[:split], values[split:]
        if ours not in deployments:
            deployments[ours] = _point(names[:split], ours, ONLY_DEPLOYMENT)
        if theirs not in settings:
            setting = _point(names[split:], theirs, "")
            prefix = f"{setting.path}/" if setting.path else ""
            paths = [f"{prefix}{REPETITION}={n}" for n in range(1, repetitions + 1)]
            settings[theirs] = (setting, paths)
        setting, paths = settings[theirs]
        for repetition, path in enumerate(paths, start=1):
            yield Cell(defaults, deployments[ours], setting, repetition, path)


def _point(names: Sequence[str], values: Sequence[Value], empty: str) -> Point:
    parts = (f"{name}={path_text(value)}" for name, value in zip(names, values, strict=True))
    return Point("/".join(parts) or empty, MappingProxyType(dict(zip(names, values, strict=True))))


def path_text(value: Value) -> str:
    """A value as paths of cells have it: 50, 0.5, none, pull."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else canonical(value)


def _shuffled(seed: int, *names: str) -> bytes:
    """A key to sort by. A name's key is its own, so that a new value leaves the order of the others alone."""
    return hashlib.sha256("\n".join((str(seed), *names)).encode()).digest()
