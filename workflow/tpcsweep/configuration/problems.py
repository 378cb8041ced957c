# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an input, in one form: the file, the key, what was given and what is allowed."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

_ALLOWED = {
    "literal_error": "{expected}",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_type": "text",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "model_type": "a mapping",
    "tuple_type": "a list",
    "too_short": "a list of at least one value",
    "too_long": "a list of at most {max_length} values",
}
"""What is allowed where pydantic's own message does not say it, by the type of its error."""

VALUE_TAG = "<value>"
LIST_TAG = "<list>"
"""Tags of a union of one value or a list, which pydantic puts into the places of errors."""

MOST = 50
"""Problems that are said one by one: people mend the first, and a file of mistakes takes no longer to refuse."""

_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxdict = _REPR.maxlist = _REPR.maxtuple = 10
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 500

Fault = tuple[tuple[str | int, ...], str, str]
"""Something wrong in a model: where, what was given, and what is allowed."""


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
    """Wrong input, found before anything is deployed. Its text has one line for each problem, up to MOST."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        more = ["and more like these"] if len(problems) > MOST else []
        super().__init__("\n".join([*map(str, problems[:MOST]), *more]))


def quoted(value: object) -> str:
    """Give what was given for people: as Python writes it, but short, however much it holds."""
    return _REPR.repr(value)


def refused(key: str, given: str, allowed: str, file: str = "") -> ConfigurationError:
    """Make the error of a single problem."""
    return ConfigurationError([Problem(key, given, allowed, file)])


def raise_any(problems: Iterable[Problem]) -> None:
    """Raise ConfigurationError with the problems, if there are any."""
    if problems := list(problems):
        raise ConfigurationError(problems)


@contextmanager
def within(file: str) -> Iterator[None]:
    """Say of the problems that are raised meanwhile that they are in a file."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError([replace(problem, file=file) for problem in error.problems]) from error


def key(place: Iterable[str | int]) -> str:
    """Give a place in nested mappings and lists, as people write it: parameters.rtt[1]."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part not in (VALUE_TAG, LIST_TAG):
            name = part if len(part) <= 100 else f"{part[:100]}…"
            text += f".{name}" if text else name
    return text


def suggest(given: str, known: Iterable[str], most: int | None = None) -> str:
    """List the known words, or so many of them at most, led by the one that was probably meant."""
    known = list(known)
    left = 0 if most is None else len(known) - most
    more = f" and {left} more" if left > 0 else ""
    return f"{hint(given, known)}one of {', '.join(known[:most])}{more}"


def hint(given: str, known: Iterable[str]) -> str:
    """Ask for the known word that was probably meant; no text where none is near."""
    close = difflib.get_close_matches(given, list(known), n=1)
    return f"{close[0]}? " if close else ""


def fault(allowed: str, given: str | None = None) -> PydanticCustomError:
    """Make the error of a validator; what was given is the value that is validated, unless it says otherwise."""
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


def from_pydantic(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Give the problems that pydantic found while it validated a model: of many one more than are said."""
    schema = model.model_json_schema()
    details = error.errors(include_url=False)
    # A list counts only its valid items, and so is too short for its wrong ones too.
    around = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    said = (detail for detail in details if not (detail["type"] == "too_short" and detail["loc"] in around))
    return [_problem(detail, schema) for detail in islice(said, MOST + 1)]


def _problem(detail: Mapping[str, Any], schema: Mapping[str, Any]) -> Problem:
    kind, place, context = detail["type"], detail["loc"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        inside = [part for part in place[:-1] if part not in (VALUE_TAG, LIST_TAG)]
        known = _keys(schema, inside, schema.get("$defs", {})) or []
        return Problem(key(place), "an unknown key", suggest(str(place[-1]), known))
    if kind == "missing":
        return Problem(key(place), "nothing", "this key is needed")
    template = _ALLOWED.get(kind)
    allowed = template.format_map(context).replace("'", "") if template else detail["msg"]
    return Problem(key(place), context.get("given", quoted(detail["input"])), allowed)


def _keys(
    schema: Mapping[str, Any], place: Sequence[str | int], definitions: Mapping[str, Any]
) -> list[str] | None:
    """The keys that a JSON schema knows at a place, None where it knows of no mapping there."""
    if "$ref" in schema:
        return _keys(definitions[schema["$ref"].rpartition("/")[2]], place, definitions)
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):  # a model or null; one value or a list
        found = (_keys(alternative, place, definitions) for alternative in alternatives)
        return next((names for names in found if names is not None), None)
    if not place:
        return list(schema["properties"]) if "properties" in schema else None
    head, *rest = place
    properties = schema.get("properties", {})
    # What names its own keys, such as the axes of an import, says what is behind any of them.
    inner = (
        schema.get("items")
        if isinstance(head, int)
        else properties.get(head, schema.get("additionalProperties"))
    )
    return _keys(inner, rest, definitions) if isinstance(inner, Mapping) else None
