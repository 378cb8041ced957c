# SPDX-License-Identifier: Apache-2.0
"""A sweep and its grid: axes → cells → deployments. Pure: no files, no clock."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from tpcsweep.sweeps import units
from tpcsweep.sweeps.designs import SCREENING, count_points, screening_faults
from tpcsweep.sweeps.designs import points as grid_points
from tpcsweep.sweeps.parameters import (
    CELL,
    MOST_VALUES,
    AnyText,
    Parameters,
    Selection,
    Strict,
    SweepParameters,
    Value,
    Word,
    selected_parameters,
    show_value,
)
from tpcsweep.sweeps.problems import Fault, Problem, fault, raise_any
from tpcsweep.sweeps.units import DURATION, canonical, show

REPETITION = "repetition"

ONLY_DEPLOYMENT = "deployment=only"
"""The deployment's path in sweeps without deployment axes, because a path must not be empty."""

EARLIEST = 30.0
"""Seconds before which no cell ends as steady: earlier, intervals are too often narrow by chance."""

Values = Mapping[str, tuple[Value, ...]]  # values of parameters, in base units


class Measurement(Strict):
    """Duration and precision of a cell's measurement."""

    until: Literal["steady", "seconds", "files"] = "steady"
    """when a cell ends: steady: when its throughput is known to `precision`, after 30 s at the earliest, or
    after max_time; seconds: after a fixed time; files: when each stream has transferred a number of
    files
    """
    interval: Annotated[float, units.INTERVAL] = 0.1
    """time between samples"""
    min_time: Annotated[float, units.TIME] = 4.0
    """earliest end of a cell with until: steady; below 30 s without effect"""
    max_time: Annotated[float, units.TIME] = 20.0
    """longest time of a cell with until: steady or files"""
    seconds: Annotated[float | None, replace(units.TIME, null="another rule")] = None
    """duration of a cell with until: seconds"""
    files: Annotated[int | None, replace(units.FILES, null="another rule")] = None
    """number of files of each stream with until: files"""
    precision: Annotated[float, units.PRECISION] = 0.05
    """half-width of the interval over the mean, at which a cell with until: steady ends, from 30 s on"""
    confidence: Annotated[float, units.CONFIDENCE] = 0.95
    """confidence level of the interval"""

    @property
    def bounds(self) -> tuple[float, float]:
        """The shortest and longest duration of a cell, s."""
        if self.until == "seconds":
            assert self.seconds is not None
            return self.seconds, self.seconds
        shortest = max(self.min_time, EARLIEST) if self.until == "steady" else 0.0
        return min(shortest, self.max_time), self.max_time

    @model_validator(mode="after")
    def _consistent(self) -> Measurement:
        used = _USED[self.until]
        for name in sorted(set().union(*_USED.values())):
            given = name in self.model_fields_set and getattr(self, name) is not None
            if given and name not in used:
                raise fault(f"only {' and '.join(used)} there", f"{name} with until: {self.until}")
            if not given and name in used and self.until != "steady":
                raise fault(f"{' and '.join(used)} as well", f"until: {self.until} without {name}")
        ignored = {"files"} | ({"min_time"} - self.model_fields_set)  # its default is below EARLIEST
        for small, large in itertools.pairwise(("interval", *(name for name in used if name not in ignored))):
            low, high = getattr(self, small), getattr(self, large)
            if low > high:
                given_times = f"{small} {show(low, DURATION)} and {large} {show(high, DURATION)}"
                raise fault(f"{small} at most {large}", given_times)
        return self


_USED = {
    "steady": ("min_time", "max_time"),
    "seconds": ("seconds",),
    # Whole files may take any time; the default of max_time could stop them unexpectedly.
    "files": ("files", "max_time"),
}
"""The keys that each rule uses, times in ascending order; keys of other rules are refused, not ignored."""


class Curves(Strict):
    """The axes of a figure of curves."""

    x: Word = Field(description="horizontal axis of the figure")
    curve: Word = Field(description="axis with a curve for each value")


