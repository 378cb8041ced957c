# SPDX-License-Identifier: Apache-2.0
"""What a command line asks for in vain: targets that nothing makes, and keys of `--config` that nothing reads. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import PurePath

from tpcsweep.configuration.loading import Configuration
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.problems import Problem, hint, suggest
from tpcsweep.running.rules import Targets

_SHOWN = 12
"""Names of files that an error lists at most."""


def unknown(
    targets: Iterable[str],
    rules: Collection[str],
    files: Iterable[str],
    makes: Callable[[str], bool],
) -> Iterator[Problem]:
    """Give the targets that no rule makes, each with what was probably meant.

    Args:
        targets: rules and files that were asked for.
        rules: the names of all rules.
        files: files that rules make; those that are made only where they are asked for may be left out.
        makes: whether rules make a file.
    """
    files = list(files)
    for target in targets:
        if target in rules or (makes(target) and makes(_source(target))):
            continue
        parts = PurePath(os.path.normpath(target)).parts
        if len(parts) == 1:
            allowed = f"{hint(target, rules)}what `snakemake help` lists"
        else:
            allowed = _beside(parts, [PurePath(file).parts for file in (*files, *_pages(files))])
        yield Problem("target", repr(target), allowed, "command line")


def unread(
    given: Mapping[str, str], targets: Targets, configuration: Configuration, *, again: bool
) -> Iterator[Problem]:
    """Give the keys of `--config` that nothing reads which was asked for, each with what reads it.

    Args:
        given: the values that the command line gives.
        targets: what was asked for.
        configuration: the configuration with these values.
        again: whether cells are measured once more where the configuration says so.
    """
    in_file = f"parameters of the sweep are in its file, {configuration.sweep_file}"
    plan = "snakemake plan and snakemake recommendations alone"
    planned = targets.of_a_question(configuration.folder)
    readers: dict[str, tuple[bool, str]] = {
        **dict.fromkeys(Parameters.model_fields, (planned, f"{plan}: {in_file}")),
        **dict.fromkeys(("target", "probability"), (planned, plan)),
        "error": ("adaptive" in targets.names, "snakemake adaptive alone"),
        "scale": (targets.of_figures, "published figures alone, as in snakemake chep2024_fig4"),
        "file": (
            targets.of_figures
            or (configuration.source is not None and configuration.source.settings is not None),
            "data from elsewhere, with source=NAME, and published figures",
        ),
        "sweep": (configuration.measures, "what is measured, and source, or base and new, say what there is"),
        "notify": (configuration.measures, "the end of a run of a sweep"),
        "fail_below": (configuration.comparison is not None, "comparisons, with base=NAME new=NAME"),
        "fail_on": ("history" in targets.names, "snakemake history alone"),
        "again": (again, "runs that end with a report, as snakemake without a target"),
    }
    for key, value in given.items():
        is_read, by = readers.get(key, (True, ""))
        if not is_read:
            yield Problem(key, value, f"nothing here, as it is for {by}", "--config")


def _source(target: str) -> str:
    """The notebook that a page is made of; of other targets themselves."""
    path = PurePath(target)
    is_page = path.suffix == ".html" and "notebooks" in path.parts
    return str(path.with_suffix(".ipynb")) if is_page else target


def _pages(files: Iterable[str]) -> list[str]:
    """The pages that can be made of notebooks among some files."""
    pages = [str(PurePath(file).with_suffix(".html")) for file in files if file.endswith(".ipynb")]
    return [page for page in pages if _source(page) != page]


def _beside(parts: tuple[str, ...], made: Iterable[tuple[str, ...]]) -> str:
    """What is made in the folder from which on a path is none that is made."""
    rest = list(made)
    for depth, part in enumerate(parts):
        names = sorted({other[depth] for other in rest if len(other) > depth})
        if part not in names:
            where = str(PurePath(*parts[:depth])) if depth else "."
            return f"in {where}: {suggest(part, names, _SHOWN)}"
        rest = [other for other in rest if len(other) > depth and other[depth] == part]
    return "a file, and this is a folder"
