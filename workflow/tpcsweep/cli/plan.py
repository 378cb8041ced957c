# SPDX-License-Identifier: Apache-2.0
"""The command `plan`: the cheapest setting that reaches a throughput."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpcsweep.cli.options import (
    UNITLESS,
    Amount,
    answer,
    as_json,
    find_results_dataset,
    output_option,
)
from tpcsweep.common.texts import capital

if TYPE_CHECKING:
    from tpcsweep.analysis.plans.recommendations import Answer


class QuestionCommand(click.Command):
    """Command with an option for each parameter of sweeps, created on use."""

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        return [*super().get_params(context), *_options()]


@cache
def _options() -> list[click.Option]:
    from tpcsweep.sweeps.parameters import KNOBS, Parameters, quantity

    options = []
    for name, field in Parameters.model_fields.items():
        known, text = quantity(name), field.description or name
        kind = Amount(known, several=name in KNOBS) if known else click.STRING
        words = [f"--{name.replace('_', '-')}", name]
        shown = "VALUE,…" if name in KNOBS else "VALUE"
        options.append(click.Option(words, type=kind, metavar=shown, help=f"{capital(text)}."))
    return options


@click.command(
    cls=QuestionCommand, context_settings={"token_normalize_func": lambda name: name.replace("_", "-")}
)
@click.argument("words", nargs=-1, metavar="[TARGET] [RESULTS|FILE.nc]", type=click.Path())
@click.option(
    "--probability",
    type=Amount("PROBABILITY"),
    metavar="SHARE",
    help="How surely one measurement reaches the target; 95% by default.",
)
@click.option(
    "--setting",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="Value of a setting of hosts that varies in the data; repeatable.",
)
@click.option(
    "--recommend", is_flag=True, help="Tabulate the recommended streams for several RTTs and targets."
)
@click.option(
    "--format",
    "transfer_format",
    type=click.Choice(["fts", "rucio", "csv"]),
    help="With --recommend: print settings of a mesh's links for a transfer service, as JSON or CSV.",
)
@click.option(
    "--names",
    type=click.Path(path_type=Path),
    metavar="FILE.csv",
    help="With --format: storage of each site, with the columns site and storage: URLs for FTS, RSEs for Rucio.",
)
@output_option(
    "FOLDER",
    "Folder for plan.json, the figure, recommendations.json and .csv, and the notebook plan.html.",
    file_okay=False,
)
@as_json
def plan(
    words: tuple[str, ...],
    settings: tuple[str, ...],
    recommend: bool,
    transfer_format: str | None,
    names: Path | None,
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the cheapest setting that reaches a throughput.

    The setting is the number of origins, cores and streams; TARGET is the throughput.
    Measured settings answer by their own measurements, others by the formula that predicts left-out cells best and the
    cells nearby. The fits are in models.json of the results folder, or in NAME.models.json next to NAME.nc; a dataset
    without fits is fitted first, once, which takes minutes. Every other parameter that varies in the data needs an
    option. Several values for origins, cores or streams, with commas, limit the search.

    Without RESULTS the law of throughput answers, with constants measured elsewhere: streams for each TCP buffer,
    cores, and the first measurements.

    \b
    Example: tpcsweep plan 0.8Gbit/s --rtt 40ms --probability 95% results/demo
             tpcsweep plan --recommend results/demo
             tpcsweep plan 10Gbit/s --rtt 80ms
             tpcsweep plan --recommend --format fts --names storages.csv results/mesh
    """  # noqa: D301 (click needs the \b)
    target, results = _arguments(words, recommend)
    source, default = click.get_current_context().get_parameter_source, click.core.ParameterSource.DEFAULT
    given = {key: value for key, value in options.items() if source(key) is not default}
    for text in settings:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE, such as tuning=fq", param_hint="--setting")
        given[name] = value
    if transfer_format or names:
        if output is not None:
            raise click.ClickException("-o: not with --format, which prints to the terminal")
        _print_settings(transfer_format, names, results if recommend else None, given)
        return
    question = {"target": target, **given}
    if results is None:
        _answer_by_law(question, output, as_json)
        return
    dataset = find_results_dataset(results)
    from tpcsweep.analysis.models.cache import fits_of
    from tpcsweep.analysis.plans import recommendations as planning

    planning.check_question(dataset, question, recommend)
    with fits_of(dataset, lambda text: click.echo(text, err=True)) as models:
        result = planning.answer_question(dataset, models, question, recommend or output is not None)
        if output is not None:
            _write(result, output, dataset, models)
    content = result.to_dict() if recommend or result.plan is None else result.plan.to_dict()
    tables = [] if result.plan is None else [planning.plan_table(result.plan)]
    tables += [planning.recommendations_table(result)] if recommend else []
    pages = () if output is None else sorted(output.glob("*.html")) or [output]
    answer(as_json, content, *tables, *(str(page.absolute()) for page in pages))


