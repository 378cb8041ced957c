# SPDX-License-Identifier: Apache-2.0
"""Reading YAML that people wrote: what YAML takes silently and people do not mean is an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tpcsweep.configuration.problems import refused

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # a PyYAML without libyaml, which is ten times as slow
    from yaml import SafeLoader  # type: ignore[assignment]

MOST_BYTES = 4 * 2**20
MOST_VALUES = 100_000
"""What is read within a second or two; every pair of 64 nodes, each with labels, is 60 000 values."""
DEEPEST = 50
"""Lists and mappings in each other: the affinity of a pod has some ten."""

_INT, _FLOAT, _TIMESTAMP = (f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp"))
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Characters of no text that people read, beside tabs and ends of lines."""


class _Loader(SafeLoader):
    """A SafeLoader that refuses a key given twice; YAML's own keeps the last in silence.

    Only decimal numbers are numbers: YAML 1.1 reads 010 as 8, 1:30 as 90 and 2026-01-02 as a date. Here they stay text,
    which no quantity takes without a unit.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_INT, _FLOAT, _TIMESTAMP)]
        for first, resolvers in SafeLoader.yaml_implicit_resolvers.items()
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


# What has more digits is no number that is meant, and Python refuses to read one of 4300.
_Loader.add_implicit_resolver(_INT, re.compile(r"-?(0|[1-9][0-9]{0,99})$"), list("-0123456789"))
_Loader.add_implicit_resolver(
    _FLOAT, re.compile(r"-?(0|[1-9][0-9]*)?\.[0-9]+$|[-+]?\.inf$|\.nan$"), list("-+.0123456789")
)


def read(path: Path, name: str) -> dict[str, Any]:
    """Give the mapping that a YAML file holds, which errors call by the name.

    Raises:
        ConfigurationError: for what cannot be read or is no YAML, a key given twice, what is no mapping, and what is
            larger or deeper than anything that people write, aliases followed.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            allowed = f"at most {MOST_BYTES >> 20} MiB"
            raise refused("", f"a file of {size / 2**20:.1f} MiB", allowed, name)
        text = path.read_text(encoding="utf-8")
        _require_readable(text, name)
        content = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise refused("", str(error.strerror), "a file that can be read", name) from error
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise refused(line, str(error.problem), "YAML, each key once", name) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise refused("", str(error).replace("\n", " "), "YAML in UTF-8", name) from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        given = "an empty file" if content is None else f"a {type(content).__name__}"
        raise refused("", given, "a mapping with names as keys", name)
    return content


def _require_readable(text: str, name: str) -> None:
    """Refuse what grows or breaks as it is read, before anything is made of it.

    It goes by the parser's events, of which none holds more than a word. An alias counts as all that it stands for.
    """
    count = 0
    sizes: dict[str, int] = {}
    """Values in what has an anchor, by that."""
    around: list[tuple[str | None, int]] = []
    """Of each list or mapping that is open its anchor, and the values before it."""
    for event in yaml.parse(text, Loader=_Loader):
        line = f"line {event.start_mark.line + 1}" if event.start_mark else ""
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise refused(line, f"*{event.anchor}", "an alias of something that ends before it", name)
            count += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent | yaml.ScalarEvent):
            if event.tag is not None:
                raise refused(line, f"the tag {event.tag}", "values without tags", name)
            if isinstance(event, yaml.CollectionStartEvent):
                around.append((event.anchor, count))
            elif _CONTROL.search(event.value):
                raise refused(line, "a control character", "text", name)
            elif event.anchor is not None:
                sizes[event.anchor] = 1
            count += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = around.pop()
            if anchor is not None:
                sizes[anchor] = count - before
        if count > MOST_VALUES:
            raise refused(line, f"more than {MOST_VALUES} values, aliases followed", "fewer of them", name)
        if len(around) > DEEPEST:
            raise refused(line, "lists and mappings in each other", f"at most {DEEPEST} deep", name)
