# SPDX-License-Identifier: Apache-2.0
"""Cost of memory writes on a virtual machine whose host reclaims free memory, and effect of holding.

    python -m benchmarks.memory [--size 1024] [--pause 10] [--rounds 3]

Repeatedly writes four files to tmpfs and removes them, with pauses, without and with
`tpcsweep.measuring.transfer_files.reserve_memory`, as the netns testbed does. Prints a Markdown table of CPU seconds.
Run as root, because it mounts a tmpfs.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tpcsweep.measuring.transfer_files import reserve_memory

from benchmarks.path import heading

FILES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, help="MiB that are written at a time")
    parser.add_argument("--pause", type=float, default=10, help="seconds after they were removed")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    size = asked.size << 20
    heading(("memory", "MiB", "CPU s, median", "each"))
    for held in (False, True):
        with mounted(size + size // 128) as folder:
            if held:
                reserve_memory(folder / "held", size)
            seconds = []
            for _ in range(asked.rounds):
                time.sleep(asked.pause)
                seconds.append(written(folder, size))
        name, each = "held" if held else "as it is", ", ".join(f"{one:.2f}" for one in seconds)
        print(f"|{name} | {asked.size} | {statistics.median(seconds):.2f} | {each}|", flush=True)


@contextlib.contextmanager
def mounted(size: int) -> Iterator[Path]:
    """Yield a folder in memory for `size` bytes."""
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tpcsweep", name], check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True)


def written(folder: Path, size: int) -> float:
    """Return the CPU seconds of writing; the files are removed."""
    content = bytes(1 << 20)
    paths = [folder / f"{number}" for number in range(FILES)]
    began = time.process_time()
    for path in paths:
        with path.open("wb") as file:
            for _ in range(0, size // FILES, len(content)):
                file.write(content)
    seconds = time.process_time() - began
    for path in paths:
        path.unlink()
    return seconds


if __name__ == "__main__":
    main()
