# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an input, in one form: the file, the key, what was given and what is allowed."""

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
"""The allowed values that pydantic's own message does not name, by the type of its error."""

VALUE_TAG = "<value>"
LIST_TAG = "<list>"
"""Tags of a union of one value or a list, which pydantic puts into the places of errors."""

_MOST = 50  # problems that an error lists
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 3, 500, 500, 500
_REPR.maxdict = _REPR.maxlist = _REPR.maxtuple = 10

Model = TypeVar("Model", bound=BaseModel)
Fault = tuple[tuple[str | int, ...], str, str]
"""A mistake in a model: its place, the given value, and the allowed ones."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; its text is one line."""

    key: str
    given: str
    allowed: str
    file: str = ""

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.key) if part)
        return f"{where}: given {self.given}, allowed: {self.allowed}"


class ConfigurationError(ValueError):
    """Wrong input, found before anything is deployed. Its text has a line for each problem."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        more = ["and more like these"] if len(problems) > _MOST else []
        super().__init__("\n".join([*map(str, problems[:_MOST]), *more]))


def quoted(value: object) -> str:
    """Return a given value for people: as Python writes it, but short."""
    return _REPR.repr(value)


def refused(key: str, given: str, allowed: str, file: str = "") -> ConfigurationError:
    return ConfigurationError([Problem(key, given, allowed, file)])


def raise_any(problems: Iterable[Problem]) -> None:
    if problems := list(problems):
        raise ConfigurationError(problems)


@contextmanager
def in_file(file: str) -> Iterator[None]:
    """Name a file in all problems that are raised meanwhile."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError([replace(problem, file=file) for problem in error.problems]) from error


def key(place: Iterable[str | int]) -> str:
    """Return a place in nested mappings and lists, as people write it: parameters.rtt[1]."""
    names = (part for part in place if part not in (VALUE_TAG, LIST_TAG))
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in names).removeprefix(".")


def suggest(given: str, known: Iterable[str], most: int | None = None) -> str:
    """List the known words, or at most so many of them, led by the one that was probably meant."""
    known = list(known)
    close = difflib.get_close_matches(given, known, n=1)
    meant = f"{close[0]}? " if close else ""
    more = f" and {len(known) - most} more" if most is not None and len(known) > most else ""
    return f"{meant}one of {', '.join(known[:most])}{more}"


def fault(allowed: str, given: str | None = None) -> PydanticCustomError:
    """Make the error of a validator. Without `given` the error names the validated value."""
    context = {"allowed": allowed} if given is None else {"allowed": allowed, "given": given}
    return PydanticCustomError("settings", "{allowed}", context)


def refuse(model: type[BaseModel], faults: Iterable[Fault]) -> None:
    """Raise ValidationError with all the faults, if there are any: each at its own place, not at the model's."""
    errors = [
        InitErrorDetails(type=fault(allowed, given), loc=place, input=None)
        for place, given, allowed in faults
    ]
    if errors:
        raise ValidationError.from_exception_data(model.__name__, errors)


def validated(model: type[Model], content: Mapping[str, Any], file: str = "") -> Model:
    """Return a model with the content of a file. Raise ConfigurationError with everything that is wrong."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        schema = model.model_json_schema()
        details = error.errors(include_url=False)
        # A list counts only its valid items, and so is too short for its wrong ones too.
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
    # A mapping with names of its own, such as the axes of an import, has one schema for all its values.
    named = schema.get("properties", {}).get(head, schema.get("additionalProperties"))
    inner = schema.get("items") if isinstance(head, int) else named
    return _keys(inner, rest, definitions) if isinstance(inner, Mapping) else []
