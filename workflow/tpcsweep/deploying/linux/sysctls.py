# SPDX-License-Identifier: Apache-2.0
"""Sysctls of a network namespace. Standard library alone, because pods read them too."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

FOLDER = Path("/proc/sys")


def in_force(names: Iterable[str]) -> dict[str, str]:
    """Return the values of sysctls in this thread's network namespace, without those that the kernel lacks."""
    files = {name: FOLDER / name.replace(".", "/") for name in names}
    return {name: " ".join(file.read_text().split()) for name, file in files.items() if file.exists()}


def mismatches(wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the sysctls without their wanted values, and what the kernel has instead."""
    for name, text in wanted.items():
        value = found.get(name)
        if value != text:
            yield name, f"{name} is {value or 'missing'} instead of {text}"
