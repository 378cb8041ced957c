# SPDX-License-Identifier: Apache-2.0
"""The configuration of a run: which sweep on which testbed, read from files and checked."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, Field, ValidationError, WithJsonSchema, model_validator

from tpcsweep.configuration import bounds, citation, yaml_file
from tpcsweep.configuration.citation import Citation
from tpcsweep.configuration.imports import Import
from tpcsweep.configuration.parameters import CONDITIONS, WORD, AnyText, Text, chosen
from tpcsweep.configuration.problems import (
    ConfigurationError,
    Problem,
    fault,
    from_pydantic,
    quoted,
    raise_any,
    refused,
    suggest,
    within,
)
from tpcsweep.configuration.question import Question
from tpcsweep.configuration.scale import Factor
from tpcsweep.configuration.sides import DATASET, STORE, SUFFIX, Side, side
from tpcsweep.configuration.sweep import Cell, Grid, Sweep, expand
from tpcsweep.configuration.testbeds import KINDS, Testbed
from tpcsweep.files import is_file
from tpcsweep.flags import FLAGS

__all__ = ["Configuration", "ConfigurationError", "Run", "load", "wanted"]

_DATA = ("sweep", "testbed", "results", "only")
_DATA_ELSEWHERE = ("results", "source", "file")

SHIPPED = Path(__file__).resolve().parents[3]
"""The checkout, with what no package has: rules, notebooks, captions, and the sweeps and testbeds that ship."""

FORMAT = 1
"""The version of a cell's specification. Another one makes every cell stale."""

CONFIG_FILE = "config/config.yaml or --config"
"""What errors call the workflow's configuration: where its values came from is not known."""

LONGEST_NAME = 200
"""Bytes of a name that is made of what people write; a file system takes 255."""

_LISTED = 8  # files that an error lists

_NAMES = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
"""What may be written for sweeps: `running.several` takes them apart."""

Part = TypeVar("Part")
Model = TypeVar("Model", bound=BaseModel)


class Run(Question):
    """What config/config.yaml and `--config` say. Parameters are for what is asked of fitted models alone."""

    sweep: Annotated[AnyText, WithJsonSchema(_NAMES)] = Field(
        description="name of a file in config/sweeps, or a path that ends in .yaml; of several a list, or with commas"
    )
    testbed: AnyText = Field(description="name of a file in config/testbeds, or a path that ends in .yaml")
    results: Text = Field(default="results", description="folder for results")
    source: AnyText | None = Field(
        default=None,
        description="data from elsewhere, to be used in place of the sweep's: a dataset, by a path that ends in .nc or "
        ".zarr; "
        "or name of a file in config/imports, or a path that ends in .yaml",
    )
    file: AnyText | None = Field(
        default=None, description="the source's CSV or Parquet file, if not the one that it names"
    )
    base: AnyText | None = Field(
        default=None,
        description="what new is compared with: a folder of results, or a path that ends in .nc, "
        "then :axis=value for a part of it",
    )
    new: AnyText | None = Field(default=None, description="what is compared with base, named like it")
    fail_below: Annotated[float | None, replace(bounds.RATIO, null="never")] = Field(
        default=None, description="new over base below which a comparison fails; null: never"
    )
    fail_on: Literal["change", "slower"] | None = Field(
        default=None,
        description="what `snakemake history` fails on, where it is new since the last run: a change, or one to "
        "slower; a cell that failed, too; null: nothing",
    )
    scale: Factor | None = Field(
        default=None,
        description="what published figures' bandwidths, cores, files and buffers are multiplied by, such as 1/200",
    )
    only: AnyText | None = Field(
        default=None, description="JSON file with a list of paths of cells; the grid's others are left out"
    )
    again: AnyText | None = Field(
        default=None,
        description="flag: cells that carry it are measured once more, however often they were",
        json_schema_extra={"enum": [None, *FLAGS]},
    )
    # Not strict: of what the command line says Snakemake makes a text.
    measure: bool = Field(
        default=False,
        description="what is made of a dataset measures the cells first that are not there, "
        "instead of leaving them out",
    )
    notify: AnyText | None = Field(
        default=None,
        description="command that a shell runs when a run of a sweep has ended, with TPCSWEEP_SWEEP, "
        "TPCSWEEP_STATUS and others in its environment",
    )
    error: Annotated[float, bounds.PRECISION] = Field(
        default=0.05,
        description="`snakemake adaptive` ends at this estimated error, as a share of the surface's range",
    )

    @model_validator(mode="after")
    def _names_a_folder(self) -> Run:
        if len(self.name.encode()) > LONGEST_NAME:
            allowed = f"fewer values, or shorter ones: they name the answer's folder, in {LONGEST_NAME} bytes"
            raise fault(allowed, f"{self.name[:50]}…")
        return self

    @property
    def data(self) -> dict[str, str]:
        """What says which data there are: for another Snakemake that is to have the same."""
        names = _DATA if self.source is None else _DATA_ELSEWHERE
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True)
class Source:
    """Data from elsewhere: how they are read, and the file that they are in."""

    name: str
    settings: Import | None
    """None of a dataset, which says itself what it is."""
    file: Path


