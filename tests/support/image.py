# SPDX-License-Identifier: Apache-2.0
"""The program that builds the image, as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

IMAGE = Path(__file__).resolve().parents[2] / "envs/image"


def load() -> ModuleType:
    """envs/image/build.py, which is a program and in no package."""
    specification = importlib.util.spec_from_file_location("tpcsweep_image", IMAGE / "build.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["tpcsweep_image"] = module
    specification.loader.exec_module(module)
    return module


image: Any = load()
