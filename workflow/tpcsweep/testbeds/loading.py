# SPDX-License-Identifier: Apache-2.0
"""Load the studies of the workflow's configuration: sweeps on testbeds, or an existing dataset."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from tpcsweep.common.files import is_file
from tpcsweep.common.installation import SHIPPED
from tpcsweep.data.importing.import_settings import TAKEN, Import
from tpcsweep.data.places import DATASET, NAME_CHARACTERS, DatasetStudy, load_dataset
from tpcsweep.sweeps import citation
from tpcsweep.sweeps.parameters import WORD, AnyText, Parameters, Strict, Text, selected_parameters
from tpcsweep.sweeps.problems import (
    ConfigurationError,
    Problem,
    fault,
    in_file,
    quoted,
    raise_any,
    read_yaml,
    refused,
    suggest,
    validated,
)
from tpcsweep.sweeps.scaling import scaled
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.sweep import Factor, Sweep, expand
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.kubernetes.settings import Kubernetes
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.simulation.settings import Simulation

Testbed = Netns | Kubernetes | Endpoints | Simulation

KINDS: dict[str, type[Testbed]] = {
    "netns": Netns,
    "kubernetes": Kubernetes,
    "endpoints": Endpoints,
    "simulation": Simulation,
}
"""Settings of each kind of testbed, by the value of `kind`."""


CONFIG_FILE = "config/config.yaml or --config"
"""The workflow's configuration, in error messages: Snakemake does not record where a value came from."""

_FOLDERS = {"sweep": ("sweeps", "published"), "testbed": ("testbeds",), "import": ("imports",)}
"""The folders of config/ that are searched for each type of file, in order."""
_NO_NUMBER = "text, and YAML reads this as another type: choose a name such as run-007"
_LISTED = 8  # files that an error lists

Part = TypeVar("Part")


def _text(value: object) -> object:
    if value is not None and not isinstance(value, str):
        raise fault(_NO_NUMBER)
    return value


def _place(value: object) -> object:
    # YAML would cut off a comment and read a colon with a blank as a mapping.
    if re.search(r"[{}<>\n]| #|: |^-", str(_text(value))):
        raise fault("a path without { } < > ' #' ': ' and line breaks that does not begin with -")
    return value


def _names(value: object) -> object:
    """Split a text at its commas, because `--config` has no lists. The path of an existing file is a single name."""
    if isinstance(value, str):
        one = any(is_file(Path(path)) for path in (value, value.rpartition("@")[0]))
        value = [value] if one else value.split(",")
    if not isinstance(value, list):
        return _text(value)
    for name in value:
        _text(name)
    if value and not all(name and name.strip() for name in value):
        raise fault("names of sweeps, as in sweep=demo,smoke", quoted(value))
    return [name.strip() for name in value]


_NAMES = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
Names = Annotated[tuple[AnyText, ...], BeforeValidator(_names), Field(min_length=1), WithJsonSchema(_NAMES)]


class WorkflowSettings(Strict):
    """The keys of config/config.yaml and of `--config`."""

    sweep: Names
    """sweeps to run, a list or separated by commas: each the name of a file in config/sweeps or
    config/published, or a path that ends in .yaml; NAME@TESTBED runs a sweep on another testbed
    """
    testbed: Annotated[AnyText, BeforeValidator(_text)]
    """testbed of the sweeps without an @: the name of a file in config/testbeds, or a .yaml path"""
    results: Annotated[Text, BeforeValidator(_place)] = "results"
    """folder for results"""
    dataset: Annotated[AnyText, BeforeValidator(_place)] | None = None
    """existing dataset, a path that ends in .nc or .zarr: makes its figures, models and page, and measures
    no sweep
    """
    scale: Factor | None = None
    """factor for the bandwidths, cores, file sizes and buffers of the sweeps, such as 1/200"""
    fail_on: Literal["any", "all", "none"] = "any"
    """when a run exits with 1 although its jobs went well; any: if a cell could not be measured, or all
    cells of a sweep failed; all: if a sweep has no measured cell; none: never
    """
    notify: AnyText | None = None
    """shell command that runs at the end of a run, with TPCSWEEP_SWEEP, TPCSWEEP_STATUS and others in its
    environment
    """


Study = SweepStudy | DatasetStudy