@dataclass(frozen=True)
class Configuration:
    """A sweep on a testbed, valid in itself; `checks` says whether the testbed can do it."""

    name: str
    sweep: Sweep
    sweep_file: str
    testbed_name: str
    testbed: Testbed
    testbed_file: str
    results: Path
    grid: Grid
    run: Run
    source: Source | None = None
    comparison: tuple[Side, Side] | None = None
    citation: Citation | None = None
    """Who measured, as far as a file beside the configuration says it."""

    @property
    def measures(self) -> bool:
        """Whether a dataset is to be measured; else it is there already."""
        return self.source is None and self.comparison is None

    def needed_source(self) -> Source:
        """Give the source; raises ConfigurationError where there is none."""
        if self.source is None:
            raise refused("source", "nothing", "this key is needed", CONFIG_FILE)
        return self.source

    def needed_comparison(self) -> tuple[Side, Side]:
        """Give the two sides of the comparison; raises ConfigurationError where there are none."""
        if self.comparison is None:
            raise refused("base and new", "nothing", "--config base=NAME new=NAME", CONFIG_FILE)
        return self.comparison

    @property
    def attributes(self) -> dict[str, str]:
        """What the dataset's attributes say that no cell says: how the sweep was scaled, and who measured."""
        return {
            **({} if self.sweep.scale is None else self.sweep.scale.attributes),
            **({} if self.citation is None else self.citation.attributes),
        }

    @property
    def notebooks(self) -> dict[str, dict[str, str]]:
        """The notebooks in the report beside those of all, each with the axes for its places."""
        if not self.measures:
            return {}
        return {**self.sweep.notebooks.places, **({"hardware": {}} if self.testbed.has_alternatives else {})}

    @property
    def product(self) -> Path:
        """What a run without a target makes."""
        return self.folder / ("report.html" if self.comparison is None else "notebooks/compare.html")

    @property
    def folder(self) -> Path:
        """Where everything of this sweep on this testbed, of data from elsewhere, or of a comparison is written.

        On this machine that is the sweep's name alone. Other testbeds add theirs, so that the same sweep here and
        there can be compared; no sweep's name has an @.
        """
        if self.comparison is not None:
            base, new = self.comparison
            return self.results / "comparisons" / f"{base.name}_vs_{new.name}"
        if self.source is not None:
            return self.results / self.source.name
        here = self.testbed.kind == "netns"
        return self.results / (self.name if here else f"{self.name}@{self.testbed_name}")

    @cached_property
    def shared(self) -> dict[str, dict[str, Any]]:
        """What the specifications of all cells have in common: made once, as there may be 10⁵ of them."""
        testbed = {"name": self.testbed_name, "kind": self.testbed.kind, **self.testbed.identity}
        return {"measurement": self.sweep.measurement.model_dump(), "testbed": testbed}

    def cell_file(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.path}.json"


def load(config: Mapping[str, Any], root: Path) -> Configuration:
    """Read the configuration of a run from the workflow's `config` and the files below the root that it names.

    A folder of `config` that the root does not have is that of the checkout: another workflow, which has this one as a
    module, may have sweeps of its own and take the testbeds that ship.

    Raises:
        ConfigurationError: with a line for everything that is wrong in the configuration and both files.
    """
    run = _validated(Run, dict(config), CONFIG_FILE)
    problems: list[Problem] = []
    if run.again is not None and run.again not in FLAGS:
        problems.append(Problem("again", repr(run.again), suggest(run.again, FLAGS), CONFIG_FILE))
    sweep = _attempt(problems, lambda: _read("sweep", run.sweep, root))
    asked = sweep and _attempt(problems, lambda: _validated(Sweep, sweep.content, sweep.shown))
    testbed = _attempt(problems, lambda: _read("testbed", run.testbed, root))
    settings = testbed and _attempt(problems, lambda: _testbed(testbed, root))
    source = _attempt(problems, lambda: _source(run, root))
    sides = _attempt(problems, lambda: _sides(run, root))
    cited = _attempt(problems, lambda: _citation(root))
    raise_any(problems)
    assert sweep and asked and testbed and settings
    with within(sweep.shown):
        grid = expand(asked, settings.defaults(chosen(asked.parameters)))
    return Configuration(
        name=sweep.name,
        sweep=asked,
        sweep_file=sweep.shown,
        testbed_name=testbed.name,
        testbed=settings,
        testbed_file=testbed.shown,
        results=Path(run.results),
        grid=grid if run.only is None else _only(grid, run.only, root),
        run=run,
        source=source,
        comparison=sides,
        citation=cited,
    )


