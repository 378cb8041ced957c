# SPDX-License-Identifier: Apache-2.0
"""Extras of set-up: what some targets, testbeds and tools need beside what every sweep does. `make setup EXTRAS=NAME`.

Standard library only, and nothing of an extra is imported: whether it is there is looked up.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType

SIMGRID_PYTHON = "/usr/bin/python3"
"""Debian's: python3-simgrid is a package for it, and PyPI's has no wheels for Linux."""


class MissingExtraError(RuntimeError):
    """An extra is not there; the message says what lacks, and what to do."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in a notebook: the message is enough."""
        return [str(self)]


@dataclass(frozen=True)
class Extra:
    """What an extra has, for people, and whether that is there."""

    has: str
    there: Callable[[], bool]


def require(name: str) -> None:
    """Raises MissingExtraError where an extra is not there."""
    if lacking := missing([name]):
        raise MissingExtraError(*lacking)


def asked(name: str) -> str:
    """Give the name of an extra that is there; else end this process with the line of what lacks. For profiles."""
    if lacking := missing([name]):
        sys.exit(lacking[0])
    return name


def missing(names: Iterable[str]) -> list[str]:
    """A line for each of the extras that is not there, with how to get it."""
    return [
        f"{name} needs {EXTRAS[name].has}: make setup EXTRAS={name}"
        for name in names
        if not EXTRAS[name].there()
    ]


def _modules(*names: str) -> Callable[[], bool]:
    return lambda: all(find_spec(name) for name in names)


def _programs(*names: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(name) for name in names)


def _simgrid() -> bool:
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('simgrid') is None)"
    return _succeeds([SIMGRID_PYTHON, "-c", look])


def _ns3() -> bool:
    return _headers("ns3/core-module.h")


def _xrootd() -> bool:
    headers = (
        "curl/curl.h",
        "json-c/json.h",
        "macaroons.h",
        "openssl/ssl.h",
        "tinyxml.h",
        "uuid/uuid.h",
        "zlib.h",
    )
    return _programs("cmake", "ninja")() and _headers(*headers)


def _headers(*names: str) -> bool:
    look = "".join(f"#if !__has_include(<{name}>)\n#error\n#endif\n" for name in names)
    return _succeeds(["g++", "-E", "-x", "c++", "-"], look)


def _succeeds(command: list[str], given: str = "") -> bool:
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


EXTRAS: Mapping[str, Extra] = MappingProxyType(
    {
        "crate": Extra("the Python package rocrate", _modules("rocrate")),
        "globus": Extra(
            "globus-url-copy and globus-gridftp-server", _programs("globus-url-copy", "globus-gridftp-server")
        ),
        "history": Extra("ruptures", _modules("ruptures")),
        "kubernetes": Extra("the Python package kubernetes", _modules("kubernetes")),
        "models": Extra("scikit-learn", _modules("sklearn")),
        "ns3": Extra("g++ and ns-3 (libns3-dev)", _ns3),
        "parquet": Extra("pyarrow", _modules("pyarrow")),
        "slurm": Extra(
            "the Python package snakemake-executor-plugin-slurm", _modules("snakemake_executor_plugin_slurm")
        ),
        "xrootd": Extra("what building XRootD from source takes (cmake, ninja, g++ and libraries)", _xrootd),
        "zarr": Extra("the Python package zarr", _modules("zarr")),
        "simulation": Extra(f"SimGrid for {SIMGRID_PYTHON} (python3-simgrid)", _simgrid),
    }
)
"""By name, that of a testbed's is its kind; envs/debian-NAME.txt and envs/requirements-NAME.txt list the packages."""
