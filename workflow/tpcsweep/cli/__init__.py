# SPDX-License-Identifier: Apache-2.0
"""Command `tpcsweep`: answers questions about sweeps and results; Snakemake measures and makes files.

Exit codes: 0 success; 1 a negative answer (a comparison or history that fails, a check that finds a problem); 2 an
error; 130 interrupted; 141 the reader of the output ended. `frame` converts exceptions to them.
"""

from pkgutil import resolve_name
from typing import Any

import click

from tpcsweep.cli import frame

COMMANDS = {
    "init": "sweeps:init",
    "grid": "sweeps:grid",
    "status": "sweeps:status",
    "check": "sweeps:check",
    "reap": "sweeps:reap",
    "page": "analyses:page",
    "plan": "analyses:plan",
    "compare": "analyses:compare",
    "claims": "analyses:claims",
    "history": "analyses:history",
    "import": "exchange:import_",
    "export": "exchange:export",
    "crate": "exchange:crate",
    "dataset": "sweeps:dataset",
}
"""Function of each command, after its module in this package."""


class LazyCommands(click.Group):
    """Commands that are imported on use, because each needs other libraries."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = resolve_name(f"{__name__}.{COMMANDS[name]}")
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a line; the error for an unknown one names the nearest."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not context.resilient_parsing:
            from tpcsweep.configuration.problems import suggest

            raise click.UsageError(f"no command {args[0]!r}: {suggest(args[0], COMMANDS)}", context)
        return super().resolve_command(context, args)

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        frame.use_plain_letters()
        with frame.exit_codes():
            return super().make_context(*arguments, **settings)

    def invoke(self, context: click.Context) -> Any:
        with frame.exit_codes():
            return super().invoke(context)


@click.group(
    cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="tpcsweep")
def main() -> None:
    """Answer questions about parameter sweeps of XRootD HTTP third-party copies.

    Sweeps are measured with Snakemake: `snakemake` measures the sweep that config/config.yaml names.
    """
