# SPDX-License-Identifier: Apache-2.0

# Targets that make no file.


rule help:
    """List the targets, a line each."""
    localrule: True


if MEASURES:

    rule grid:
        """Show the configured sweep's cells, deployments and expected time; nothing is measured."""
        log:
            f"{RESULTS}/logs/grid.log",
        localrule: True
        script:
            "../scripts/without_files.py"

    rule status:
        """Count the configured sweep's cells: measured, flagged, failed, not measured, left; and the time."""
        log:
            f"{RESULTS}/logs/status.log",
        localrule: True
        script:
            "../scripts/without_files.py"

    rule reap:
        """Remove what killed runs have left on the testbed."""
        log:
            f"{RESULTS}/logs/reap.log",
        localrule: True
        script:
            "../scripts/without_files.py"


if SETTINGS.source is None:

    # It says which key it lacks.
    rule import:
        """Make a dataset of data from elsewhere: --config source=NAME."""
        log:
            f"{RESULTS}/logs/import.log",
        localrule: True
        script:
            "../scripts/without_files.py"
