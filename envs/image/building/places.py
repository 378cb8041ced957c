# SPDX-License-Identifier: Apache-2.0
"""Where things are: in the repository, and in the image."""

from __future__ import annotations

from pathlib import Path

IMAGE = Path(__file__).resolve().parents[1]
ROOT = IMAGE.parents[1]
HOME = "opt/tpcsweep"
"""The repository in the image."""
VENV = f"{HOME}/.venv"
