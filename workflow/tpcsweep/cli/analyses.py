# SPDX-License-Identifier: Apache-2.0
"""Commands on datasets: pages, plans, comparisons, claims, histories."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpcsweep.cli import common

if TYPE_CHECKING:
    from tpcsweep.planning.recommendations import Answer


@click.command()
@common.results_or_file
@common.output_option(
    "FILE",
    "File to write; by default index.html in the results folder, or results/NAME.html for a file.",
    dir_okay=False,
)
def page(results: Path, output: Path | None) -> None:
    """Make the HTML page of a dataset.

    The page shows the findings, every cell with its time series, published claims and models. It is one file that
    needs no network. The command prints its path. While a run is under way in RESULTS, the page shows the cells so far,
    and its file is partial.html, beside their dataset partial.nc.

    Example: tpcsweep page examples/surface.nc
    """
    from tpcsweep import pages
    from tpcsweep.planning.sections import SECTIONS

    if (found := _dataset_of_run(results, output)) is not None:
        dataset, output = found
    else:
        dataset = common.find_results_dataset(results)
        if output is None and results == dataset:
            output = _page_of_file(dataset)
        elif output is None:
            common.require_writable(dataset.parent, "FILE.html")
            output = dataset.with_name(pages.PAGE)

    with common.exit_on():
        pages.make_page(dataset, output, analyses=SECTIONS)
    click.echo(output.absolute())


def _dataset_of_run(results: Path, page: Path | None) -> tuple[Path, Path] | None:
    """Write the dataset of the cells so far of the run in a folder, and return it with its page; None without a run.

    Snakemake's own page is never replaced.
    """
    from tpcsweep.configuration.loading import load
    from tpcsweep.configuration.places import RESULTS
    from tpcsweep.configuration.problems import ConfigurationError
    from tpcsweep.dataset import DatasetError
    from tpcsweep.running.folding import PARTIAL, fold_snapshot
    from tpcsweep.running.status import run_under_way

    for folder in (results, RESULTS / results):
        if "config" in (run := run_under_way(folder)):
            break
    else:
        return None
    if page is None or common.is_same(page, folder / "index.html"):
        common.require_writable(folder, "FILE.html")
        page = (folder / PARTIAL).with_suffix(".html")
    dataset = page.with_name(PARTIAL if page.parent == folder else f"{page.stem}.{PARTIAL}")
    with common.exit_on(ConfigurationError, DatasetError):
        study = load(run["config"] | {"results": str(folder.absolute().parent)}, Path(run["root"]))
        fold_snapshot(study, dataset, os.cpu_count() or 1)
    return dataset, page


def _page_of_file(dataset: Path) -> Path:
    """Return results/NAME.html for the page of a file, which is no page of a sweep or of all sweeps."""
    from tpcsweep.configuration.places import DATASET, RESULTS

    name = dataset.resolve().parent.name if dataset.name == DATASET else dataset.stem
    return RESULTS / (f"{name}.html" if name != "index" else "index.nc.html")


@click.command()
@click.argument("base", type=click.Path())
@click.argument("new", type=click.Path())
@click.option(
    "--fail-below",
    metavar="SHARE",
    type=common.Amount("RATIO"),
    help="Exit with 1 if the throughput of NEW is below this share of BASE, such as 0.95 or 95%.",
)
@common.output_option(
    "FOLDER", "Folder for comparison.json, cells.csv, figures and the notebook compare.html.", file_okay=False
)
@common.as_json
def compare(base: str, new: str, fail_below: float | None, output: Path | None, as_json: bool) -> None:
    """Compare the throughput of two datasets.

    The datasets are compared cell by cell and over all cells. BASE and NEW are results folders or paths of datasets,
    with values of axes after a colon for a part of one. The exit code is 1 if NEW is slower than --fail-below allows.

    \b
    Example: tpcsweep compare results/demo:cores=0.15 results/demo:cores=0.6
             tpcsweep compare --fail-below 95% before.nc after.nc
    """  # noqa: D301 (click needs the \b)
    from tpcsweep import comparing
    from tpcsweep.configuration.problems import ConfigurationError
    from tpcsweep.configuration.sides import read_side

    with common.exit_on(ConfigurationError, comparing.ComparisonError):
        one, other = comparing.load_side(read_side("base", base)), comparing.load_side(read_side("new", new))
        found = comparing.compare(one, other, (base, new))
        if output is not None:
            from tpcsweep.running.notebooks import make_notebook

            comparing.write_files(found, output / "comparison.json", output / "cells.csv", fail_below)
            values = {"base": base, "new": new, "figures": str(output / "figures")}
            make_notebook("compare", output / "compare.html", values)
    content = comparing.gated_content(found, fail_below)
    pages = [] if output is None else [str((output / "compare.html").absolute())]
    common.answer(as_json, content, comparing.overview(found), *pages)
    if failures := content["gate"]["failures"]:
        click.echo("\n".join(["NEW does not meet --fail-below:", *failures]), err=True)
        raise SystemExit(1)


@click.command()
@common.results_or_file
@click.option("--all", "every", is_flag=True, help="List the claims that the dataset cannot test, too.")
@common.as_json
def claims(results: Path, every: bool, as_json: bool) -> None:
    """Judge each published claim on a dataset.

    A claim holds, does not hold, or is not decided. With --json every verdict is printed, with its evidence.

    Example: tpcsweep claims results/demo
    """
    dataset = common.find_results_dataset(results)
    from tpcsweep.claims.base import for_terminal
    from tpcsweep.claims.judging import judge
    from tpcsweep.dataset import load

    with common.exit_on():
        verdicts = judge(load(dataset))
    content = [verdict.to_dict() for verdict in verdicts]
    common.answer(as_json, content, for_terminal(verdicts, every))


@click.command()
@click.argument("results", type=click.Path(path_type=Path), metavar="RESULTS")
@click.option(
    "--fail-on",
    type=click.Choice(["change", "slower"]),
    help="Exit with 1 if the last run shows a change, or a slowdown, or a cell that failed.",
)
@common.as_json
def history(results: Path, fail_on: str | None, as_json: bool) -> None:
    """Find the changes over all runs of a sweep.

    The dataset of RESULTS is kept under its date in RESULTS/history, with the page of all runs and
    history.json.

    Example: tpcsweep history --fail-on slower results/demo
    """
    dataset = common.find_results_dataset(results)
    if dataset == results:
        raise click.UsageError(f"{results}: a history belongs to a results folder, not to a file.")
    from tpcsweep import pages
    from tpcsweep.extras import MissingExtraError
    from tpcsweep.history import failures, runs, summary

    folder = dataset.with_name(runs.FOLDER)
    with common.exit_on(runs.HistoryError, MissingExtraError):
        told = pages.make_history(dataset, folder)
    if as_json:
        click.echo((folder / "history.json").read_bytes())
    else:
        click.echo("\n".join([*summary(told), str((folder / pages.PAGE).absolute())]))
    if found := failures(told, fail_on):
        click.echo("\n".join(["new since the last run:", *found]), err=True)
        raise SystemExit(1)


class QuestionCommand(click.Command):
    """Command with an option for each parameter of sweeps, created on use."""

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        return [*super().get_params(context), *_options()]


@cache
def _options() -> list[click.Option]:
    from tpcsweep.configuration.parameters import Parameters, quantity
    from tpcsweep.planning import KNOBS

    options = []
    for name, field in Parameters.model_fields.items():
        known, text = quantity(name), field.description or name
        kind = common.Amount(known, several=name in KNOBS) if known else click.STRING
        words = [f"--{name.replace('_', '-')}", name]
        shown = "VALUE,…" if name in KNOBS else "VALUE"
        options.append(click.Option(words, type=kind, metavar=shown, help=f"{text[0].upper()}{text[1:]}."))
    return options


@click.command(
    cls=QuestionCommand, context_settings={"token_normalize_func": lambda name: name.replace("_", "-")}
)
@click.argument("words", nargs=-1, metavar="[TARGET] RESULTS|FILE.nc", type=click.Path())
@click.option(
    "--probability",
    type=common.Amount("PROBABILITY"),
    metavar="SHARE",
    help="How surely one measurement reaches the target; 95% by default.",
)
@click.option(
    "--recommend", is_flag=True, help="Tabulate the recommended streams for several RTTs and targets."
)
@common.output_option(
    "FOLDER",
    "Folder for plan.json, the figure, recommendations.json and .csv, and the notebook plan.html.",
    file_okay=False,
)
@common.as_json
def plan(words: tuple[str, ...], recommend: bool, output: Path | None, as_json: bool, **asked: Any) -> None:
    """Find the cheapest setting that reaches a throughput.

    The setting is the number of origins, cores and streams; TARGET is the throughput.
    Measured settings answer by their own measurements, others by the formula that predicts left-out cells best and the
    cells nearby. The fits are in models.json of the results folder; a dataset without fits is fitted first, once, which
    takes minutes. Every other parameter that varies in the data needs an option. Several values for origins, cores or
    streams, with commas, limit the search.

    \b
    Example: tpcsweep plan 0.8Gbit/s --rtt 40ms --probability 95% results/demo
             tpcsweep plan --recommend results/demo
    """  # noqa: D301 (click needs the \b)
    target, results = _arguments(words, recommend)
    source, default = click.get_current_context().get_parameter_source, click.core.ParameterSource.DEFAULT
    given = {key: value for key, value in asked.items() if source(key) is not default}
    dataset = common.find_results_dataset(results)
    from tpcsweep.models.cache import fits_of
    from tpcsweep.planning import recommendations as planning

    question = {"target": target, **given}
    with common.exit_on(*planning.EXPECTED):
        planning.check_question(dataset, question, recommend)
        with fits_of(dataset, lambda text: click.echo(text, err=True)) as models:
            answer = planning.answer_question(dataset, models, question, recommend or output is not None)
            if output is not None:
                _write(answer, output, dataset, models)
    content = answer.to_dict() if recommend or answer.plan is None else answer.plan.to_dict()
    tables = [] if answer.plan is None else [planning.plan_table(answer.plan)]
    tables += [planning.recommendations_table(answer)] if recommend else []
    pages = () if output is None else sorted(output.glob("*.html")) or [output]
    common.answer(as_json, content, *tables, *(str(page.absolute()) for page in pages))


def _arguments(words: tuple[str, ...], recommend: bool) -> tuple[float | None, Path]:
    """Return the target in Gbit/s, if any, and the results' path. The target may be two words: 0.8 Gbit/s."""
    from tpcsweep.configuration.units import RATE

    if len(words) > 1 and common.UNITLESS.fullmatch(words[0]) and words[1] in RATE.units:
        words = (" ".join(words[:2]), *words[2:])
    if len(words) == 1 and recommend:
        return None, Path(words[0])
    target = None
    if words:
        try:
            target = common.Amount("TARGET").convert(words[0], None, None)
        except click.BadParameter as error:
            error.param_hint = "TARGET"
            raise
    if len(words) != 2:
        example = "tpcsweep plan 0.8Gbit/s --rtt 40ms results/demo"
        raise click.UsageError(f"Give TARGET and RESULTS, as in {example}")
    return target, Path(words[1])


def _write(answer: Answer, folder: Path, dataset: Path, models: Path) -> None:
    from tpcsweep.figures import save
    from tpcsweep.files import write_json, write_text
    from tpcsweep.planning.drawing import draw
    from tpcsweep.planning.recommendations import as_csv
    from tpcsweep.running.notebooks import make_notebook

    assert answer.table is not None
    write_json(folder / "recommendations.json", answer.recommendations())
    write_text(folder / "recommendations.csv", as_csv(answer.table))
    if answer.plan is None:
        return
    write_json(folder / "plan.json", answer.plan.to_dict())
    save(draw(answer.plan), folder, "plan")
    values = {"dataset": str(dataset), "models": str(models), "question": answer.question.content}
    make_notebook("plan", folder / "plan.html", values)
