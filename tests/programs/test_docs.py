# SPDX-License-Identifier: Apache-2.0
"""The documentation: code in its pages runs or is planned, and its site is whole without a network."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from tpcsweep.cli import main

from tests.support.made_up import write_results
from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "config/README.md",
    ROOT / "examples/README.md",
    *sorted(ROOT.glob("docs/*.md")),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"testbed": ("Netns", "Kubernetes", "Endpoints", "Simulation")}
"""By schema its parts that a block may be of."""
AXES = {"origins": [1, 2], "cores": [0.15, 0.6], "rtt": [5.0, 50.0], "streams": [1, 2, 4], "repetition": [1]}
"""Those of the demo."""
QUICK = ("page", "claims", "compare", "plan", "export", "history")
"""Commands that answer in seconds, `plan` if the folder has fits: they run if the data that pages name are here."""
PROFILES = ("--profile", "--report", "--software-deployment-method", "-s")
PLACEHOLDER = re.compile(r"\b(NAME|CELL|FILE|PATH|RESULTS|TARGET|FORMAT)\b|…")


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    """Give the page and the text of each block in one of some languages."""
    for page in PAGES:
        for language, text in BLOCK.findall(page.read_text()):
            if language in languages:
                yield str(page.relative_to(ROOT)), text


def commands(program: str) -> list[str]:
    """Return what pages type of a program, without what is before it or joined to it."""
    found = []
    for _, text in blocks("", "sh"):
        for line in text.replace("\\\n", " ").splitlines():
            parts = re.split(r"&&|\|\||;|\||>", line.partition(" #")[0])
            words = [part.strip().removeprefix(".venv/bin/") for part in parts]
            found += [one for one in words if re.match(rf"{program}( |$)", one)]
    return sorted(set(found))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as after `make sweep`: results/demo with fits, and the examples."""
    made = tmp_path_factory.mktemp("project")
    (made / "examples").symlink_to(ROOT / "examples")
    write_results(made, AXES)
    return made


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", sorted({page for page, _ in blocks("python")}))
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("here")
def test_python_runs(page: str) -> None:
    names: dict[str, object] = {}
    for where, text in blocks("python"):
        if where == page:
            exec(compile(text, page, "exec"), names)


@pytest.mark.parametrize("command", commands("tpcsweep"))
@pytest.mark.usefixtures("here")
def test_commands_are_understood_and_quick_ones_run(command: str) -> None:
    words = shlex.split(command)[1:]
    with main.make_context("tpcsweep", [*words]) as group:
        found = main.get_command(group, words[0])
        assert found is not None
        found.make_context(words[0], words[1:], parent=group)
    data = [Path(word.partition(":")[0]) for word in words[1:] if word.endswith(".nc") or "results/" in word]
    fits = words[0] != "plan" or all((path / "models.json").exists() for path in data)
    if words[0] in QUICK and data and fits and all(path.exists() for path in data):
        assert not PLACEHOLDER.search(command)
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output


WRITTEN = re.compile(r"`config/sweeps/([\w-]+)\.yaml`[^`]*```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""Name and content of each sweep that a page has its reader write."""


@pytest.mark.parametrize("command", commands("snakemake"))
def test_runs_can_be_planned(command: str, tmp_path: Path) -> None:
    if PLACEHOLDER.search(command) or any(word in command for word in PROFILES):
        pytest.skip("needs another file or machine")
    named = [word.partition("=")[2] for word in shlex.split(command) if word.startswith("dataset=")]
    for name, text in (sweep for page in PAGES for sweep in WRITTEN.findall(page.read_text())):
        file = tmp_path / f"{name}.yaml"
        file.write_text(text)
        command = re.sub(rf"\bsweep={name}(?!\S)", f"sweep={file}", command)
    if all((ROOT / name).exists() for name in named):
        done = snakemake("-n", *shlex.split(command)[1:])
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("target", commands("make"))
def test_targets_exist(target: str) -> None:
    words = [word for word in shlex.split(target)[1:] if "=" not in word]
    defined = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(words) <= set(defined)


def schemas() -> Iterator[Draft202012Validator]:
    for kind in ("sweep", "import", "config", "testbed"):
        schema = json.loads((ROOT / f"workflow/schemas/{kind}.schema.json").read_text())
        for part in KINDS.get(kind, ("",)):
            yield Draft202012Validator(
                {"$ref": f"#/$defs/{part}", "$defs": schema["$defs"]} if part else schema
            )


def test_settings_are_parts_of_files_that_a_schema_accepts() -> None:
    known, wrong = list(schemas()), []
    for page, text in blocks("yaml"):
        content = yaml.safe_load(text)
        if isinstance(content, dict) and "cff-version" not in content and "apiVersion" not in content:
            faults = [
                [one for one in schema.iter_errors(content) if one.validator != "required"]
                for schema in known
            ]
            wrong += [(page, text)] * all(faults)
    assert wrong == []


FOREIGN = {
    "has older modification time",
    "than input",
    "No space left on device",
    "no space left",
    "memory or disk",
}
"""Words of Snakemake, the kernel and tools."""


def test_messages_that_the_page_explains_exist() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    tables = re.findall(r"^\| message contains .*\n((?:\|.*\n)+)", page, re.MULTILINE)
    rows = [row.split(" | ")[0] for row in "".join(tables).splitlines()]
    quoted = [word for row in rows for word in re.findall(r"`([^`]+)`", row)]
    parts = {part.strip() for one in quoted for part in one.split("…")} - FOREIGN
    sources = [ROOT / "envs/setup.sh", *ROOT.glob("workflow/**/*.py")]
    text = "\n".join(re.sub(r'"\s*\n\s*f?"', "", source.read_text()) for source in sources)
    assert len(parts) > 30
    assert [part for part in sorted(parts) if part not in text] == []


NUMBER = re.compile(r"\d+(?:\.\d+)?")
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


def test_the_page_of_the_shipped_measurements_is_that_of_today(tmp_path: Path) -> None:
    for name in ("surface.nc", "surface.models.json"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    made = tmp_path / "surface.html"
    done = CliRunner().invoke(main, ["page", str(tmp_path / "surface.nc"), "-o", str(made)])
    assert done.exit_code == 0, done.output
    (text, data), (shipped, known) = map(parts, (made, ROOT / "examples/surface.html"))
    assert data.keys() == known.keys()
    for name in data.keys() - {"plans"}:  # the choice between nearly equal settings
        assert_alike(json.dumps(data[name]), json.dumps(known[name]))
    assert data["plans"].keys() == known["plans"].keys()
    assert_alike(text, shipped)


def parts(page: Path) -> tuple[str, dict[str, Any]]:
    """Return a page without its data, and the data."""
    before, data, after = re.split(r'(?<=id="data">)(.*?)(?=</script>)', page.read_text(), flags=re.DOTALL)
    return before + after, json.loads(data)


def assert_alike(one: str, other: str) -> None:
    """Numbers of models may differ slightly between processors."""
    assert NUMBER.sub("0", one) == NUMBER.sub("0", other), "run make docs"
    for here, there in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True):
        rounding = 0.01 if "." in here + there else 1
        assert float(here) == pytest.approx(float(there), rel=0.03, abs=rounding), "run make docs"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, BeautifulSoup]:
    """The site's pages; examples/surface.html is a download, without the dataset next to it."""
    found = (page for page in sorted(site.rglob("*.html")) if "_downloads" not in page.parts)
    return {page: BeautifulSoup(page.read_text(), "html.parser") for page in found}


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