class Notebooks(Strict):
    """The notebooks of a sweep's report, each with the axes that it shows."""

    # `notebooks/NAME.ipynb` receives a dataset, a folder for figures, and an axis for each key of its model. It writes
    # the figure NAME and the table NAME.csv.
    curves: Curves | None = None
    """throughput over one axis, a curve for each value of another"""
    releases: Curves | None = None
    """throughput, CPU, time to first byte and failures over one axis, and a census of crashes"""

    @property
    def places(self) -> dict[str, dict[str, str]]:
        return self.model_dump(exclude_none=True)

    def problems(self, axes: Iterable[str]) -> Iterator[Problem]:
        """Yield names that are not axes of the sweep, or occur twice in a notebook."""
        for name, places in self.places.items():
            free = list(axes)
            for place, axis in places.items():
                if axis in free:
                    free.remove(axis)
                    continue
                allowed = f"an axis: one of {', '.join(free)}" if free else "another axis; the sweep has none"
                yield Problem(f"notebooks.{name}.{place}", axis, allowed)


_RECIPROCAL = r"1/[1-9][0-9]{0,6}"


def _factor(text: object) -> object:
    if not isinstance(text, str) or not re.fullmatch(_RECIPROCAL, text):
        raise fault("one over a whole number, such as 1/200", repr(text))
    return text


Factor = Annotated[str, BeforeValidator(_factor), Field(json_schema_extra={"pattern": f"^{_RECIPROCAL}$"})]
"""A scaling factor such as 1/200."""


class Scale(Strict):
    """The scale of a sweep, written by `sweeps.scaling`."""

    by: Factor
    """factor of bandwidths, cores, file sizes and buffers"""
    notes: tuple[str, ...] = ()
    """other differences from the published sweep"""

    @property
    def attributes(self) -> dict[str, str]:
        return {"scale": self.by, **({"scale_notes": "; ".join(self.notes)} if self.notes else {})}


class Sweep(Strict):
    """A grid of cells: axes with values, fixed parameters, and the measurement."""

    description: AnyText = ""
    """purpose of the sweep"""
    parameters: SweepParameters = Field(default_factory=SweepParameters)  # type: ignore[valid-type]
    """parameters: one value, or a list for an axis"""
    exclude: tuple[Selection, ...] = Field(default=(), max_length=MOST_VALUES)  # type: ignore[valid-type]
    """cells to exclude: those with one of the given values for every given key"""
    include: tuple[Selection, ...] = Field(default=(), max_length=MOST_VALUES)  # type: ignore[valid-type]
    """cells to add: the given values of some axes, with all values of the other axes"""
    repetitions: Annotated[int, units.CELLS] = 1
    """number of measurements of each cell"""
    repeat: Literal["cells", "deployments"] = "cells"
    """cells: repeat cells in one deployment; deployments: repeat deployments with all their cells, so that
    repetitions also differ in deployment conditions such as nodes
    """
    order: Literal["random", "blocks"] = "random"
    """blocks: repeat deployments, one repetition after another; each is a block, which measures all
    deployments once in random order
    """
    design: Literal["grid", "screening"] = "grid"
    """grid: all combinations of values; screening: with the testbed's settings that are axes only the runs of a
    two-level design (fractional factorial, or Plackett and Burman), each with all combinations of other axes
    """
    seed: Annotated[int | None, replace(units.SEED, null="another one for each run")] = None
    """seed for the order of deployments, the order of cells in each, and the pair of each deployment; null:
    each run draws another order, and records its seed
    """
    max_cells: Annotated[int, units.CELLS] = 10_000
    """limit on the number of cells before exclude, to catch mistakes"""
    measurement: Measurement = Field(default_factory=Measurement)
    """duration and precision of a cell's measurement"""
    retry_share: Annotated[float, units.SHARE] = 0.2
    """largest share of a deployment's cells that are retried in it: failed ones, and those on a disturbed
    or saturated machine; 0: none
    """
    notebooks: Notebooks = Field(default_factory=Notebooks)
    """notebooks for the report, with the axes that they show"""
    scale: Scale | None = None
    """how the sweep was scaled; the workflow's key `scale` sets it"""

    @property
    def repeated(self) -> Literal["cells", "deployments"]:
        """What is repeated: `repeat`, and in blocks always deployments."""
        return "deployments" if self.order == "blocks" else self.repeat

    def _faults(self) -> Iterator[Fault]:
        if self.order == "blocks" and self.repetitions == 1:
            yield ("repetitions",), "one block", "2 or more with order: blocks"
        if self.design == SCREENING:
            if self.order != "blocks":
                yield ("order",), self.order, "blocks with design: screening"
            rules = {"exclude": self.exclude, "include": self.include}
            given = {key: [*map(selected_parameters, entries)] for key, entries in rules.items()}
            yield from screening_faults(selected_parameters(self.parameters), given)
        # Such a sweep, from a mistyped or forgotten key, would measure a single cell of defaults.
        if not selected_parameters(self.parameters):
            example = "such as parameters: {streams: [1, 4, 16]}"
            yield ("parameters",), "nothing", f"one parameter or more, with a list for an axis, {example}"


