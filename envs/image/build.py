# SPDX-License-Identifier: Apache-2.0
"""Build the container image without an engine and without a registry.

    python envs/image/build.py OUT.tar [--target site|workflow] [--name localhost/tpcsweep:site] [--xrootd 5.8.1] …

Debian packages come by mmdebstrap, Python packages by pip, releases of XRootD beside Debian's from the cache that
sweeps on this machine take theirs from; the result is an archive in OCI layout, as
`ctr images import` takes it. The layers that take long to make are kept in a cache, by the hash of what they
are made of; the last ones, such as that with this repository, are made each time. What is unpacked lies in memory, in
a mount namespace of its own: it is gone with its processes, however those end.

One line is printed: the name and the digest of the manifest, which says what is in the image to the byte.

This is the command; `building` beside it has all else.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workflow"))  # not installed for Debian's Python
from building.image import TARGETS, build, checked_name
from building.messages import ImageError, say


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Build the container image of pods and workflow.")
    parser.add_argument(
        "out", type=Path, help="the archive to write, for `ctr --namespace k8s.io images import`"
    )
    parser.add_argument(
        "--target", choices=TARGETS, default="site", help="what pods run, or the whole workflow"
    )
    parser.add_argument(
        "--xrootd",
        action="append",
        default=[],
        metavar="RELEASE",
        help="a release of XRootD beside Debian's, such as 5.8.1, or NAME=/FOLDER of one built here; repeatable",
    )
    parser.add_argument("--name", help="the image's name (default: localhost/tpcsweep:TARGET)")
    arguments = parser.parse_args()
    name = arguments.name or f"localhost/tpcsweep:{arguments.target}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        digest = build(arguments.out, arguments.target, name, arguments.xrootd)
    except (ImageError, OSError) as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    sys.stdout.write(f"{checked_name(name)} {digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
