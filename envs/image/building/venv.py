# SPDX-License-Identifier: Apache-2.0
"""The virtual environment of the workflow, by the image's own pip."""

from __future__ import annotations

from typing import IO

from .cache import kept
from .layers import Layer
from .places import ROOT, VENV
from .private import in_private

REQUIREMENTS = tuple(
    ROOT / f"envs/requirements{extra}.txt" for extra in ("", "-crate", "-history", "-parquet", "-zarr")
)
"""What every sweep needs, and every extra from PyPI: a Job runs any target."""

INSTALL = """
mkdir -p root/dev
zstd --decompress --stdout --quiet "$DEBIAN" "$EXTRA" |
  tar --extract --ignore-zeros --directory=root --xattrs --xattrs-include='*'
# The image's own pip chooses what fits its Python, and asks where this machine's pip asks. None of this is kept.
mount --rbind /dev root/dev
mount -t proc proc root/proc
for here in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs "$HOME"/.{config/pip,pip}/pip.conf; do
  if [ -d "$here" ]; then
    mkdir -p "root$here" && mount --bind "$here" "root$here"
  elif [ -e "$here" ]; then
    mkdir -p "root${here%/*}" && rm -f "root$here" && cp -L "$here" "root$here"
  fi
done
mkdir root/requirements
mapfile -t lists <<<"$REQUIREMENTS"
cp "${lists[@]}" root/requirements
export PYTHONHASHSEED=0
chroot root python3 -m venv "/$VENV" >&2
chroot root "/$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile \
  --require-hashes $(cd root && printf -- '--requirement /%s ' requirements/*) >&2
find "root/$VENV" -name __pycache__ -prune -exec rm -r {} +
# Some packages have files that are for other Pythons and do not compile. -S: what site imports, it compiles otherwise.
chroot root "/$VENV/bin/python" -S -m compileall -q --invalidation-mode unchecked-hash "/$VENV/lib" >&2 || true
tar --create --directory=root --sort=name --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner --owner=0 --group=0 \
  --format=gnu "$VENV"
"""


def venv_layer(debian: Layer, extra: Layer) -> Layer:
    """The pinned Python packages, installed in Debian with what is laid over it."""
    requirements = [file.read_text() for file in REQUIREMENTS]

    def make(out: IO[bytes]) -> None:
        environment = {
            "DEBIAN": str(debian.file),
            "EXTRA": str(extra.file),
            "REQUIREMENTS": "\n".join(map(str, REQUIREMENTS)),
            "VENV": VENV,
        }
        in_private(INSTALL, environment, out, "pip")

    inputs = [INSTALL, debian.digest, extra.digest, requirements]
    return kept("venv", inputs, make, "envs/requirements*.txt")
