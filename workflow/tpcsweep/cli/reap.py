# SPDX-License-Identifier: Apache-2.0
"""The command `reap`: removes the remains of killed runs from a testbed."""

from __future__ import annotations

import os
import sys

import click

from tpcsweep.cli.options import answer, as_json, load_study, study_options


@click.command()
@study_options
@as_json
def reap(as_json: bool, **options: str | None) -> None:
    """Remove what killed runs left on a testbed, and restore its hosts.

    On this machine it removes those of root, as root: the kernel removes those of other users. Exit codes: 0 nothing is
    left, 1 the ledger has folders on endpoints that no pair of the testbed explains, 2 something could not be removed,
    or a deployment is in use.

    Example: tpcsweep reap --testbed kubernetes
    """
    from tpcsweep.running import host_settings
    from tpcsweep.running.runner import deployment_errors
    from tpcsweep.testbeds import kinds

    study = load_study(**options)
    testbed = kinds.load_testbed(study.testbed.kind)
    find = getattr(testbed, "unexplained", None)
    left: list[str] = find(study.testbed) if find else []
    lost = [f"left: {thing}" for thing in left]
    try:
        reaped = [*host_settings.restore_left(), *testbed.reap(study.testbed)]
    except deployment_errors(study):
        click.echo("\n".join(lost), err=True, nl=bool(lost))
        raise
    unseen = study.testbed.kind == "netns" and os.geteuid() != 0
    nothing = "nothing was left" + " of this user. For leftovers of root run it as root." * unseen
    lines = [f"reaped: {thing}" for thing in reaped or ([] if lost else [nothing])]
    content = {"testbed": study.testbed_name, "reaped": reaped} | ({"left": left} if find else {})
    answer(as_json, content, *lines, *lost)
    sys.exit(bool(lost))
