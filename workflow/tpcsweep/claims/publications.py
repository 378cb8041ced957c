# SPDX-License-Identifier: Apache-2.0
"""Publications with claims: the YAML files of this package. Loads no scientific library."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from tpcsweep.configuration.problems import read_yaml
from tpcsweep.installation import PACKAGE


@cache
def publications() -> Mapping[str, Mapping[str, Any]]:
    """Return the content of each publication's file, by the file's stem."""
    return {file.stem: read_yaml(file, file.name) for file in sorted((PACKAGE / "claims").glob("*.yaml"))}


def claim_names() -> list[str]:
    """Return the identifiers of all claims, `publication.claim`."""
    return [f"{name}.{claim}" for name, content in publications().items() for claim in content["claims"]]
