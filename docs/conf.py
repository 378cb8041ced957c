# SPDX-License-Identifier: Apache-2.0
"""The documentation site: the Markdown pages where they are, sorted as docs/README.md sorts them. `make docs-site`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FRONT = "docs/README"

project = "tpcsweep"
author = "The tpcsweep developers"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
root_doc = FRONT

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = ["*.md", "docs/**.md", "benchmarks/**README.md", "studies/*/README.md"]
include_patterns += [f"{folder}/README.md" for folder in ("config", "envs/image", "examples", "results")]
exclude_patterns = [".*", "build", "k8s", "workflow"]
# As GitHub makes anchors of headings: links are the same in both.
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]
highlight_language = "none"
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_default_options = {"show-inheritance": False}

# System fonts, and a search of its own: nothing is loaded from elsewhere.
html_theme = "furo"
html_title = f"tpcsweep {release}"
html_extra_path = ["site"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_copyright = False


def _sorted(_app: object, name: str, source: list[str]) -> None:
    """Make the site's navigation of the front page's lists: a part for each heading, a page for each first mention."""
    if name != FRONT:
        return
    for heading, part in re.findall(r"(?ms)^## (.+?)$(.*?)(?=^## |\Z)", source[0]):
        pages = dict.fromkeys(re.findall(r"\]\(([^)#:]+\.md)", part))
        entries = "\n".join(
            f"/docs/{page}" if "/" not in page else page.replace("../", "/") for page in pages
        )
        source[0] += f"\n```{{toctree}}\n:caption: {heading}\n:hidden:\n\n{entries}\n```\n"


def _untyped(_app: object, what: str, _name: str, _of: object, _options: object, lines: list[str]) -> None:
    """Keep napoleon from taking what is before a colon in an attribute's first line for its type.

    It looks at the first line that is not empty, which is a comment then.
    """
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", _sorted)
    app.connect("autodoc-process-docstring", _untyped, priority=400)
