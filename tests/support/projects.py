# SPDX-License-Identifier: Apache-2.0
"""A project with one sweep and one testbed, what is wrong with its texts, and tables of that."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.loading import load
from tpcsweep.testbeds.netns.checks import NetnsMachine, check

from tests.support.workflow import ROOT

STORES: dict[str, Any] = {"memory": 16 * 2**30, "disk": 8 * 2**30, "disk_kind": "ext4"}
MACHINE = NetnsMachine(cpus=2, smallest_rtt=0.2, congestion_controls=["cubic", "reno"], **STORES)


def loaded(root: Path, sweep: str | None = None, testbed: str | None = None, **config: Any) -> SweepStudy:
    for folder, text in (("sweeps", sweep), ("testbeds", testbed)):
        if text is not None:
            (root / "config" / folder / "one.yaml").write_text(text)
    return load({"sweep": "one", "testbed": "one"} | config, root)


def study_of(folder: Path, testbed: str = "netns", /, **sweep: Any) -> SweepStudy:
    """A sweep on a testbed that ships, with its file `mine.yaml` and its results in a folder."""
    (folder / "mine.yaml").write_text(yaml.safe_dump(sweep))
    asked = {"sweep": f"{folder}/mine.yaml", "testbed": testbed, "results": f"{folder}/results"}
    return load(asked, ROOT)


def errors(root: Path, sweep: str | None = None, testbed: str | None = None, **config: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as error:
        loaded(root, sweep, testbed, **config)
    return str(error.value).splitlines()


def problems(root: Path, sweep: str, testbed: str | None = None, **machine: Any) -> list[str]:
    return [str(found) for found in check(loaded(root, sweep, testbed), replace(MACHINE, **machine))]


def cases(text: str) -> list[tuple[str, list[str]]]:
    """The lines of a table that begin at the margin, each with those below it; 2 or 8 spaces continue a line.

    Below, "key: 1 → 2" is short for "key: given 1, allowed: 2".
    """
    found: list[tuple[str, list[str]]] = []
    for line in re.sub(r"\n( {2}| {8})(?=\S)", " ", text.strip()).splitlines():
        if line.startswith(" "):
            found[-1][1].append(re.sub("^(.*?): (.*?) → ", r"\1: given \2, allowed: ", line.strip()))
        else:
            found.append((line, []))
    return found
