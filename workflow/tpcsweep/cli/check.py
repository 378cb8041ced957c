# SPDX-License-Identifier: Apache-2.0
"""The command `check`: whether a testbed works, and can run a sweep."""

from __future__ import annotations

import sys

import click

from tpcsweep.cli.options import TESTBED, answer, as_json, load_study, study_options


@click.command()
@click.argument("name", metavar="[TESTBED]", required=False, type=TESTBED)
@study_options
@click.option(
    "--print", "printed", is_flag=True, help="Print the objects that a Kubernetes cluster would get."
)
@as_json
def check(name: str | None, printed: bool, as_json: bool, **options: str | None) -> None:
    """Check whether a testbed works, and whether it can run a sweep. No cell is measured.

    With TESTBED and without --sweep, only the testbed is checked. Prints a row for each check, with the reason of each
    failure. Exit codes: 0 all checks passed, 1 a check failed, 2 a file is wrong.

    Example: tpcsweep check endpoints
    """
    alone = name is not None and options["sweep"] is None
    study = load_study(**options | ({"testbed": name} if name else {}))
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
    findings: list[interface.Finding] = []
    if not alone:
        problems = [*map(str, support.check(study)), *missing_extras(support.extras(study))]
        findings += [interface.Finding(study.name, "can be run", "failed", problem) for problem in problems]
    try:
        with interruptible():  # Ctrl-C ends a trial in order
            findings += kinds.findings(study)
    except deployment_errors(study) as error:
        findings.append(interface.Finding(study.testbed_name, "can deploy", "failed", str(error)))
    table = Table("subject", "check", "status", "reason")
    for one in findings:
        table.add_row(one.subject, one.check, one.status, escape(one.reason))
    failed = [one for one in findings if one.status == "failed"]
    label = study.testbed_name if alone else study.folder.name
    verdict = f"{len(failed)} of {len(findings)} checks failed" if failed else "all checks passed"
    content = {"study": label, "findings": [vars(one) for one in findings]}
    answer(as_json, content, table, f"{label}: {verdict}")
    sys.exit(bool(failed))
