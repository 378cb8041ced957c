# SPDX-License-Identifier: Apache-2.0
"""Write the lists in completion.bash anew: targets as `snakemake help` has them, keys of the configuration, flags."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tpcsweep.configuration.loading import Run
from tpcsweep.flags import FLAGS

FILE = Path(__file__).with_name("completion.bash")


def listed() -> dict[str, list[str]]:
    """Give the words of each list."""
    root = FILE.parents[1]
    command = [sys.executable, "-m", "snakemake", "help"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return {
        "targets": re.findall(r"^(\w+)  ", done.stdout, re.MULTILINE),
        "keys": list(Run.model_fields),
        "flags": list(FLAGS),
    }


def filled(text: str) -> str:
    """Give the file's text with the lists of now."""
    for name, words in listed().items():
        text = re.sub(rf'(?m)^_tpcsweep_{name}=".*"$', f'_tpcsweep_{name}="{" ".join(words)}"', text)
    return text


if __name__ == "__main__":
    FILE.write_text(filled(FILE.read_text()))
