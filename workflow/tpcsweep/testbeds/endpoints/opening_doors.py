# SPDX-License-Identifier: Apache-2.0
"""Existing storage: third-party copies between its doors with the user's credentials, within a budget."""

from tpcsweep.measuring.tools.tool import Credentials
from tpcsweep.testbeds.endpoints.doors import Doors
from tpcsweep.testbeds.endpoints.local import LocalDoors
from tpcsweep.testbeds.endpoints.root import RootDoors
from tpcsweep.testbeds.endpoints.webdav import HttpDoors


def open_doors(url: str, credentials: Credentials, role: str) -> Doors:
    """Return the doors of an end, by the scheme of one of its URLs. Raises OSError for unusable certificates."""
    if url.startswith("file"):
        return LocalDoors()
    return (RootDoors if url.startswith("root") else HttpDoors)(credentials, role)
