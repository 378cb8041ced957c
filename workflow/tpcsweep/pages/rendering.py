# SPDX-License-Identifier: Apache-2.0
"""Pages as HTML: each one file that needs nothing beside it, and no network. Text from data stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page(content: Mapping[str, Any]) -> str:
    """Give a sweep's page, of what `content.content` gives."""
    return _TEMPLATES.get_template("page.html").render(
        **content, json=as_json(content["data"]), plotly=_script(get_plotlyjs())
    )


def overview(sweeps: Sequence[Mapping[str, Any]]) -> str:
    """Give the page that lists all sweeps, of what `making.entries` gives."""
    return _TEMPLATES.get_template("overview.html").render(sweeps=sweeps)


def over_time(content: Mapping[str, Any]) -> str:
    """Give the page of a history, of what `history.content` gives."""
    return _TEMPLATES.get_template("history.html").render(**content)


def published(content: Mapping[str, Any]) -> str:
    """Give the page of published figures and claims, of what `published.report` gives."""
    return _TEMPLATES.get_template("published.html").render(**content)


def minute(moment: str) -> str:
    """Give a moment in ISO 8601 for people, to its minute."""
    return moment[:16].replace("T", " ")


def percent(part: int, whole: int) -> str:
    """Give a share for people: some of very many is not 0."""
    return "< 1" if 0 < 200 * part <= whole else f"{100 * part / max(whole, 1):.0f}"


_TEMPLATES.filters |= {"minute": minute, "percent": percent}


def as_json(values: Any) -> Markup:
    """Give values as JSON which no text in it can end as a script."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(re.sub("[<>&\u2028\u2029]", lambda sign: f"\\u{ord(sign[0]):04x}", text))  # noqa: S704


def _script(code: str) -> Markup:
    """A library's code as the text of a script, which its own strings do not end."""
    return Markup(code.replace("</script", "<\\/script"))  # noqa: S704
