# SPDX-License-Identifier: Apache-2.0
"""`tpcsweep adaptive`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from signal import SIGINT, SIGKILL
from typing import TYPE_CHECKING

import click

from tpcsweep.cli.common import load_study, reported, settings, study_options

if TYPE_CHECKING:
    from tpcsweep.configuration.loading import Configuration
    from tpcsweep.configuration.sweep import Cell

SNAKEFILES = ("Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile")
"""The files that Snakemake looks for in the current folder."""


def share(text: str) -> float:
    """Read a share between 0 and 1, such as 5%.

    Raises:
        click.BadParameter: for anything else.
    """
    from tpcsweep.configuration.units import FRACTION, UnitError, parse

    try:
        value = parse(text if text.endswith("%") else float(text), FRACTION)
    except (UnitError, ValueError):
        value = 0.0
    if not 0 < value < 1:
        raise click.BadParameter(f"{text!r} is not a share between 0 and 1. Use a number such as 5%.")
    return value


@click.command()
@study_options
@click.option(
    "--error",
    metavar="SHARE",
    default="5%",
    show_default=True,
    callback=lambda _context, _option, text: share(text),
    help="Estimated error of the cells that are not measured at which to end, as a share of the throughput's range.",
)
@click.argument("arguments", metavar="[-- SNAKEMAKE ARGUMENTS]", nargs=-1, type=click.UNPROCESSED)
def command(error: float, arguments: Sequence[str], **options: str | None) -> None:
    """Measure a sweep in rounds, each where it tells most, until the whole surface is known well enough.

    Snakemake measures the cells of each round; it gets the arguments behind `--`. Run the command again to continue
    after an interruption. Exit codes: 0 the surface is known, 1 some deployments failed, 2 an error.

    Example: tpcsweep adaptive --sweep surface --error 5% -- --cores 4
    """
    study = load_study(**options)
    if study.testbed.simulated:
        raise click.UsageError(
            f"{study.testbed_name}: adaptive measures, and this testbed simulates. "
            f"Run `{study.command}`: it computes all cells."
        )
    from tpcsweep.adaptive.rounds import RoundError, Rounds, draw
    from tpcsweep.dataset import DatasetError
    from tpcsweep.linux.signals import interruptible
    from tpcsweep.running.notifying import notify
    from tpcsweep.running.results import ResultsError
    from tpcsweep.running.status import counted

    rounds = Rounds(study, partial(measure, study, arguments), click.echo, error)
    with reported(RoundError, DatasetError, ResultsError), interruptible():
        rounds.run()
    draw(rounds.folder)
    click.echo(f"{study.folder.name}: {rounds.reason}: {(rounds.folder / 'dataset.nc').absolute()}")
    if told := notify(study, str(settings().get("notify") or ""), "complete", counted(study)):
        click.echo(told, err=True)
    if rounds.failed:
        click.echo(f"{study.folder.name}: these deployments failed: {', '.join(rounds.failed)}", err=True)
        sys.exit(1)


def measure(study: Configuration, arguments: Iterable[str], cells: Sequence[Cell]) -> int:
    """Have Snakemake measure some cells of a sweep, and return its exit code."""
    from tpcsweep.files import write_json

    listed = (study.folder / "adaptive" / "cells.json").absolute()
    write_json(listed, [cell.path for cell in cells])
    config = {**study.asked, "only": listed, "notify": ""}
    return run(
        [
            *(sys.executable, "-m", "snakemake"),
            *(() if any(map(os.path.exists, SNAKEFILES)) else shipped()),
            *arguments,
            *("--config", *(f"{key}={value}" for key, value in config.items())),
            *("--", "cells"),
        ]
    )


def shipped() -> tuple[str, ...]:
    """Return the option for the checkout's Snakefile, if there is a checkout."""
    from tpcsweep.configuration.loading import SHIPPED

    snakefile = SHIPPED / SNAKEFILES[2]
    return ("--snakefile", str(snakefile)) if snakefile.is_file() else ()


def run(argv: Sequence[str]) -> int:
    """Run a command to its end and return its exit code.

    If this process is asked to end, the command is, too, and this process waits for it. If this process is killed, the
    command is killed, and the jobs of Snakemake end with it.
    """
    from tpcsweep.linux.signals import end_with, held

    child: subprocess.Popen[bytes] | None = None
    try:
        with held():  # otherwise a signal could come while the command runs and `child` is not set
            # In a session of its own: Ctrl-C reaches it once, from here.
            tied = partial(end_with, os.getpid(), SIGKILL)
            child = subprocess.Popen(argv, start_new_session=True, preexec_fn=tied)
        return child.wait()
    finally:
        if child and child.poll() is None:
            os.killpg(child.pid, SIGINT)
            child.wait()
