# SPDX-License-Identifier: Apache-2.0
"""Several sweeps in one run: one after another, each by a Snakemake of its own that is asked for the same."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpcsweep.configuration.loading import CONFIG_FILE, Configuration, ConfigurationError, load
from tpcsweep.configuration.problems import quoted, raise_any, refused
from tpcsweep.files import is_file
from tpcsweep.linux import signals
from tpcsweep.running import scripts
from tpcsweep.running.rules import Targets

_ELSEWHERE = {"source", "base", "new"}
"""Keys of data that are there: no sweep is read beside them."""
_ONE = "TPCSWEEP_ONE_OF_SEVERAL"
"""The environment variable that tells a Snakemake which of the sweeps is its own."""


def sweeps(config: Mapping[str, Any]) -> list[str]:
    """Give the sweeps that a configuration names, one or more: as a list, or in a text with commas.

    Raises:
        ConfigurationError: for a name that is none, and for one that is there twice.
    """
    given = config.get("sweep")
    if isinstance(given, str):
        named: list[Any] = [given] if is_file(Path(given)) else given.split(",")
    elif isinstance(given, list):
        named = given
    else:
        return []
    if not named or not all(isinstance(name, str) and name.strip() for name in named):
        raise refused("sweep", quoted(given), "names of sweeps, as in sweep=demo,smoke", CONFIG_FILE)
    named = [name.strip() for name in named]
    # Results are named by the stems of files.
    for stem, times in Counter(Path(name).stem if name.endswith(".yaml") else name for name in named).items():
        if times > 1:
            raise refused("sweep", f"{stem} {times} times", "each sweep once", CONFIG_FILE)
    return named


def are_run(config: Mapping[str, Any], targets: Sequence[str], figures: Collection[str]) -> bool:
    """Whether a Snakemake is to run several sweeps, and not one of them, or nothing that is of a sweep.

    Args:
        config: the workflow's.
        targets: what was asked for.
        figures: the names of published figures, which are of no sweep.

    Raises:
        ConfigurationError: as `sweeps` does.
    """
    named = sweeps(config)
    if len(named) < 2 or os.environ.get(_ONE) in named or not _ELSEWHERE.isdisjoint(config):
        return False
    published = Path(str(config.get("results", "results")), "published")
    return Targets(targets, figures, published).of_configured_sweep


def one(config: Mapping[str, Any]) -> dict[str, str]:
    """Give what a configuration is to say of its one sweep: of several that which this Snakemake was started for.

    Where it was started for none of them, as nothing of a sweep is asked for, it is the first.
    """
    named = sweeps(config)
    mine = os.environ.get(_ONE)
    return {"sweep": mine if mine in named else named[0]} if named else {}


def each(config: Mapping[str, Any], root: Path) -> list[Configuration]:
    """Give the configuration of each sweep.

    Raises:
        ConfigurationError: with what is wrong in any of them.
    """
    problems, loaded = [], []
    for name in sweeps(config):
        try:
            loaded.append(load({**config, "sweep": name}, root))
        except ConfigurationError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    raise_any(problems)
    return loaded


def run(config: Mapping[str, Any], root: Path, arguments: Sequence[str]) -> str:
    """Run a command line of Snakemake's for each sweep in turn; what to say of those that did not end well.

    All are looked through first. One that does not end well keeps the others from nothing.

    Raises:
        ConfigurationError: with what is wrong in any of them.
    """
    failed, configurations = [], each(config, root)
    for number, (name, configuration) in enumerate(zip(sweeps(config), configurations, strict=True), start=1):
        sys.stderr.write(f"sweep {number} of {len(configurations)}: {configuration.name}\n")
        os.environ[_ONE] = name
        with signals.interruptible():
            if code := scripts.start([sys.executable, "-m", "snakemake", *arguments]):
                failed.append(f"{configuration.name}: ended with status {code}")
    if is_file(page := configurations[0].results / "index.html"):
        sys.stderr.write(f"all sweeps: {page}\n")
    return "\n".join(failed)
