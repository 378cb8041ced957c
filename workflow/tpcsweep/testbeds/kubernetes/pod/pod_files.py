# SPDX-License-Identifier: Apache-2.0
"""Files and ports in the pods."""

from pathlib import Path

from tpcsweep.deploying.xrootd.server_config import USUAL, Ports

PACKAGE = Path("/etc/tpcsweep/package/tpcsweep.zip")  # the archive of this package, from a ConfigMap
PACKAGE_FOLDER = PACKAGE.parent
CREDENTIALS = Path("/etc/tpcsweep/credentials")
"""The deployment's Secret, with files of `tpcsweep.deploying.xrootd.credentials`."""
CONFIGURATION = Path("/etc/tpcsweep/configuration")
"""The deployment's ConfigMap, with a file for each server, and COMPLETE."""
COMPLETE = "complete"  # a key of both, which appear in the pods after the pods have addresses
STATE = Path("/run/tpcsweep")  # a folder in memory that the containers of a pod share
PRIVATE = STATE / "credentials"  # credentials as servers and tools need them
SERVER_CONTAINER_SOCKET = STATE / "contained"  # the socket of the container whose CPU is measured
HUB = STATE / "hub"
ENDED = STATE / "ended"  # a file that exists after the hub has ended, when the pod must end
FILES = Path("/srv/tpcsweep")  # the folder of an origin's files, in memory


def block(first: int | None) -> Ports:
    """Return the ports from `first` on, in a node's network, or the usual ones, in a pod's own."""
    return USUAL if first is None else Ports(*range(first, first + 5))


SLASH = "--"  # replaces the slash in the names of a Secret's files