def studies(config: Mapping[str, Any], root: Path, only: str | None = None) -> dict[str, Study]:
    """Load all studies of the workflow's `config`, or `only` one of them, by the names of their folders.

    Files are relative to `root`. A folder of config/ that `root` lacks is taken from the checkout, because a workflow
    that uses this one as a module may define its own sweeps and use the default testbeds. Raises ConfigurationError
    with one line for each problem in the configuration and in all files.
    """
    settings = validated(WorkflowSettings, dict(config), CONFIG_FILE)
    results = Path(settings.results)
    if file := next((path for path in (results, *results.parents) if is_file(root / path)), None):
        raise refused("results", quoted(settings.results), f"a folder; {file} is a file", CONFIG_FILE)
    if settings.dataset is not None:
        study = load_dataset(settings.dataset, Path(settings.results), root, CONFIG_FILE)
        _require_no_sweep(root / study.folder, root / study.file)
        return {study.name: study}
    names = [name for name in settings.sweep if only is None or _may_be(only, name, settings, root)]
    problems: list[Problem] = []
    read = [_attempt(problems, partial(_load, name, settings, root)) for name in names]
    raise_any(dict.fromkeys(problems))
    valid = [study for study in read if study is not None]
    for folder, times in Counter(study.folder.name for study in valid).items():
        if times > 1:
            raise refused("sweep", f"{folder} {times} times", "each sweep once", CONFIG_FILE)
    return {study.folder.name: study for study in valid}


def load(config: Mapping[str, Any], root: Path) -> SweepStudy:
    """Load a single sweep with `studies`. Raises ConfigurationError for several sweeps and for a dataset."""
    loaded = list(studies(config, root).values())
    if len(loaded) > 1:
        raise refused("sweep", ", ".join(study.name for study in loaded), "one sweep", CONFIG_FILE)
    if not isinstance(loaded[0], SweepStudy):
        raise refused("dataset", quoted(config.get("dataset")), "a sweep", CONFIG_FILE)
    return loaded[0]


def _require_no_sweep(folder: Path, dataset: Path) -> None:
    """Refuse a results folder that contains cells, unless the dataset is the folder's own."""
    cells = [name for name in ("cells", "cells.jsonl") if (folder / name).exists()]
    own = folder / DATASET
    if cells and not (own.exists() and own.samefile(dataset)):
        allowed = f"another name of the file, or results=OTHER, because {folder / cells[0]} is a sweep's"
        raise refused("dataset", quoted(str(dataset)), allowed, CONFIG_FILE)


def load_import(name: str, root: Path) -> tuple[str, Import]:
    """Read a file of config/imports by name or path; return the name of its study and its settings."""
    read = _read("import", name, root)
    if any(is_file(known / f"{read.name}.yaml") for known in _known("sweep", root)):
        raise refused("import", repr(name), "a name that no sweep has")
    return read.name, validated(Import, read.content, read.shown)


def _parts(name: str, settings: WorkflowSettings, root: Path) -> tuple[str, str]:
    """Return the sweep and the testbed of a name, which are names or paths."""
    sweep_name, at, testbed_name = (name, "", "") if is_file(root / name) else name.rpartition("@")
    return (sweep_name, testbed_name) if at else (name, settings.testbed)


def _study_name(sweep: str, scale: str | None) -> str:
    return sweep if scale is None else f"{sweep}_scaled_{scale.replace('/', '_')}"


def _may_be(folder: str, name: str, settings: WorkflowSettings, root: Path) -> bool:
    """Return whether a name can be the one of a study's folder, without reading any file."""
    sweep, testbed = (Path(part.removesuffix(".yaml")).name for part in _parts(name, settings, root))
    study = _study_name(sweep, settings.scale)
    return folder in (study, f"{study}@{testbed}")


def _load(name: str, settings: WorkflowSettings, root: Path) -> SweepStudy:
    sweep_name, testbed_name = _parts(name, settings, root)
    problems: list[Problem] = []
    sweep = _attempt(problems, lambda: _read("sweep", sweep_name, root))
    of_testbed: list[Problem] = []
    testbed = _attempt(of_testbed, lambda: _read("testbed", testbed_name, root))
    on = testbed and _attempt(of_testbed, lambda: _testbed(testbed, root))
    any_setting = not testbed or "settings" in testbed.content  # if the testbed is wrong
    known = {"settings": on.settings_values if on else None if any_setting else {}}
    valid_sweep = sweep and _attempt(problems, lambda: validated(Sweep, sweep.content, sweep.shown, known))
    problems += of_testbed
    cited = _attempt(problems, lambda: citation.read_in(root))
    raise_any(problems)
    assert sweep and valid_sweep and testbed and on
    with in_file(sweep.shown):
        if settings.scale is not None:
            valid_sweep = scaled(valid_sweep, settings.scale, on.kind)
        valid_sweep = on.completed(valid_sweep)
        grid = expand(valid_sweep, on.defaults(selected_parameters(valid_sweep.parameters)))
    given = {"sweep": sweep_name, "testbed": testbed_name, "results": settings.results}
    return SweepStudy(
        name=_study_name(sweep.name, settings.scale),
        sweep=valid_sweep,
        sweep_file=sweep.shown,
        testbed_name=testbed.name,
        testbed=on,
        testbed_file=testbed.shown,
        results=Path(settings.results),
        grid=grid,
        requested={**given, **({} if settings.scale is None else {"scale": settings.scale})},
        citation=cited,
    )


