# SPDX-License-Identifier: Apache-2.0
"""Places of the package's own files, in a checkout and in an installation from a wheel.

Standard library only. No other module derives a place from its own: tests/unit/test_architecture.py refuses it.
"""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
"""Folder of this package."""


def _checkout() -> Path | None:
    folder = PACKAGE.parents[1]
    return folder if (folder / "workflow/Snakefile").is_file() else None


CHECKOUT = _checkout()
"""The checkout that contains this package, or None in an installation from a wheel."""
SHIPPED = CHECKOUT or PACKAGE / "shipped"
"""Folder with rules, notebooks, and the default sweeps and testbeds, by their paths in the checkout.

In the checkout `shipped` contains links; a wheel contains copies of the files.
"""
