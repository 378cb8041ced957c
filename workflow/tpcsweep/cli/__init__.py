# SPDX-License-Identifier: Apache-2.0
"""The command `tpcsweep`: answers questions about sweeps and results. Snakemake measures and makes files.

Exit codes: 0 success; 1 a negative answer (a comparison or history that fails, a check that finds a problem); 2 an
error in options, configuration or data; 130 interrupted.
"""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = (
    *("grid", "status", "check", "reap", "adaptive"),
    *("page", "plan", "compare", "claims", "history", "calibrate"),
    *("import", "export", "crate", "dataset"),
)
"""A command is `command` of the module of its name; `import` is in `import_`."""


class Commands(click.Group):
    """Commands that are imported when they are used: each needs other libraries."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = f"{name}_" if name == "import" else name
        command: click.Command = import_module(f"{__name__}.{module}").command
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tpcsweep")
def main() -> None:
    """Answer questions about parameter sweeps of XRootD HTTP third-party copies.

    Sweeps are measured with Snakemake: `snakemake` measures the sweep that config/config.yaml names.
    """
