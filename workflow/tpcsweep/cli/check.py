# SPDX-License-Identifier: Apache-2.0
"""The command `check`: whether a testbed works, and can run a sweep."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tpcsweep.cli.options import TESTBED, answer, as_json, load_study, study_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tpcsweep.sweeps.study import SweepStudy
    from tpcsweep.testbeds.interface import Finding

NOT_MADE = "not looked at"  # what people read for the status `skipped`


@click.command()
@click.argument("name", metavar="[TESTBED]", required=False, type=TESTBED)
@study_options
@click.option(
    "--print", "printed", is_flag=True, help="Print the objects that a Kubernetes cluster would get."
)
@click.option("--pair", metavar="NAME", help="Check one pair of endpoints only.")
@click.option("--failed", is_flag=True, help="Print failed checks and warnings only.")
@as_json
def check(
    name: str | None, printed: bool, pair: str | None, failed: bool, as_json: bool, **options: str | None
) -> None:
    """Check whether a testbed works, and whether it can run a sweep. No cell is measured.

    With TESTBED and without --sweep, only the testbed is checked. Prints a row for each check, with its seconds and the
    reason of a failure, or why it was not looked at: ends of endpoints first, then copies; on Kubernetes from rights to
    short pods. The last lines name the changes since your last check of this testbed. Exit codes: 0 no check failed,
    1 a check failed, 2 a file is wrong.

    Example: tpcsweep check endpoints
    """
    alone = name is not None and options["sweep"] is None
    study = load_study(**options | ({"testbed": name} if name else {}))
    import yaml
    from rich.markup import escape
    from rich.table import Table

    from tpcsweep.common.signals import interruptible
    from tpcsweep.running import hosts, last_check
    from tpcsweep.running.runner import deployment_errors
    from tpcsweep.testbeds import interface, kinds

    if printed:
        manifests = getattr(kinds.load_testbed(study.testbed.kind), "manifests", None)
        if manifests is None:
            raise click.UsageError(f"--print: testbed {study.testbed_name} is not of kind kubernetes")
        click.echo(yaml.safe_dump_all(manifests(study), sort_keys=False), nl=False)
        return
    if pair is not None:
        _require_pair(study, pair)
    file = last_check.record_file(study)
    last = last_check.read_record(file)
    found: list[interface.Finding] = []
    of_testbed: list[interface.Finding] = []
    try:
        with interruptible():  # Ctrl-C ends a trial in order
            found += [] if alone else _of_sweep(study)
            of_testbed += kinds.findings(study, pair)
            of_testbed += hosts.findings(study.testbed.hosts)
    except deployment_errors(study) as error:
        of_testbed.append(interface.Finding(study.testbed_name, "can deploy", "failed", str(error)))
    found += of_testbed
    before, partial = last.get("statuses", {}), pair is not None
    different = last_check.changes(before, of_testbed, partial=partial) if last else []
    last_check.keep_record(file, before, of_testbed, partial=partial)
    shown = [one for one in found if not failed or one.status in ("failed", "warning")]
    table = Table("subject", "check", "status", "seconds", "reason")
    for one in shown:
        seconds = "" if one.seconds is None else f"{one.seconds:.2f}"
        status = NOT_MADE if one.status == "skipped" else one.status
        table.add_row(one.subject, one.check, status, seconds, escape(one.reason))
    label = study.testbed_name if alone else study.folder.name
    content = {"study": label, "findings": [vars(one) for one in shown]}
    if last:
        content |= {"last": last["checked"], "changes": different}
    answer(
        as_json,
        content,
        table,
        *_differences(different, last.get("checked", "")),
        f"{label}: {_verdict(found)}",
    )
    sys.exit(any(one.status == "failed" for one in found))


def _verdict(found: Sequence[Finding]) -> str:
    """Return the last line: all checks have passed only if all were made."""
    failed, doubtful, gaps = (
        sum(one.status == status for one in found) for status in ("failed", "warning", "skipped")
    )
    words = [f"{failed} of {len(found)} checks failed" if failed else "no check failed"]
    words += [f"{doubtful} with a warning"] if doubtful else []
    words += [f"{gaps} {NOT_MADE}"] if gaps else []
    return "all checks passed" if not failed and len(words) == 1 else ", ".join(words)


def _require_pair(study: SweepStudy, name: str) -> None:
    """End the command unless the testbed has a pair of endpoints of this name."""
    from tpcsweep.sweeps.problems import suggest
    from tpcsweep.testbeds.endpoints.settings import Endpoints

    if not isinstance(study.testbed, Endpoints):
        raise click.UsageError(f"--pair: testbed {study.testbed_name} is not of kind endpoints")
    known = [one.name for one in study.testbed.all_pairs]
    if name not in known:
        raise click.BadParameter(f"no pair {name!r}: {suggest(name, known)}", param_hint="--pair")


def _of_sweep(study: SweepStudy) -> Iterator[Finding]:
    """Yield problems of a sweep on its testbed, and warnings about its cells."""
    from tpcsweep.common.extras import missing_extras
    from tpcsweep.running.runner import deployment_errors
    from tpcsweep.testbeds import interface, kinds, support

    for problem in [*map(str, support.check(study)), *missing_extras(support.extras(study))]:
        yield interface.Finding(study.name, "can be run", "failed", problem)
    try:
        for warning in kinds.warnings(study):
            yield interface.Finding(study.name, "can be run", "warning", warning)
    except deployment_errors(study) as error:
        yield interface.Finding(study.name, "can be run", "failed", str(error))


def _differences(changes: list[dict[str, str | None]], when: str) -> Iterator[str]:
    """Yield a line for each difference from the last check."""
    for change in changes:
        before, now = change["before"] or "not checked", change["now"] or "not checked"
        yield f"since {when}: {change['subject']}: {change['check']}: {before}, now {now}"