def files_of(configuration: Configuration, root: Path) -> dict[str, list[Path]]:
    """Give the files that a configuration was read from: those of its sweep, and of its testbed with all its bases."""
    run = configuration.run
    found: dict[str, list[Path]] = {"sweep": [], "testbed": []}
    for key, files in found.items():
        name: Any = getattr(run, key)
        while isinstance(name, str):
            read = _read(key, name, root)
            files.append(_ours_or_shipped(root, Path(read.shown), is_file))
            name = read.content.get("base")
    return found


def wanted(configuration: Configuration, cell: Cell) -> dict[str, Any]:
    """Give the specification that a cell's file must embed: where it differs, the cell is stale.

    It holds what a measurement depends on and nothing of the grid's shape, so that a new value on an axis
    leaves the cells that there are alone. It is the same after a round trip through JSON.
    """
    conditions = configuration.testbed.conditions(cell.parameters)
    return {
        "format": FORMAT,
        "sweep": configuration.name,
        "parameters": cell.parameters.model_dump(),
        "repetition": cell.repetition,
        **configuration.shared,
        **({CONDITIONS: conditions} if conditions else {}),
    }


class _File(NamedTuple):
    name: str
    """What results are named by."""
    shown: str
    """What errors call it."""
    content: dict[str, Any]


def _read(key: str, name: str, root: Path, folder: str | None = None) -> _File:
    """The file that a name or a path means. Its stem names results, and so must be a word."""
    known = _ours_or_shipped(root, Path("config", folder or f"{key}s"))
    path = _ours_or_shipped(root, Path(name), is_file) if name.endswith(".yaml") else known / f"{name}.yaml"
    if not is_file(path):
        names = sorted(file.stem for file in known.glob("*.yaml"))
        allowed = f"{suggest(name, names)}, or the path of a file that ends in .yaml"
        raise refused(key, quoted(name), allowed, CONFIG_FILE)
    if not re.fullmatch(WORD, path.stem) or len(path.stem) > LONGEST_NAME // 2:
        allowed = f"a file name of at most {LONGEST_NAME // 2} letters, digits, '.', '_' and '-'"
        raise refused(key, quoted(name), allowed, CONFIG_FILE)
    shown = next(
        (str(path.relative_to(here)) for here in (root, SHIPPED) if path.is_relative_to(here)), str(path)
    )
    try:
        return _File(path.stem, shown, yaml_file.read(path, shown))
    except OSError as error:
        raise refused(key, f"{name!r} ({error.strerror})", "a file that can be read", CONFIG_FILE) from error


def _ours_or_shipped(root: Path, path: Path, is_there: Callable[[Path], bool] = Path.is_dir) -> Path:
    """A folder below the root, or what else `is_there` looks for; where it has none, that of the checkout."""
    ours, theirs = root / path, SHIPPED / path
    return theirs if not is_there(ours) and is_there(theirs) else ours


def _validated(model: type[Model], content: Mapping[str, Any], file: str) -> Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        with within(file):
            raise ConfigurationError(from_pydantic(error, model)) from error


def _attempt(problems: list[Problem], read: Callable[[], Part]) -> Part | None:
    """What `read` returns, or None with its problems kept, so that those of all files are said together."""
    try:
        return read()
    except ConfigurationError as error:
        problems += error.problems
        return None


def _testbed(file: _File, root: Path) -> Testbed:
    content = _on_base(file, root)
    kind = content.get("kind")
    if kind not in list(KINDS):
        given = quoted(kind) if "kind" in content else "nothing"
        meant = kind if isinstance(kind, str) else given
        raise refused("kind", given, suggest(meant, KINDS), file.shown)
    return _validated(KINDS[kind], content, file.shown)