@dataclass(frozen=True, slots=True)
class Point:
    """Values of a deployment's axes or of the other axes, and the path that they form."""

    path: str
    values: Mapping[str, Value] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid with a repetition. Cells share points and defaults to save memory."""

    defaults: Parameters = field(hash=False, repr=False)
    deployment: Point
    setting: Point
    repetition: int
    cell_path: str  # the cell's path within its deployment: copy_mode=pull/streams=4/repetition=1

    @property
    def path(self) -> str:
        return f"{self.deployment.path}/{self.cell_path}"

    @property
    def axes(self) -> dict[str, Value]:
        """The cell's coordinates: axis values and the repetition."""
        return {**self.deployment.values, **self.setting.values, REPETITION: self.repetition}

    def value(self, name: str) -> Value:
        for point in (self.deployment, self.setting):
            if name in point.values:
                return point.values[name]
        value: Value = getattr(self.defaults, name)
        return value

    @property
    def parameters(self) -> Parameters:
        # Axes are already validated; validating 10⁵ cells again would be slow.
        return self.defaults.model_copy(update={**self.deployment.values, **self.setting.values})


def by_deployment(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Group cells by deployment path, such as origins=2/cores=0.5/rtt=50."""
    held: dict[str, list[Cell]] = {}
    for cell in cells:
        held.setdefault(cell.deployment.path, []).append(cell)
    return held


@dataclass(frozen=True)
class Grid:
    sweep: Sweep
    axes: Values  # values of each axis in the order of `Parameters`, with `repetition` last
    cells: tuple[Cell, ...]  # all cells in the order of the axes
    run_seed: int = 0  # seed of the run, for sweeps without one

    @property
    def seed(self) -> int:
        """The seed of the order of deployments and cells."""
        return self.run_seed if self.sweep.seed is None else self.sweep.seed

    @cached_property
    def _held(self) -> dict[str, list[Cell]]:
        return by_deployment(self.cells)

    @cached_property
    def deployments(self) -> Mapping[str, tuple[Cell, ...]]:
        """The cells of each deployment in measuring order."""
        return {
            path: tuple(sorted(cells, key=lambda cell: shuffled(self.seed, path, cell.cell_path)))
            for path, cells in self._held.items()
        }

    @cached_property
    def priorities(self) -> Mapping[str, int]:
        """Priority of each deployment in shuffled order; the highest runs first, as with Snakemake's jobs."""
        in_blocks = self.sweep.order == "blocks"

        def key(path: str) -> tuple[int, bytes]:
            return -self._held[path][0].repetition * in_blocks, shuffled(self.seed, path)

        order = sorted(self.deployments, key=key)
        return {path: priority for priority, path in enumerate(order, start=1)}

    @cached_property
    def preferred_places(self) -> Mapping[str, int]:
        """A number for each deployment, from 0, in a shuffled order that keeps repetitions next to each other.

        A deployment that may run in several places tries first the one at its number, modulo their count. Deployments
        thus use all places equally, and repetitions of a setting use different ones. All runs have the same numbers.
        All deployments of a block have the same number, so that differences of places cancel in it.
        """
        if self.sweep.order == "blocks":
            return {path: cells[0].repetition - 1 for path, cells in self._held.items()}

        def key(path: str) -> tuple[bytes, int]:
            first = self._held[path][0]
            names = map(str, first.deployment.values.items())
            return shuffled(self.sweep.seed or 0, *names), first.repetition

        return {path: number for number, path in enumerate(sorted(self._held, key=key))}

    @cached_property
    def paths_by_cells(self) -> Mapping[tuple[str, ...], list[str]]:
        """Deployments with identical cells, by the paths of these cells."""
        alike: dict[tuple[str, ...], list[str]] = {}
        for path, cells in self._held.items():
            alike.setdefault(tuple(cell.cell_path for cell in cells), []).append(path)
        return alike

    @property
    def excluded(self) -> list[int]:
        """Indices of the flattened grid without a cell."""
        if math.prod(map(len, self.axes.values())) == len(self.cells):
            return []
        held = {tuple(cell.axes.values()) for cell in self.cells}
        points = itertools.product(*self.axes.values())
        return [place for place, point in enumerate(points) if point not in held]


def shuffled(seed: int, *names: str) -> bytes:
    """Return a sort key of names and seed alone, so that a new value keeps the others' order."""
    return hashlib.sha256("\n".join((str(seed), *names)).encode()).digest()


def expand(sweep: Sweep, defaults: Mapping[str, Value] = MappingProxyType({})) -> Grid:
    """Expand a sweep into its grid: the product of its axes, without excluded points, with included ones.

    Parameters that the sweep does not set take their value from `defaults`, then from `Parameters`. Raises
    ConfigurationError for too many cells or none, an exclude without matches, an include that adds nothing or names a
    parameter that is not an axis, and a notebook with such a parameter.
    """
    given = selected_parameters(sweep.parameters)
    axes = {name: values for name, values in given.items() if isinstance(values, tuple)}
    fixed = {name: value for name, value in given.items() if name not in axes}
    others = Parameters().model_copy(update={**defaults, **fixed})
    includes, excludes = ([_as_lists(one) for one in several] for several in (sweep.include, sweep.exclude))
    raise_any(_unknown_axes(includes, axes))
    raise_any(_too_many(sweep, axes, includes))
    raise_any(sweep.notebooks.problems(axes))
    raise_any(_never_matching(excludes, axes, others))

    problems = []
    points = _without(axes, excludes, sweep.design)
    for index, entry in enumerate(includes):
        before = len(points)
        points |= dict.fromkeys(grid_points(axes | entry, sweep.design))
        if len(points) == before:
            problems.append(Problem(f"include[{index}]", _text(entry), "an entry that adds cells"))
    if not points:
        problems.append(Problem("exclude", "rules that leave no cell", "rules that leave at least one"))
    raise_any(problems)

    merged = _merged(axes, includes)
    if includes:
        places = [{value: place for place, value in enumerate(values)} for values in merged.values()]
        order = sorted(points, key=lambda point: [at[v] for at, v in zip(places, point, strict=True)])
        points = dict.fromkeys(order)
    cells = tuple(_cells(points, tuple(axes), others, sweep))
    return Grid(sweep, MappingProxyType(merged | {REPETITION: tuple(range(1, sweep.repetitions + 1))}), cells)


def _as_lists(selection: Strict) -> dict[str, tuple[Value, ...]]:
    return {name: v if isinstance(v, tuple) else (v,) for name, v in selected_parameters(selection).items()}


def _text(entry: Values) -> str:
    """Return an exclude or include for messages: rtt: 5 ms, 20 ms; streams: 4."""
    return "; ".join(f"{name}: {_listed(name, values)}" for name, values in entry.items()) or "nothing"


def _listed(name: str, values: Sequence[Value]) -> str:
    shown = [show_value(name, value) for value in values[:20]]
    return ", ".join([*shown, "…"] if len(values) > len(shown) else shown)


def _unknown_axes(includes: Sequence[Values], axes: Values) -> Iterator[Problem]:
    allowed = f"one of {', '.join(axes) or 'none'}"
    for index, entry in enumerate(includes):
        for name in entry:
            if name not in axes:
                yield Problem(f"include[{index}].{name}", "a parameter that is no axis", allowed)


def _never_matching(excludes: Sequence[Values], axes: Values, defaults: Parameters) -> Iterator[Problem]:
    """Yield values of excludes that match no cell, which are probably typing errors."""
    for index, entry in enumerate(excludes):
        for name, values in entry.items():
            held = axes.get(name, (getattr(defaults, name),))
            if wrong := tuple(value for value in values if value not in held):
                place, allowed = f"exclude[{index}].{name}", f"one of {_listed(name, held)}"
                yield Problem(place, _text({name: wrong}), allowed)


def _too_many(sweep: Sweep, axes: Values, includes: Sequence[Values]) -> Iterator[Problem]:
    """Check the number of cells before expansion, because the product may not fit in memory."""
    grids = [axes, *({**axes, **entry} for entry in includes)]
    cells = sweep.repetitions * sum(count_points(values, sweep.design) for values in grids)
    if cells > sweep.max_cells:
        factors = [f"{len(values)} {name}" for name, values in axes.items()]
        product = " × ".join([*factors, f"{sweep.repetitions} repetitions"])
        more = f" and {len(includes)} includes" if includes else ""
        given = f"{cells} cells ({product}{more})"
        yield Problem("parameters", given, f"at most max_cells, {sweep.max_cells}")


def _merged(axes: Values, includes: Sequence[Values]) -> dict[str, tuple[Value, ...]]:
    """Add the values of includes to the axes, each number before the first larger one."""
    merged = {name: list(values) for name, values in axes.items()}
    for name, new in itertools.chain.from_iterable(entry.items() for entry in includes):
        values = merged[name]
        for value in (value for value in new if value not in values):
            larger = (at for at, other in enumerate(values) if _is_larger(other, value))
            values.insert(next(larger, len(values)), value)
    return {name: tuple(values) for name, values in merged.items()}


def _is_larger(other: Value, value: Value) -> bool:
    return isinstance(other, int | float) and isinstance(value, int | float) and other > value


def _without(axes: Values, excludes: Sequence[Values], design: str) -> dict[tuple[Value, ...], None]:
    kept: dict[tuple[Value, ...], None] = dict.fromkeys(grid_points(axes, design), None)
    for entry in excludes:
        # An excluded key that is not an axis matches every cell: others were refused before.
        for point in grid_points({name: entry.get(name, values) for name, values in axes.items()}, design):
            kept.pop(point, None)
    return kept


def _cells(
    points: Iterable[tuple[Value, ...]], names: Sequence[str], defaults: Parameters, sweep: Sweep
) -> Iterator[Cell]:
    split = sum(name not in CELL for name in names)
    deployments: dict[tuple[Value, ...], list[Point]] = {}
    settings: dict[tuple[Value, ...], Point] = {}
    for values in points:
        ours, theirs = values[:split], values[split:]
        if ours not in deployments:
            named = MappingProxyType(dict(zip(names[:split], ours, strict=True)))
            numbers = range(1, sweep.repetitions + 1)
            deployments[ours] = [Point(_deployment_path(named, n, sweep.repeated), named) for n in numbers]
        if theirs not in settings:
            named = MappingProxyType(dict(zip(names[split:], theirs, strict=True)))
            settings[theirs] = Point(_path(named), named)
        setting = settings[theirs]
        for repetition, deployment in enumerate(deployments[ours], start=1):
            path = "/".join(filter(None, (setting.path, f"{REPETITION}={repetition}")))
            yield Cell(defaults, deployment, setting, repetition, path)


def cell_paths(axes: Mapping[str, Value], repeat: str) -> tuple[str, str]:
    """Return the paths of a cell's deployment and of the cell within it, for the sweep's `repeat`."""
    deployed = {name: value for name, value in axes.items() if name not in (*CELL, REPETITION)}
    cell = {name: value for name, value in axes.items() if name not in deployed}
    return _deployment_path(deployed, axes[REPETITION], repeat), _path(cell)


def _deployment_path(values: Mapping[str, Value], repetition: Value, repeat: str) -> str:
    """Return the path of a deployment, which repetitions share unless the sweep repeats deployments."""
    own = {"deployment": repetition} if repeat == "deployments" else {}
    return _path({**values, **own}) or ONLY_DEPLOYMENT


def _path(values: Mapping[str, Value]) -> str:
    return "/".join(f"{name}={path_text(value)}" for name, value in values.items())


def path_text(value: Value) -> str:
    """Return a value as in the paths of cells: 50, 0.5, none, pull."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else canonical(value)
