# SPDX-License-Identifier: Apache-2.0
"""A copy of the workflow with one sweep, whose cells are measured by the fakes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import yaml
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.loading import load

from tests.support import fakes, snakemakes, synthetic
from tests.support.workflow import ROOT, wait_until

CELLS = {"rtt": [5, 20], "streams": [1, 2]}


@dataclass
class Project:
    """The folder of a checkout, and next to it that of the fakes."""

    folder: Path
    _seen: int = field(default=0)

    @classmethod
    def at(cls, folder: Path, **sweep: Any) -> Project:
        """Copy the workflow, without the package, to a folder below this one."""
        project = cls(folder / "checkout")
        for part in ("workflow/rules", "workflow/scripts", "workflow/report", "profiles/default"):
            shutil.copytree(ROOT / part, project.folder / part)
        for file in ("Snakefile", "workflow/Snakefile", "config/config.yaml"):
            (project.folder / file).parent.mkdir(exist_ok=True)
            shutil.copyfile(ROOT / file, project.folder / file)
        for part in ("envs", "examples", "notebooks"):
            (project.folder / part).symlink_to(ROOT / part)
        (project.folder / "config/sweeps").mkdir()
        project.define(**sweep)
        project.fakes.mkdir()
        record = synthetic.cell(synthetic.specification({}))
        del record["spec"], record["provenance"]
        (project.fakes / "record.json").write_text(json.dumps(record))
        return project

    @property
    def fakes(self) -> Path:
        """Where the testbed is told what to do."""
        return self.folder.parent / "fakes"

    @property
    def env(self) -> dict[str, str]:
        path = [str(fakes.HERE), str(ROOT), str(ROOT / "workflow"), os.environ.get("PYTHONPATH", "")]
        return {fakes.FOLDER: str(self.fakes), "PYTHONPATH": os.pathsep.join(filter(None, path))}

    def define(self, name: str = "mine", **sweep: Any) -> None:
        content = {"parameters": {**CELLS, **sweep.pop("parameters", {})}, **sweep}
        (self.folder / f"config/sweeps/{name}.yaml").write_text(yaml.safe_dump({"seed": 0, **content}))

    def study(self, name: str = "mine") -> SweepStudy:
        return load({"sweep": name, "testbed": "netns", "results": str(self.results)}, self.folder)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def file(self, cell: str, name: str = "mine") -> Path:
        return self.results / name / "cells" / cell / "repetition=1.json"

    def run(self, *arguments: str, sweep: str = "mine") -> subprocess.CompletedProcess[str]:
        config = ["--config", f"sweep={sweep}"]
        return snakemakes.snakemake(*arguments, *config, folder=self.folder, env=self.env)

    def well(self, *arguments: str, sweep: str = "mine", code: int = 0) -> str:
        """Run Snakemake to an end with this exit code and no error, and return its output."""
        done = self.run(*arguments, sweep=sweep)
        assert done.returncode == code, done.stdout
        assert not re.search(r"Error|Traceback", done.stdout), done.stdout
        return done.stdout

    @property
    def output(self) -> Path:
        return self.folder.parent / "output"

    def hanging(self, cell: str, *arguments: str) -> tuple[BaseProcess, int]:
        """Start Snakemake, wait until a cell is being measured, and return both it and the pid of its job."""
        (self.fakes / "hang").write_text(cell)
        command = [*arguments, "--config", "sweep=mine"]
        process = snakemakes.start(*command, output=self.output, folder=self.folder, env=self.env)
        file = self.fakes / "hangs"
        wait_until(lambda: file.exists() and file.read_text(), "a cell is being measured")
        pid = int(file.read_text())
        file.unlink()
        return process, pid

    def go_on(self) -> None:
        (self.fakes / "hang").unlink()

    def measured(self) -> list[str]:
        """The cells that were measured since the last call."""
        return [line for line in self.log() if not line.startswith(("deploy ", "tear down "))]

    def log(self) -> list[str]:
        """What the testbed did since the last call."""
        file = self.fakes / "log"
        lines = file.read_text().splitlines() if file.exists() else []
        new, self._seen = lines[self._seen :], len(lines)
        return new

    def contents(self) -> dict[str, bytes]:
        cells = self.results / "mine/cells"
        return {str(file.relative_to(cells)): file.read_bytes() for file in cells.rglob("*.json")}