def source_files(study: SweepStudy, root: Path) -> dict[str, list[Path]]:
    """Return the files of a configuration's sweep, and of its testbed with all base testbeds."""
    sweep, testbed = (_read(key, study.requested[key], root) for key in ("sweep", "testbed"))
    return {"sweep": [sweep.path], "testbed": [file.path for file in _with_bases(testbed, root)]}


class _File(NamedTuple):
    name: str  # the file's stem, which names results
    shown: str  # the file's name in error messages
    path: Path
    content: dict[str, Any]


def _known(key: str, root: Path) -> list[Path]:
    return [_ours_or_shipped(root, Path("config", folder)) for folder in _FOLDERS[key]]


def _read(key: str, name: str, root: Path) -> _File:
    """Read a file by name or path. Its stem must be a word, because it names results."""
    known, named_in = _known(key, root), "" if key == "import" else CONFIG_FILE
    if name.endswith(".yaml"):
        path = _ours_or_shipped(root, Path(name), is_file)
    else:
        paths = [folder / f"{name}.yaml" for folder in known]
        path = next(filter(is_file, paths), paths[0])
    if not is_file(path):
        names = sorted(file.stem for folder in known for file in folder.glob("*.yaml"))
        place = " and ".join(f"config/{folder}" for folder in _FOLDERS[key])
        known_names = f"{suggest(name, names, _LISTED, place)}, or " if names else ""
        raise refused(key, quoted(name), f"{known_names}the path of a file that ends in .yaml", named_in)
    if not re.fullmatch(WORD, path.stem):
        raise refused(key, quoted(name), f"a file name of {NAME_CHARACTERS}", named_in)
    roots = (here for here in (root, SHIPPED) if path.is_relative_to(here))
    shown = str(next((path.relative_to(here) for here in roots), path))
    return _File(path.stem, shown, path, read_yaml(path, shown))


def _ours_or_shipped(root: Path, path: Path, is_there: Callable[[Path], bool] = Path.is_dir) -> Path:
    """Return a path below the root, or below the checkout if it exists only there."""
    ours, theirs = root / path, SHIPPED / path
    return theirs if not is_there(ours) and is_there(theirs) else ours


def _attempt(problems: list[Problem], read: Callable[[], Part]) -> Part | None:
    """Return the result of `read`, or None after adding its problems, so that one error reports all files."""
    try:
        return read()
    except ConfigurationError as error:
        problems += error.problems
        return None


def _testbed(file: _File, root: Path) -> Testbed:
    content = reduce(_overridden, (each.content for each in reversed(_with_bases(file, root))))
    kind = content.get("kind")
    if kind not in list(KINDS):
        given = quoted(kind) if "kind" in content else "nothing"
        meant = kind if isinstance(kind, str) else given
        raise refused("kind", given, suggest(meant, KINDS), file.shown)
    testbed = validated(KINDS[kind], content, file.shown)
    allowed = "a name that is no parameter and no variable of datasets"
    taken = {*TAKEN, *Parameters.model_fields, "deployment"}
    wrong = (name for name in testbed.settings if name in taken)
    raise_any(Problem("settings", name, allowed, file.shown) for name in wrong)
    return testbed


def _with_bases(file: _File, root: Path) -> list[_File]:
    """Return a testbed's file, followed for a simulated one by its base, the base's base, and so on."""
    files = [file]
    while files[-1].content.get("kind") == "simulation":
        shown, base = files[-1].shown, files[-1].content.get("base")
        if not isinstance(base, str):
            break
        with in_file(shown):
            below = _read("testbed", base, root)
        if any(below.shown == each.shown for each in files):
            raise refused("base", repr(base), "a file that is not based on this one", shown)
        if below.content.get("kind") != "simulation":
            raise refused("base", repr(base), "a testbed of kind simulation", shown)
        files.append(below)
    return files


def _overridden(base: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """Merge a testbed's content over that of its base: parameters by name, and the claims of both."""
    joined = {**base, **content}
    empties: dict[str, Any] = {"parameters": {}, "assumptions": {}, "inputs": []}
    for key, empty in empties.items():
        theirs, ours = base.get(key) or empty, content.get(key) or empty
        if isinstance(theirs, dict) and isinstance(ours, dict):
            joined[key] = theirs | ours
        elif isinstance(theirs, list) and isinstance(ours, list):
            joined[key] = [*theirs, *(claim for claim in ours if claim not in theirs)]
    return joined