def _on_base(file: _File, root: Path, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """A simulated testbed's content, over that of its base: parameter by parameter, and the claims of both."""
    content, base = file.content, file.content.get("base")
    if content.get("kind") != "simulation" or not isinstance(base, str):
        return content
    try:
        below_file = _read("base", base, root, folder="testbeds")
    except ConfigurationError as error:
        raise ConfigurationError([replace(p, file=file.shown) for p in error.problems]) from error
    if below_file.shown in (file.shown, *above):
        raise refused("base", repr(base), "a file that is not based on this one", file.shown)
    below = _on_base(below_file, root, (file.shown, *above))
    if below.get("kind") != "simulation":
        raise refused("base", repr(base), "a testbed of kind simulation", file.shown)

    def over(key: str, kind: type, join: Callable[[Any, Any], Any]) -> Any:
        """Both values, joined; or the one that is of another kind, which is refused later."""
        values = [kind() if (value := part.get(key)) is None else value for part in (below, content)]
        wrong = [value for value in values if not isinstance(value, kind)]
        return wrong[0] if wrong else join(*values)

    def both(ours: list[Any], theirs: list[Any]) -> list[Any]:
        return [*ours, *(claim for claim in theirs if claim not in ours)]

    return {
        **below,
        **content,
        "parameters": over("parameters", dict, operator.or_),
        "inputs": over("inputs", list, both),
        "assumptions": over("assumptions", dict, operator.or_),
    }


def _citation(root: Path) -> Citation | None:
    path = root / citation.FILE
    return citation.read(path, str(citation.FILE)) if is_file(path) else None


def _source(run: Run, root: Path) -> Source | None:
    if run.source is None:
        return None
    if run.source.endswith((SUFFIX, STORE)):
        return Source(_dataset_name(run.source, root), None, Path(run.source))
    read = _read("source", run.source, root, folder="imports")
    settings = _validated(Import, read.content, read.shown)
    # A sweep of that name would be written to the same folder.
    if (_ours_or_shipped(root, Path("config", "sweeps")) / f"{read.name}.yaml").exists():
        raise refused("source", repr(run.source), "a name that no sweep has", CONFIG_FILE)
    file = settings.file if run.file is None else run.file
    if file is None or not is_file(root / file):
        given = "nothing" if file is None else quoted(file)
        where = read.shown if run.file is None and file is not None else CONFIG_FILE
        raise refused("file", given, "the path of a CSV or Parquet file, as in --config file=PATH", where)
    return Source(read.name, settings, Path(file))


def _dataset_name(source: str, root: Path) -> str:
    """What results of a dataset are named by: its file; of one in a folder of results, which are all alike, that."""
    path = root / source
    if not (path.is_dir() if source.endswith(STORE) else is_file(path)):
        known = (
            [*path.parent.glob(f"*{SUFFIX}"), *path.parent.glob(f"*{STORE}")] if path.parent.is_dir() else []
        )
        near = sorted(file.name for file in known)
        allowed = (
            f"the path of a dataset that is there; {path.parent} has {', '.join(near[:_LISTED]) or 'none'}"
        )
        raise refused("source", quoted(source), allowed, CONFIG_FILE)
    name = path.name if path.stem != Path(DATASET).stem else f"{path.resolve().parent.name}{path.suffix}"
    if not re.fullmatch(WORD, name) or len(name) > LONGEST_NAME:
        allowed = f"a file name of at most {LONGEST_NAME} letters, digits, '.', '_' and '-'"
        raise refused("source", quoted(source), allowed, CONFIG_FILE)
    return name


def _sides(run: Run, root: Path) -> tuple[Side, Side] | None:
    texts = {"base": run.base, "new": run.new}
    if not any(text is not None for text in texts.values()):
        return None
    problems = [
        Problem(key, "nothing", "base and new, or neither", CONFIG_FILE)
        for key, text in texts.items()
        if text is None
    ]
    if run.source is not None:
        problems.append(Problem("source", repr(run.source), "none with base and new", CONFIG_FILE))
    raise_any(problems)
    results = root / run.results
    with within(CONFIG_FILE):
        base = _attempt(problems, lambda: side("base", str(run.base), results))
        new = _attempt(problems, lambda: side("new", str(run.new), results))
        raise_any(problems)
    assert base and new
    return base, new


def _only(grid: Grid, name: str, root: Path) -> Grid:
    """The cells of a grid that a file lists; its axes stay as they are."""
    try:
        paths: Any = json.loads((root / name).read_text())
    except (OSError, ValueError, RecursionError) as error:
        allowed = "a JSON file with a list of paths of cells"
        raise refused("only", f"{name!r} ({error})", allowed, CONFIG_FILE) from error
    listed = isinstance(paths, list) and all(isinstance(path, str) for path in paths)
    wrong = [path for path in paths if path not in grid.by_path] if listed else paths
    if wrong or not paths:
        allowed = f"a list of the sweep's cells, such as {json.dumps([grid.cells[0].path])}"
        raise refused("only", quoted(wrong), allowed, name)
    kept = set(paths)
    return replace(grid, cells=tuple(cell for cell in grid.cells if cell.path in kept))
