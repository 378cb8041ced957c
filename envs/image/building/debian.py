# SPDX-License-Identifier: Apache-2.0
"""Debian with the packages of lists, by mmdebstrap."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO, Any

from .cache import kept, unpacked
from .layers import Layer
from .places import IMAGE, ROOT
from .private import in_private
from .tars import difference

SUITE = "bookworm"
SITE_LIST = IMAGE / "debian.txt"
WORKFLOW_LISTS = (
    IMAGE / "debian-workflow.txt",
    *(ROOT / f"envs/debian{extra}.txt" for extra in ("", "-globus", "-ns3", "-simulation")),
)
"""What every sweep needs beside it, and every extra from Debian, so that it also measures and simulates where it is;
what `xrootd` compiles with is left out."""

MMDEBSTRAP = """
mmdebstrap --quiet --mode=root --variant=minbase --format=tar --skip=output/dev --include="$PACKAGES" \
  --dpkgopt=force-unsafe-io --dpkgopt="$DPKG_OPTIONS" \
  --customize-hook='chroot "$1" sh -c "$FINISH"' \
  --customize-hook='rm -f "$1/etc/hostname" "$1/etc/resolv.conf"' "$SUITE" -
"""


def packages(*lists: Path) -> list[str]:
    """The Debian packages that are listed, each once."""
    lines = [line.strip() for file in lists for line in file.read_text().splitlines()]
    return sorted({line for line in lines if line and not line.startswith("#")})


def debian_layer(names: list[str]) -> Layer:
    """Debian with these packages: half a minute, once for each list of packages."""
    return kept(
        "debian", _inputs(names), lambda out: _debian(names, out), f"Debian {SUITE}: {' '.join(names)}"
    )


def extra_layer(base: Layer, site: list[str], extra: list[str]) -> Layer:
    """What more packages add to Debian with those of `site`, which is `base`."""
    names = sorted({*site, *extra})

    def make(out: IO[bytes]) -> None:
        with tempfile.TemporaryFile() as whole:
            _debian(names, whole)
            whole.seek(0)
            out.write(difference(unpacked(base), whole.read()))

    return kept("extra", [base.digest, _inputs(names)], make, f"Debian {SUITE}: {' '.join(extra)}")


def _inputs(names: list[str]) -> list[Any]:
    return [MMDEBSTRAP, SUITE, names, *((IMAGE / file).read_text() for file in ("finish.sh", "dpkg.cfg"))]


def _debian(names: list[str], out: IO[bytes]) -> None:
    environment = {
        "SUITE": SUITE,
        "PACKAGES": ",".join(names),
        "FINISH": (IMAGE / "finish.sh").read_text(),
        "DPKG_OPTIONS": str(IMAGE / "dpkg.cfg"),
    }
    in_private(MMDEBSTRAP, environment, out, "mmdebstrap")
