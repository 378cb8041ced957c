# SPDX-License-Identifier: Apache-2.0
"""Images unpacked once for all nodes and clusters: unpacking is most of what starting a node costs.

A containerd of its own imports the archives into a folder of the cache. A node's containerd then begins with copies
of that one's two small databases, and with links to its layers and blobs, which nobody ever writes: containers write
to layers above, and what else a node imports is new. A node that removes an image removes its links.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.local import build
from tests.cluster.local.settings import UNUSED

SNAPSHOTTER = "io.containerd.snapshotter.v1.overlayfs"
DATABASES = "io.containerd.metadata.v1.bolt/meta.db", f"{SNAPSHOTTER}/metadata.db"
LINKED = f"{SNAPSHOTTER}/snapshots", "io.containerd.content.v1.content/blobs/sha256"
IMPORT = """
set -eu
folder=$1
shift
mount -t tmpfs tmpfs /run
cat >/run/config.toml <<END
version = 2
root = "$folder"
state = "/run/state"
disabled_plugins = $unused
[grpc]
address = "/run/containerd.sock"
END
containerd --config /run/config.toml --log-level warn >&2 &
until ctr --address /run/containerd.sock version >/dev/null 2>&1; do
  kill -0 $! || exit 1
  sleep 0.05
done
for archive; do
  ctr --address /run/containerd.sock --namespace k8s.io images import "$archive" >&2
done
kill $!
wait $! || true
"""


def unpacked(archives: Sequence[Path]) -> Path:
    """The root folder of a containerd that has imported the archives."""

    def make(folder: Path) -> None:
        disabled = json.dumps([*UNUSED, "io.containerd.grpc.v1.cri"])
        ended = ["setpriv", "--pdeathsig", "KILL"]
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
        command = ["env", f"unused={disabled}", "sh", "-c", IMPORT, "sh", str(folder), *map(str, archives)]
        build.run([*ended, *inside, *command])

    return build.cached("images", archives, make, [IMPORT])


def furnish(root: Path, found: Path) -> None:
    """Give a containerd that has not been started yet, at `root`, the images that are unpacked."""
    for file in DATABASES:
        (root / file).parent.mkdir(parents=True, mode=0o700)
        shutil.copyfile(found / file, root / file)
    for folder in LINKED:
        (root / folder).mkdir(parents=True, mode=0o700)
        for each in (found / folder).iterdir():
            (root / folder / each.name).symlink_to(each)
