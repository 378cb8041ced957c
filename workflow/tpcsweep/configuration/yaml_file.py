# SPDX-License-Identifier: Apache-2.0
"""Read YAML written by people, and refuse text that YAML would silently misread."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from yaml import CSafeLoader

from tpcsweep.configuration.problems import refused

_INT, _FLOAT, _BOOL, _TIMESTAMP = (
    f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "timestamp")
)


class _Loader(CSafeLoader):
    """A loader that refuses repeated keys; YAML's own silently keeps the last value.

    Numbers are decimal: YAML 1.1 reads 010 as 8, 1:30 as 90 and 2026-01-02 as a date. This loader reads them as text,
    which quantities refuse because the unit is missing. Only true and false are booleans, as in YAML 1.2; on and off
    are text.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_INT, _FLOAT, _BOOL, _TIMESTAMP)]
        for first, resolvers in CSafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for name, _ in node.value:
            if isinstance(name, yaml.ScalarNode):
                if name.value in seen:
                    twice = f"the key {name.value!r} twice"
                    raise yaml.constructor.ConstructorError(None, None, twice, name.start_mark)
                seen.add(name.value)
        return super().construct_mapping(node, deep)


# Python cannot convert numbers with more than 4300 digits.
_Loader.add_implicit_resolver(_INT, re.compile(r"-?(0|[1-9][0-9]{0,99})$"), list("-0123456789"))
_Loader.add_implicit_resolver(_BOOL, re.compile(r"true$|True$|TRUE$|false$|False$|FALSE$"), list("tTfF"))
_Loader.add_implicit_resolver(
    _FLOAT, re.compile(r"-?(0|[1-9][0-9]*)?\.[0-9]+$|[-+]?\.inf$|\.nan$"), list("-+.0123456789")
)


def read_yaml(path: Path, name: str) -> dict[str, Any]:
    """Return the mapping in a YAML file. Errors refer to the file as `name`.

    Raises:
        ConfigurationError: for an unreadable file, invalid YAML, a repeated key, and content that is not a mapping.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise refused("", str(error.strerror), "a file that can be read", name) from error
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise refused(line, str(error.problem), "YAML, each key once", name) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise refused("", str(error).replace("\n", " "), "YAML in UTF-8", name) from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        given = "an empty file" if content is None else f"a {type(content).__name__}"
        raise refused("", given, "a mapping with names as keys", name)
    return content
