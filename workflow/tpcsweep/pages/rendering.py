# SPDX-License-Identifier: Apache-2.0
"""Page templates, and the function that fills them. Text from data is escaped."""

import json
import re
import tomllib
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tpcsweep.common.installation import PACKAGE
from tpcsweep.common.numbers import short

FOLDER = PACKAGE / "pages/templates"
LIBRARIES = PACKAGE / "pages/library"
_TEMPLATES = Environment(
    loader=FileSystemLoader(FOLDER),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, **content: Any) -> str:
    """Return a page as HTML: the template `NAME.html`, filled with content."""
    return _TEMPLATES.get_template(f"{template}.html").render(**content)


def minute(moment: str) -> str:
    """Return an ISO 8601 time for people, without seconds."""
    return moment[:16].replace("T", " ")


def period(start: str, end: str) -> str:
    """Return two ISO 8601 times for people, the second without a date that it shares."""
    first, last = minute(start), minute(end)
    if first == last:
        return first
    return f"{first} to {last[11:] if first[:10] == last[:10] else last}"


def percent(part: int, whole: int) -> str:
    """Return a percentage for people; a small part of a large number is not 0."""
    return "< 1" if 0 < 200 * part <= whole else f"{100 * part / max(whole, 1):.0f}"


def as_json(values: Any) -> Markup:
    """Return values as JSON in which no text can end a script."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(re.sub("[<>&\u2028\u2029]", lambda sign: f"\\u{ord(sign[0]):04x}", text))  # noqa: S704


def libraries() -> Markup:
    """Return the chart library and the library that it needs, as one script."""
    listed = tomllib.loads((LIBRARIES / "libraries.toml").read_text(encoding="utf-8"))["library"]
    scripts = [(LIBRARIES / each["file"]).read_text(encoding="utf-8") for each in listed]
    return Markup("\n".join(scripts).replace("</script", "<\\/script"))  # noqa: S704


_TEMPLATES.filters |= {
    "minute": minute,
    "period": period,
    "percent": percent,
    "short": short,
    "as_json": as_json,
}
_TEMPLATES.globals["libraries"] = libraries
