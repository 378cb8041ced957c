# SPDX-License-Identifier: Apache-2.0
"""Extras: packages for some sweeps and commands. `pip install 'tpcsweep[NAME]'` installs those of PyPI.

Standard library only. An extra is looked up without importing it.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from tpcsweep.common import processes
from tpcsweep.common.installation import CHECKOUT, SHIPPED


class MissingExtraError(RuntimeError):
    """An extra is not installed; the message contains the command that installs it."""

    def _render_traceback_(self) -> list[str]:
        """Replace IPython's traceback in notebooks by the message."""
        return [str(self)]


@dataclass(frozen=True)
class Extra:
    """Package of PyPI, or packages of the system."""

    content: str
    installed: Callable[[], bool]
    modules: Sequence[str] = ()  # modules of its packages of PyPI
    always: bool = False  # whether `make setup` installs it without being told to


def require_extra(name: str) -> None:
    if lines := missing_extras([name]):
        raise MissingExtraError(*lines)


def missing_extras(names: Iterable[str]) -> list[str]:
    """Return a line for each extra that is not installed, with the commands that install it."""
    return [
        f"the extra {name} ({extra.content}) is not installed: run {' or '.join(_remedies(name, extra))}"
        for name in names
        if not (extra := EXTRAS[name]).installed()
    ]


def extra_of(module: str) -> str | None:
    """Return the extra that contains a module of a library; None if none does."""
    package = module.partition(".")[0]
    return next((name for name, extra in EXTRAS.items() if package in extra.modules), None)


def _remedies(name: str, extra: Extra) -> Iterator[str]:
    """Yield the commands that install an extra. An installation from a wheel has no Makefile."""
    if CHECKOUT:
        yield "`make setup`" if extra.always else f"`make setup EXTRAS={name}`"
    if extra.modules:
        yield f"`pip install 'tpcsweep[{name}]'`"
    elif not CHECKOUT:
        lines = (SHIPPED / f"envs/debian-{name}.txt").read_text().splitlines()
        yield f"`apt-get install {' '.join(line for line in lines if not line.startswith('#'))}` as root"


def _pip(content: str, *modules: str, always: bool = False) -> Extra:
    def installed() -> bool:
        return all(find_spec(module) is not None for module in modules)

    return Extra(content, installed, modules, always)


def _programs(*names: str) -> bool:
    return all(shutil.which(name, path=processes.system_environment()["PATH"]) for name in names)


def _headers(*names: str) -> bool:
    look = "".join(f"#if !__has_include(<{name}>)\n#error\n#endif\n" for name in names)
    return _succeeds(["g++", "-E", "-x", "c++", "-"], look)


def _xrootd() -> bool:
    libraries = "curl/curl.h json-c/json.h macaroons.h openssl/ssl.h tinyxml.h uuid/uuid.h zlib.h"
    return _programs("cmake", "ninja") and _headers(*libraries.split())


def _succeeds(command: list[str], given: str = "") -> bool:
    try:
        done = processes.run(command, input=given)
    except OSError:
        return False
    return done.returncode == 0


_GLOBUS = ("globus-url-copy", "globus-gridftp-server")
EXTRAS: Mapping[str, Extra] = {
    "crate": _pip("rocrate", "rocrate"),
    "figures": _pip("matplotlib, seaborn", "matplotlib", "seaborn", always=True),
    "globus": Extra(", ".join(_GLOBUS), lambda: _programs(*_GLOBUS)),
    "history": _pip("ruptures", "ruptures"),
    "kubernetes": _pip("kubernetes", "kubernetes", "urllib3", "websocket", always=True),
    "measure": _pip("snakemake, cryptography", "snakemake", "cryptography", always=True),
    "models": _pip("scipy, scikit-learn", "scipy", "sklearn", always=True),
    "notebooks": _pip("papermill, nbconvert, ipykernel", "papermill", "nbconvert", "ipykernel", always=True),
    "ns3": Extra("g++, libns3-dev", lambda: _headers("ns3/core-module.h")),
    "parquet": _pip("pyarrow", "pyarrow"),
    "slurm": _pip("snakemake-executor-plugin-slurm", "snakemake_executor_plugin_slurm"),
    "xrootd": Extra("a compiler and the libraries of XRootD", _xrootd),
    "zarr": _pip("zarr", "zarr"),
}
"""Extras by name. envs/requirements-NAME.in or envs/debian-NAME.txt lists the packages of each."""