def _print_settings(
    transfer_format: str | None, names: Path | None, results: Path | None, given: dict[str, Any]
) -> None:
    """Print the settings of a mesh's links for a transfer service."""
    if results is None or transfer_format is None:
        raise click.ClickException("--format, --names: use --recommend --format with RESULTS of a mesh.")
    if unknown := given.keys() - {"rtt", "bandwidth"}:
        raise click.ClickException(
            f"--format: only with --rtt and --bandwidth, not {', '.join(sorted(unknown))}."
        )
    if transfer_format == "fts" and names is None:
        raise click.ClickException(
            "--format fts: needs --names FILE.csv, because links of FTS have URLs of storages."
        )
    from tpcsweep.analysis.links import handing_over
    from tpcsweep.data.opening import load

    settings, notes = handing_over.link_recommendations(load(find_results_dataset(results)), **given)
    sites = dict.fromkeys(site for each in settings for site in (each.source, each.destination))
    storages = handing_over.read_names(names, settings) if names else {site: site for site in sites}
    if transfer_format == "csv":
        click.echo(handing_over.as_csv(settings), nl=False)
    else:
        answer(
            True, (handing_over.fts if transfer_format == "fts" else handing_over.rucio)(settings, storages)
        )
    for note in notes:
        click.echo(note, err=True)


def _answer_by_law(question: dict[str, Any], output: Path | None, as_json: bool) -> None:
    if output is not None:
        raise click.UsageError("-o: only with RESULTS")
    from tpcsweep.analysis.plans.law import law_table, plan_by_law

    plan = plan_by_law(question)
    answer(as_json, plan.to_dict(), law_table(plan))


def _arguments(words: tuple[str, ...], recommend: bool) -> tuple[float | None, Path | None]:
    """Return the target in Gbit/s and the results' path, if any. The target may be two words: 0.8 Gbit/s."""
    from tpcsweep.sweeps.units import RATE

    if len(words) > 1 and UNITLESS.fullmatch(words[0]) and words[1] in RATE.units:
        words = (" ".join(words[:2]), *words[2:])
    if len(words) == 1 and recommend:
        return None, Path(words[0])
    target = None
    if words:
        try:
            target = Amount("TARGET").convert(words[0], None, None)
        except click.BadParameter as error:
            error.param_hint = "TARGET"
            raise
    if len(words) == 1:
        return target, None
    if len(words) != 2:
        example = "tpcsweep plan 0.8Gbit/s --rtt 40ms results/demo"
        raise click.UsageError(f"Give TARGET, and RESULTS if you have any, as in {example}")
    return target, Path(words[1])


def _write(answer: Answer, folder: Path, dataset: Path, models: Path) -> None:
    from tpcsweep.analysis.plans.plan_plots import draw
    from tpcsweep.analysis.plans.recommendations import as_csv
    from tpcsweep.common.files import write_json, write_text
    from tpcsweep.pages.figures import save
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
