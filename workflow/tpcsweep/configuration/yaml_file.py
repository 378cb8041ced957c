# SPDX-License-Identifier: Apache-2.0
"""Reading YAML that people wrote: what YAML takes silently and people do not mean is an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tpcsweep.configuration.problems import refused

_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"


class _Loader(yaml.SafeLoader):
    """A SafeLoader that refuses a key given twice; YAML's own keeps the last in silence.

    Only decimal numbers are numbers: YAML 1.1 reads 010 as 8 and 1:30 as 90. Here they stay text, which no
    quantity takes without a unit.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_INT, _FLOAT)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for name, _ in node.value:
            if isinstance(name, yaml.ScalarNode):
                if name.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {name.value!r} twice", name.start_mark
                    )
                seen.add(name.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(_INT, re.compile(r"-?(0|[1-9][0-9]*)$"), list("-0123456789"))
_Loader.add_implicit_resolver(
    _FLOAT, re.compile(r"-?(0|[1-9][0-9]*)?\.[0-9]+$|[-+]?\.inf$|\.nan$"), list("-+.0123456789")
)


def read(path: Path, name: str) -> dict[str, Any]:
    """Give the mapping that a YAML file holds, which errors call by the name.

    Raises:
        ConfigurationError: for what is no YAML, a key given twice, and what is no mapping.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise refused(line, str(error.problem), "YAML, each key once", name) from error
    except (yaml.YAMLError, ValueError) as error:
        raise refused("", str(error).replace("\n", " "), "YAML in UTF-8", name) from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        given = "an empty file" if content is None else f"a {type(content).__name__}"
        raise refused("", given, "a mapping with names as keys", name)
    return content
