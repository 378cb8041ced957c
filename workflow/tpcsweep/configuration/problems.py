# SPDX-License-Identifier: Apache-2.0
"""Problems of configurations: the file, the key, the given value and the allowed values."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

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
LIST_TAG = "<list>"
"""Tags of unions of one value or a list; pydantic includes them in error locations."""

_MOST = 50  # problems that an error lists
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 3, 500, 500, 500
_REPR.maxdict = _REPR.maxlist = _REPR.maxtuple = 10

Model = TypeVar("Model", bound=BaseModel)
Fault = tuple[tuple[str | int, ...], str, str]
"""A fault in a model: its location, the given value, and the allowed values."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a configuration; its text is one line."""

    key: str
    given: str
    allowed: str
    file: str = ""

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.key) if part)
        return f"{where}: given {self.given}, allowed: {self.allowed}"


class ConfigurationError(ValueError):
    """Invalid configuration, found before anything is deployed. Its text has one line per problem."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        more = ["and more like these"] if len(problems) > _MOST else []
        super().__init__("\n".join([*map(str, problems[:_MOST]), *more]))


def quoted(value: object) -> str:
    """Return a short repr of a given value for messages."""
    return _REPR.repr(value)


def refused(key: str, given: str, allowed: str, file: str = "") -> ConfigurationError:
    return ConfigurationError([Problem(key, given, allowed, file)])


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


def suggest(given: str, known: Iterable[str], most: int | None = None) -> str:
    """List known words, at most `most` of them, beginning with the most similar one."""
    known = list(known)
    close = difflib.get_close_matches(given, known, n=1)
    meant = f"{close[0]}? " if close else ""
    more = f" and {len(known) - most} more" if most is not None and len(known) > most else ""
    return f"{meant}one of {', '.join(known[:most])}{more}"


def fault(allowed: str, given: str | None = None) -> PydanticCustomError:
    """Return the error of a validator. Without `given` it shows the validated value."""
    context = {"allowed": allowed} if given is None else {"allowed": allowed, "given": given}
    return PydanticCustomError("settings", "{allowed}", context)


def refuse(model: type[BaseModel], faults: Iterable[Fault]) -> None:
    """Raise ValidationError with all faults, each at its own location instead of the model's."""
    errors = [
        InitErrorDetails(type=fault(allowed, given), loc=place, input=None)
        for place, given, allowed in faults
    ]
    if errors:
        raise ValidationError.from_exception_data(model.__name__, errors)


def validated(model: type[Model], content: Mapping[str, Any], file: str = "") -> Model:
    """Return a validated model. Raises ConfigurationError with every problem of the content."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        schema = model.model_json_schema()
        details = error.errors(include_url=False)
        # pydantic counts only valid items, so an invalid item also makes its list too short.
        around = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
        told = [one for one in details if one["type"] != "too_short" or one["loc"] not in around]
        raise ConfigurationError([replace(_problem(one, schema), file=file) for one in told]) from error


def _problem(detail: Mapping[str, Any], schema: Mapping[str, Any]) -> Problem:
    kind, place, context = detail["type"], detail["loc"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        inside = [part for part in place[:-1] if part not in (VALUE_TAG, LIST_TAG)]
        known = _keys(schema, inside, schema.get("$defs", {}))
        return Problem(key(place), "an unknown key", suggest(str(place[-1]), known))
    if kind == "missing":
        return Problem(key(place), "nothing", "this key is needed")
    template = _ALLOWED.get(kind)
    allowed = template.format_map(context).replace("'", "") if template else detail["msg"]
    return Problem(key(place), context.get("given", quoted(detail["input"])), allowed)


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
