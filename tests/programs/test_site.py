# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: built without a warning, read without a network, and without a link to nowhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

from tests.support.workflow import ROOT

LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
"""What a page loads, by the attribute that says from where."""
PARTS = ["Tutorial", "How to", "Reference", "Explanation"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    arguments = ["--fail-on-warning", "--keep-going", "--quiet", "-c", "docs", "-d", folder / "trees", "."]
    command = [Path(sys.executable).with_name("sphinx-build"), *arguments, folder / "html"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, BeautifulSoup]:
    return {page: BeautifulSoup(page.read_text(), "html.parser") for page in sorted(site.rglob("*.html"))}


def test_a_page_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, BeautifulSoup]) -> None:
    loaded = [
        f"{page.name}: {tag[attribute]}"
        for page, content in pages.items()
        for name, attribute in LOADING.items()
        for tag in content.find_all(name, **{attribute: True})
        if urlsplit(str(tag[attribute])).netloc
    ]
    elsewhere = re.compile(r"(url\(|@import) *['\"]?(https?:)?//")
    sheets = [sheet for sheet in site.rglob("*.css") if elsewhere.search(sheet.read_text())]
    assert loaded == sheets == []


def _dead(site: Path, pages: dict[Path, BeautifulSoup]) -> Iterator[str]:
    anchors = {page: {tag["id"] for tag in content.find_all(id=True)} for page, content in pages.items()}
    for page, content in pages.items():
        for tag in content.find_all("a", href=True):
            link = urlsplit(str(tag["href"]))
            if link.scheme or link.netloc:
                continue
            target = (page.parent / unquote(link.path)).resolve() if link.path else page
            is_there = target.is_file() and target.is_relative_to(site.resolve())
            known = anchors.get(target) if link.fragment else None
            if not is_there or (known is not None and unquote(link.fragment) not in known):
                yield f"{page.relative_to(site)}: {tag['href']}"


def test_no_link_leads_nowhere(site: Path, pages: dict[Path, BeautifulSoup]) -> None:
    assert len(pages) > 40
    assert list(_dead(site, pages)) == []


def test_every_page_is_in_one_of_four_parts(pages: dict[Path, BeautifulSoup], site: Path) -> None:
    front = pages[site / "docs/README.html"]
    assert [caption.text for caption in front.select(".sidebar-tree .caption-text")] == PARTS
    links = front.select(".sidebar-tree a.internal[href]")
    listed = {(site / "docs" / str(link["href"])).resolve() for link in links}
    made = {(site / page.relative_to(ROOT)).with_suffix(".html") for page in ROOT.glob("docs/**/*.md")}
    assert made - listed == {site / "docs/README.html"}
