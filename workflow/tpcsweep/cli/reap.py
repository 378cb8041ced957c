# SPDX-License-Identifier: Apache-2.0
"""The command `reap`: removes what killed runs left on a testbed."""

from __future__ import annotations

import os

import click

from tpcsweep.cli.options import answer, as_json, load_study, study_options


@click.command()
@study_options
@as_json
def reap(as_json: bool, **options: str | None) -> None:
    """Remove servers and paths that killed runs left on a testbed.

    On this machine it removes those of root, as root: the kernel removes those of other users. Exit codes: 0 nothing is
    left, 2 something could not be removed, or a deployment is in use.

    Example: tpcsweep reap --testbed kubernetes
    """
    from tpcsweep.testbeds import kinds

    study = load_study(**options)
    reaped = kinds.load_testbed(study.testbed.kind).reap(study.testbed)
    unseen = study.testbed.kind == "netns" and os.geteuid() != 0
    nothing = "nothing was left" + " of this user. For leftovers of root run it as root." * unseen
    lines = [f"reaped: {thing}" for thing in reaped or [nothing]]
    answer(as_json, {"testbed": study.testbed_name, "reaped": reaped}, *lines)
