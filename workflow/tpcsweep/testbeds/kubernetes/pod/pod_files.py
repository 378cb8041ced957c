# SPDX-License-Identifier: Apache-2.0
"""Files and ports in the pods."""

from pathlib import Path

from tpcsweep.deploying.xrootd.server_config import USUAL, Ports

PACKAGE = Path("/etc/tpcsweep/package/tpcsweep.zip")  # the archive of this package, from a ConfigMap
PACKAGE_FOLDER = PACKAGE.parent
STATE = Path("/run/tpcsweep")  # a folder in memory that the containers of a pod share
PRIVATE = STATE / "credentials"
"""The folder with files of `tpcsweep.deploying.xrootd.credentials`, which comes when the pods have addresses."""
CONFIGURATION = PRIVATE / "server.cfg"  # the configuration of the pod's server
SERVER_CONTAINER_SOCKET = STATE / "contained"  # the socket of the container whose CPU is measured
HUB = STATE / "hub"
ENDED = STATE / "ended"  # a file that exists after the hub has ended, when the pod must end
FILES = Path("/srv/tpcsweep")  # the folder of an origin's files, in memory


def block(first: int | None) -> Ports:
    """Return the ports from `first` on, in a node's network, or the usual ones, in a pod's own."""
    return USUAL if first is None else Ports(*range(first, first + 5))
