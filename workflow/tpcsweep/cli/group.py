# SPDX-License-Identifier: Apache-2.0
"""The group of all commands: a module of this package whose function of the same name is a command.

Exit codes: 0 success; 1 a negative answer (a comparison or history that fails, a check that finds a problem); 2 an
error; 130 interrupted; 141 the reader of the output ended. `frame` converts exceptions to them.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import click

from tpcsweep.cli import frame
from tpcsweep.common.installation import PACKAGE

_MODULES = {module.name.rstrip("_"): module.name for module in iter_modules([str(PACKAGE / "cli")])}
"""Modules by names without "_", which `import_` has because Python reserves the word."""


class Commands(click.Group):
    """Commands that are imported on use, because each needs other libraries."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [name for name in sorted(_MODULES) if self.get_command(context, name)]

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if (module := _MODULES.get(name)) is None:
            return None
        command = getattr(import_module(f"{__package__}.{module}"), module, None)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a line; the error for an unknown one names the nearest."""
        unknown = not args[0].startswith("-") and self.get_command(context, args[0]) is None
        if unknown and not context.resilient_parsing:
            from tpcsweep.sweeps.problems import suggest

            known = self.list_commands(context)
            raise click.UsageError(f"no command {args[0]!r}: {suggest(args[0], known)}", context)
        return super().resolve_command(context, args)

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        frame.use_plain_letters()
        with frame.exit_codes():
            return super().make_context(*arguments, **settings)

    def invoke(self, context: click.Context) -> Any:
        with frame.exit_codes():
            return super().invoke(context)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tpcsweep")
def main() -> None:
    """Answer questions about parameter sweeps of XRootD HTTP third-party copies.

    Sweeps are measured with Snakemake: `snakemake` measures the sweep that config/config.yaml names.
    """
