# SPDX-License-Identifier: Apache-2.0
"""Read configuration files, and report their problems: file, key, given value and allowed values."""

import difflib
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError
from yaml import CSafeLoader

_ALLOWED = {
    "literal_error": "{expected}",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_type": "text, in quotes where YAML reads something else",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "model_type": "a mapping",
    "tuple_type": "a list",
    "too_short": "a list of at least one value",
    "too_long": "a list of at most {max_length} values",
}
"""Allowed values by the type of pydantic error, for errors whose message does not name them."""

VALUE_TAG = "<value>"
LIST_TAG = "<list>"  # tags of unions of one value or a list; pydantic includes them in error locations

_MOST = 50  # problems that an error lists
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 3, 500, 500, 500
_REPR.maxdict = _REPR.maxlist = _REPR.maxtuple = 10

Model = TypeVar("Model", bound=BaseModel)
Fault = tuple[tuple[str | int, ...], str, str]
"""A fault in a model: its location, the given value, and the allowed values."""

_INT, _FLOAT, _BOOL, _TIMESTAMP = (
    f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "timestamp")
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a configuration; its text is one line."""

    key: str
    value: str
    allowed: str
    file: str = ""

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.key) if part)
        return f"{where}: given {self.value}, allowed: {self.allowed}"


class ConfigurationError(ValueError):
    """Invalid configuration, found before anything is deployed. Its text has one line per problem."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        more = ["and more like these"] if len(problems) > _MOST else []
        super().__init__("\n".join([*map(str, problems[:_MOST]), *more]))


def quoted(value: object) -> str:
    """Return a short repr of a given value for messages."""
    return _REPR.repr(value)


def refused(key: str, value: str, allowed: str, file: str = "") -> ConfigurationError:
    return ConfigurationError([Problem(key, value, allowed, file)])


def raise_any(problems: Iterable[Problem]) -> None:
    if problems := list(problems):
        raise ConfigurationError(problems)


@contextmanager
def in_file(file: str) -> Iterator[None]:
    """Set the file of all problems raised in the block."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError([replace(problem, file=file) for problem in error.problems]) from error


def key(place: Iterable[str | int]) -> str:
    """Return a location in nested mappings and lists as text, such as parameters.rtt[1]."""
    names = (part for part in place if part not in (VALUE_TAG, LIST_TAG))
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in names).removeprefix(".")


def suggest(given: str, known: Iterable[str], most: int | None = None, place: str = "") -> str:
    """List known words, at most `most` of them, beginning with the most similar one.

    With a `place` that lists all words, a similar word stands alone.
    """
    known = list(known)
    close = difflib.get_close_matches(given, known, n=1)
    if close and place:
        return f"{close[0]}? or another of {len(known)} in {place}"
    meant = f"{close[0]}? " if close else ""
    rest = f" and {len(known) - most} more" if most is not None and len(known) > most else ""
    return f"{meant}one of {', '.join(known[:most])}{rest}{f' in {place}' if rest and place else ''}"


def fault(allowed: str, given: str | None = None) -> PydanticCustomError:
    """Return the error of a validator. Without `given` it shows the validated value."""
    context = {"allowed": allowed} if given is None else {"allowed": allowed, "given": given}
    return PydanticCustomError("settings", "{allowed}", context)


def validated(
    model: type[Model], content: Mapping[str, Any], file: str = "", context: Mapping[str, Any] | None = None
) -> Model:
    """Return a validated model. Raises ConfigurationError with every problem of the content."""
    try:
        return model.model_validate(content, context=context)
    except ValidationError as error:
        schema = model.model_json_schema()
        details = error.errors(include_url=False)
        # pydantic counts only valid items, so an invalid item also makes its list too short.
        around = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
        causes = [one for one in details if one["type"] != "too_short" or one["loc"] not in around]
        raise ConfigurationError([replace(_problem(one, schema), file=file) for one in causes]) from error


def _problem(detail: Mapping[str, Any], schema: Mapping[str, Any]) -> Problem:
    kind, place, context = detail["type"], detail["loc"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        inside = [part for part in place[:-1] if part not in (VALUE_TAG, LIST_TAG)]
        definitions, name = schema.get("$defs", {}), str(place[-1])
        known = _keys(schema, inside, definitions)
        others = [[*inside, one] for one in known] + [[one] for one in _keys(schema, [], definitions)] + [[]]
        meant = next((other for other in others if name in _keys(schema, other, definitions)), None)
        elsewhere = meant is not None and not difflib.get_close_matches(name, known)
        allowed = f"{key([*(meant or ()), name])}? here " if elsewhere else ""
        return Problem(key(place), "an unknown key", f"{allowed}{suggest(name, known)}")
    if kind == "missing":
        return Problem(key(place), "nothing", "this key is needed")
    template, given = _ALLOWED.get(kind), detail["input"]
    allowed = template.format_map(context).replace("'", "") if template else detail["msg"]
    if place[-1:] == (VALUE_TAG,) and isinstance(given, str) and "," in given:
        allowed = f"[{given}]? several values are a list in brackets; {allowed}"
    return Problem(key(place), context.get("given", quoted(given)), allowed)


def _keys(schema: Mapping[str, Any], place: Sequence[str | int], definitions: Mapping[str, Any]) -> list[str]:
    if "$ref" in schema:
        return _keys(definitions[schema["$ref"].rpartition("/")[2]], place, definitions)
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):  # a model or null; one value or a list
        return next(filter(None, (_keys(one, place, definitions) for one in alternatives)), [])
    if not place:
        return list(schema.get("properties", ()))
    head, *rest = place
    # A mapping with free keys, such as the axes of an import, has one schema for all values.
    named = schema.get("properties", {}).get(head, schema.get("additionalProperties"))
    inner = schema.get("items") if isinstance(head, int) else named
    return _keys(inner, rest, definitions) if isinstance(inner, Mapping) else []


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

    Raises ConfigurationError for an unreadable file, invalid YAML, a repeated key, and content that is not a mapping.
    """
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        content = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise refused("", str(error.strerror), "a file that can be read", name) from error
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
        if error.problem_mark and re.match(r"\s*\t", text.split("\n")[error.problem_mark.line]):
            raise refused(line, "a tab at its beginning", "blanks", name) from error
        raise refused(line, str(error.problem), "YAML, each key once", name) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise refused("", str(error).replace("\n", " "), "YAML in UTF-8", name) from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        given = "an empty file" if content is None else f"a {type(content).__name__}"
        raise refused("", given, "a mapping with names as keys", name)
    return content
