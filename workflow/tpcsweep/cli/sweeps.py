# SPDX-License-Identifier: Apache-2.0
"""Commands on the configured sweep: its folder, grid, cells, testbed and dataset so far."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpcsweep.cli import options as common
from tpcsweep.common.numbers import counted, short

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tpcsweep.sweeps.parameters import Value
    from tpcsweep.sweeps.study import Configuration

PARTS = ("config", "profiles")
"""Folders that `init` copies because users change them; rules and notebooks remain in the package."""
PROFILES = ("k8s", "slurm")
"""Links to profiles, so that `snakemake --profile k8s` finds them as in the checkout."""


@click.command()
@common.study_options
@common.as_json
def grid(as_json: bool, **options: str | None) -> None:
    """Show the axes, cells, deployments and expected time of a sweep. Nothing is measured.

    Exit codes: 0 the testbed can run the sweep, 2 it cannot.

    Example: tpcsweep grid --sweep smoke
    """
    from tpcsweep.running.studies import require_runnable
    from tpcsweep.sweeps.problems import ConfigurationError

    study = common.load_study(**options)
    with common.exit_on(ConfigurationError):
        require_runnable(study)
    axes = {name: list(values) for name, values in study.grid.axes.items()}
    cells = [cell.path for cell in study.grid.cells]
    common.answer(as_json, {"study": study.folder.name, "axes": axes, "cells": cells}, grid_table(study))


def grid_table(study: Configuration) -> RenderableType:
    """Return the summary, the axes with their values, and a row for each deployment, in the order of measuring."""
    from rich.console import Group
    from rich.table import Table

    from tpcsweep.sweeps.parameters import show_value

    grid = study.grid
    axes = Table("axis", "values")
    for name, values in grid.axes.items():
        axes.add_row(name, _values(name, values))
    deployments = Table("order", *grid.cells[0].deployment.values, "cells", "with")
    for order, path in enumerate(sorted(grid.deployments, key=grid.rank.__getitem__, reverse=True), start=1):
        cells = grid.deployments[path]
        shown = (show_value(name, value) for name, value in cells[0].deployment.values.items())
        settings = []
        for name in cells[0].setting.values:
            held = {cell.setting.values[name] for cell in cells}
            settings.append(f"{name} {_values(name, (value for value in grid.axes[name] if value in held))}")
        deployments.add_row(str(order), *shown, str(len(cells)), "; ".join(settings))
    return Group(grid_summary(study), axes, deployments)


def grid_summary(study: Configuration) -> str:
    """Describe the grid in one line: demo on netns: 32 cells in 8 deployments (…), about 3 to 7 min."""
    from tpcsweep.sweeps.sweep import REPETITION, expected_seconds

    grid, testbed = study.grid, study.testbed
    axes = " × ".join(f"{len(values)} {name}" for name, values in grid.axes.items() if name != REPETITION)
    parts = [*([axes] if axes else []), counted(study.sweep.repetitions, "repetition")]
    cells, deployments = counted(len(grid.cells), "cell"), counted(len(grid.deployments), "deployment")
    low, high = expected_seconds(grid, testbed.deploy_seconds, testbed.cell_seconds)
    expected = "about " + " to ".join(dict.fromkeys(map(_duration, (low, high))))
    if testbed.simulated:
        seconds = len(grid.deployments) * testbed.deploy_seconds + len(grid.cells) * testbed.cell_seconds
        expected = f"simulated: about {_duration(seconds)} of CPU time"
    if (moved := testbed.most_bytes(grid)) is not None:
        from tpcsweep.testbeds.rules import rounded

        expected += f", at most {rounded(int(moved))} moved" if moved < inf else ", any number of bytes moved"
    return f"{study.name} on {study.testbed_name}: {cells} in {deployments} ({', '.join(parts)}), {expected}"


def _values(name: str, values: Iterable[Value]) -> str:
    from tpcsweep.sweeps.parameters import show_value

    return ", ".join(show_value(name, value) for value in values)


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{short(seconds / size, 2)} {unit}"
    return f"{seconds:.0f} s"


@click.command()
@common.study_options
@click.option("--flag", metavar="FLAG", help="Print the files of the cells that carry this flag, one a line.")
@common.as_json
def status(flag: str | None, as_json: bool, **options: str | None) -> None:
    """Count the cells of a sweep: measured, flagged, failed, left.

    During a run it adds the time left, the last cells and the deployment that is being measured.

    Example: tpcsweep status --sweep demo

    Measure the disturbed cells again: rm $(tpcsweep status --flag disturbed) && snakemake
    """
    from tpcsweep.data.flags import FLAGS
    from tpcsweep.running.status import count_cells, flagged_files, run_under_way, status_table
    from tpcsweep.sweeps.problems import suggest

    if flag is not None and flag not in FLAGS:
        raise click.BadParameter(f"no flag {flag!r}: {suggest(flag, FLAGS)}", param_hint="--flag")
    study = common.load_study(**options)
    if flag is not None:
        for file in flagged_files(study, flag):
            click.echo(os.fsencode(file))
        return
    counts = count_cells(study)
    run = run_under_way(study.folder)
    content = {"study": study.folder.name, **counts.to_dict(), "run": run or None}
    common.answer(as_json, content, status_table(study, counts))


@click.command()
@click.argument("name", metavar="[TESTBED]", required=False, type=common.TESTBED)
@common.study_options
@click.option(
    "--print", "printed", is_flag=True, help="Print the objects that a Kubernetes cluster would get."
)
@common.as_json
def check(name: str | None, printed: bool, as_json: bool, **options: str | None) -> None:
    """Check whether a testbed works, and whether it can run a sweep. No cell is measured.

    With TESTBED and without --sweep, only the testbed is checked. Prints a row for each check, with the reason of each
    failure. Exit codes: 0 all checks passed, 1 a check failed, 2 a file is wrong.

    Example: tpcsweep check endpoints
    """
    alone = name is not None and options["sweep"] is None
    study = common.load_study(**options | ({"testbed": name} if name else {}))
    import yaml
    from rich.markup import escape
    from rich.table import Table

    from tpcsweep.common.extras import missing_extras
    from tpcsweep.common.signals import interruptible
    from tpcsweep.running.runner import deployment_errors
    from tpcsweep.testbeds import interface, kinds, support

    if printed:
        manifests = getattr(kinds.load_testbed(study.testbed.kind), "manifests", None)
        if manifests is None:
            raise click.UsageError(f"--print: testbed {study.testbed_name} is not of kind kubernetes")
        click.echo(yaml.safe_dump_all(manifests(study), sort_keys=False), nl=False)
        return
    found: list[interface.Finding] = []
    if not alone:
        problems = [*map(str, support.check(study)), *missing_extras(support.extras(study))]
        found += [interface.Finding(study.name, "can be run", "failed", problem) for problem in problems]
    try:
        with interruptible():  # Ctrl-C ends a trial in order
            found += kinds.findings(study)
    except deployment_errors(study) as error:
        found.append(interface.Finding(study.testbed_name, "can deploy", "failed", str(error)))
    table = Table("subject", "check", "status", "reason")
    for one in found:
        table.add_row(one.subject, one.check, one.status, escape(one.reason))
    failed = [one for one in found if one.status == "failed"]
    label = study.testbed_name if alone else study.folder.name
    verdict = f"{len(failed)} of {len(found)} checks failed" if failed else "all checks passed"
    content = {"study": label, "findings": [vars(one) for one in found]}
    common.answer(as_json, content, table, f"{label}: {verdict}")
    sys.exit(bool(failed))


@click.command()
@common.study_options
@common.as_json
def reap(as_json: bool, **options: str | None) -> None:
    """Remove servers and paths that killed runs left on a testbed.

    On this machine it removes those of root, as root: the kernel removes those of other users. Exit codes: 0 nothing is
    left, 2 something could not be removed, or a deployment is in use.

    Example: tpcsweep reap --testbed kubernetes
    """
    from tpcsweep.running.runner import deployment_errors
    from tpcsweep.testbeds import kinds

    study = common.load_study(**options)
    with common.exit_on(*deployment_errors(study)):
        reaped = kinds.load_testbed(study.testbed.kind).reap(study.testbed)
    unseen = study.testbed.kind == "netns" and os.geteuid() != 0
    nothing = "nothing was left" + " of this user. For leftovers of root run it as root." * unseen
    lines = [f"reaped: {thing}" for thing in reaped or [nothing]]
    common.answer(as_json, {"testbed": study.testbed_name, "reaped": reaped}, *lines)


@click.command()
@common.study_options
@common.output_option(
    "FILE.nc", "File to write. By default dataset.nc in the folder of results.", dir_okay=False
)
@common.as_json
def dataset(output: Path | None, as_json: bool, **options: str | None) -> None:
    """Make the dataset of the cells that were measured so far. Nothing is measured.

    While a run is under way, the file is partial.nc: the run itself makes dataset.nc. With -o, the folder of results is
    only read. Exit codes: 0 the dataset is written, 2 no cell was measured.

    Example: tpcsweep dataset --sweep surface
    """
    study = common.load_study(**options)
    from tpcsweep.data.reduction import DatasetError
    from tpcsweep.running import run_lock, staging, study_dataset
    from tpcsweep.running.status import count_cells

    if not study.folder.is_dir():
        raise click.UsageError(f"{study.folder}: no cells yet. Run `{study.command}`.")
    if study.testbed.simulated and not study.cells_file.exists():
        raise click.ClickException(f"{study.cells_file}: no such file. Run `{study.command}`.")
    processes, running = os.cpu_count() or 1, False
    with common.exit_on(DatasetError, run_lock.ResultsError):
        if output is not None and not common.is_same(output, study.folder / "dataset.nc"):
            study_dataset.fold_snapshot(study, output, processes)
        else:
            common.require_writable(study.folder, "FILE.nc")
            output = study.folder / "dataset.nc"
            try:
                run_lock.lock_results(study.folder)
                if not study.testbed.simulated:
                    staging.adopt(study)
                study_dataset.fold_study(study, output, processes)
            except run_lock.HeldError:
                running, output = True, study.folder / study_dataset.PARTIAL
                study_dataset.fold_snapshot(study, output, processes)
    counts = count_cells(study)
    lines = [f"dataset: {output.absolute()}: {counts.measured + counts.failed} of {counts.cells} cells"]
    if running:
        lines.append(f"a run is under way: it makes {study.folder / 'dataset.nc'} at its end")
    elif counts.missing:
        lines.append(f"the others: {study.command}")
    common.answer(as_json, {"dataset": str(output), **counts.to_dict()}, *lines)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def init(folder: Path) -> None:
    """Make a folder for sweeps, with copies of the configuration.

    Nothing is overwritten: a folder that contains one of its files is refused. Exit codes: 0 the folder
    is made, 2 it is refused.

    Example: tpcsweep init sweeps
    """
    from tpcsweep.common.installation import PACKAGE, SHIPPED

    with common.exit_on():
        if found := [name for name in ("Snakefile", *PARTS, *PROFILES) if os.path.lexists(folder / name)]:
            raise click.UsageError(f"{folder} already contains {', '.join(found)}. Give another folder.")
        for part in PARTS:
            shutil.copytree(SHIPPED / part, folder / part)
        shutil.copy(PACKAGE / "pages/templates/Snakefile", folder)
        for name in PROFILES:
            (folder / name).symlink_to(f"profiles/{name}")
    click.echo(f"{folder.absolute()}: change config/, then run `snakemake` in that folder")
