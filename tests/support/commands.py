# SPDX-License-Identifier: Apache-2.0
"""The command `tpcsweep`, run in this process."""

from click import Context
from click.testing import CliRunner, Result
from tpcsweep.cli import main

COMMANDS = main.list_commands(Context(main))


def tpcsweep(*arguments: object) -> Result:
    """Run a command as a shell does, in the current folder; an exception that is no error message is raised."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="tpcsweep")
    fault = result.exception and result.exception.__cause__
    if fault or (result.exception and not isinstance(result.exception, SystemExit)):
        raise fault or result.exception
    return result
