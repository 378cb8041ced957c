# SPDX-License-Identifier: Apache-2.0
"""What notebooks show of text that came with data: as it is, in the pages that are made of them."""

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from nbconvert.filters import markdown2html
from tpcsweep.figures.panels import as_table, as_text

READABLE = st.characters(exclude_categories=["C"])
TEXTS = st.text(READABLE, max_size=30) | st.text("<>&\"'=/ab `*_[](){}#!|~$\\:-\n", max_size=30)
SCRIPT = "<script>document.title = 'owned'</script>"


def shown(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


@given(TEXTS)
def test_text_in_markdown_is_shown_as_it_is(text: str) -> None:
    page = shown(markdown2html(f"*Found:* {as_text(text)}."))
    assert {tag.name for tag in page.find_all(name=True)} <= {"p", "em"}
    # As browsers do, runs of white space count as one.
    assert page.get_text().split() == f"Found: {' '.join(text.split())}.".split()


@pytest.mark.parametrize(
    "text", [SCRIPT, "[x](javascript:alert)", "$$a$$", "http://x.example/", "`a`", "&lt;b&gt;"]
)
def test_no_sign_of_a_text_is_markdown(text: str) -> None:
    page = shown(markdown2html(f"- {as_text(text)}"))
    assert page.get_text().strip() == text
    assert {tag.name for tag in page.find_all(name=True)} == {"ul", "li"}


def test_no_text_of_a_table_is_html() -> None:
    frame = pd.DataFrame({SCRIPT: [SCRIPT, "b"], "x": [0.12345, float("nan")]})
    page = shown(as_table(frame.rename_axis(index=SCRIPT).rename_axis(columns=f"2{SCRIPT}")).to_html())
    assert page.find("script") is None
    assert page.get_text().count(SCRIPT) == 4
    assert [cell.get_text() for cell in page.select("td.col1")] == ["0.123", ""]
    assert as_table(frame, index=False).to_html().count(">0.123<") == 1
