# SPDX-License-Identifier: Apache-2.0
"""The package as others install it, and what a checkout says in more than one file."""

import ast
import os
import re
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tpcsweep.common.extras import EXTRAS

from tests.support.wheels import wheel_in
from tests.support.workflow import ROOT, TPCSWEEP, finished, succeeded

PACKAGE = ROOT / "workflow/tpcsweep"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BIN = Path(sys.executable).parent

TEXTS = {file.stem.partition("-")[2]: file.read_text() for file in ROOT.glob("envs/requirements*.in")}
ASKED = {extra: re.findall(r"^[^#\n].*", text, re.MULTILINE) for extra, text in TEXTS.items()}
DRAWN = ("figures", "models", "notebooks")
PARTS = {"measure": (*DRAWN, "measure"), "notebooks": DRAWN}
"""Extras that contain others: the workflow runs notebooks, and these draw figures and fit models."""
LISTS = {extra: {canonicalize_name(Requirement(line).name) for line in ASKED[extra]} for extra in ASKED}
"""What each extra asks for, by its name; under the empty name what looking at data needs."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this checkout; made from a source distribution, so that that has all, too."""
    return zipfile.ZipFile(wheel_in(tmp_path_factory.mktemp("build")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


def test_a_wheel_has_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    # Files of the checkout are behind symbolic links.
    found = (Path(folder, name) for folder, _, names in os.walk(PACKAGE, followlinks=True) for name in names)
    files = {str(file.relative_to(PACKAGE.parent)) for file in found if "__pycache__" not in file.parts}
    assert {Path(name).suffix for name in files} >= {".py", ".c", ".ipynb", ".j2", ".smk", ".typed"}
    assert files == {name for name in wheel.namelist() if name.startswith("tpcsweep/")}


def test_a_wheel_alone_lists_a_sweep_and_packs_the_software_of_a_checkout(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    wheel.extractall(tmp_path / "installed")
    copy = "from tpcsweep.running.archiving import copy_software"
    code = f"import pathlib, sys; {copy}; copy_software(pathlib.Path(sys.argv[1]))"
    for name, place in {"wheel": tmp_path / "installed", "checkout": ROOT / "workflow"}.items():
        environment = {**os.environ, "PYTHONPATH": str(place)}
        assert "2 cells" in succeeded([*TPCSWEEP, "grid", "--sweep", "smoke"], cwd=tmp_path, env=environment)
        succeeded([sys.executable, "-c", code, str(tmp_path / name)], cwd=tmp_path, env=environment)
    files = {name: software(tmp_path / name) for name in ("wheel", "checkout")}
    assert files["wheel"] == files["checkout"]


def software(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_what_is_pinned_is_what_an_installation_asks_for(metadata: Message) -> None:
    asked: dict[str, set[str]] = {}
    for text in metadata.get_all("Requires-Dist", []):
        requirement = Requirement(text)
        extra = re.fullmatch(r'extra == "(.*)"', str(requirement.marker)) if requirement.marker else None
        asked.setdefault(extra[1] if extra else "", set()).add(canonicalize_name(requirement.name))
    parts = {extra: set().union(*(LISTS[part] for part in PARTS.get(extra, [extra]))) for extra in LISTS}
    assert asked == parts


def test_whatever_the_package_imports_is_asked_for() -> None:
    asked = set().union(*(names for extra, names in LISTS.items() if extra not in ("docs", "test")))
    brought = {canonicalize_name(Requirement(line).name) for name in asked for line in requires(name) or ()}
    distributions = packages_distributions()
    unknown = {}
    for file in PACKAGE.rglob("*.py"):
        for module in imported(file) - sys.stdlib_module_names - {"tpcsweep"}:
            names = {canonicalize_name(name) for name in distributions.get(module, ())}
            if not names & (asked | brought):
                unknown[module] = file
    assert not unknown


def imported(file: Path) -> set[str]:
    """The top-level names of what a file imports, wherever it does so."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def test_the_version_is_the_same_wherever_it_stands(metadata: Message) -> None:
    version = PROJECT["version"]
    assert metadata["Version"] == version
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (version, PROJECT["license"])
    changes = (ROOT / "CHANGELOG.md").read_text()
    heading = re.search(r"^## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)$", changes, re.MULTILINE)
    # A release has a date, in both files, and a tag; what is not released has neither.
    released = str(citation.get("date-released", "unreleased"))
    assert heading and heading.groups() == (version, released)
    if released == "unreleased":
        assert f"v{version}" not in git("tag")
    assert {tag for tag in git("tag", "--points-at", "HEAD") if tag[:1] == "v"} <= {f"v{version}"}


def test_the_citation_is_as_its_format_wants_it() -> None:
    # The schema is the checker's own: nothing is downloaded.
    schema = ["--builtin-schema", "vendor.citation-file-format"]
    succeeded([f"{BIN}/check-jsonschema", *schema, "CITATION.cff"])
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"title", "message", "abstract", "type", "license", "version"} <= set(citation)
    assert citation["keywords"] == PROJECT["keywords"]
    ours, theirs = ([author["name"] for author in of["authors"]] for of in (citation, PROJECT))
    assert ours == theirs


def git(*arguments: str) -> list[str]:
    """The lines that git answers; none outside of a checkout."""
    done = finished(["git", *arguments])
    return done.stdout.splitlines() if done.returncode == 0 else []


def test_every_source_says_its_licence() -> None:
    kinds = (".py", ".smk", ".sh", ".c", ".cc")
    files = [ROOT / name for name in git("ls-files")]
    sources = [file for file in files if file.suffix in kinds or file.name in ("Snakefile", "Makefile")]
    said = f"SPDX-License-Identifier: {PROJECT['license']}"
    heads = {file: file.read_text().splitlines()[:3] for file in sources if file.is_file()}
    assert not [file for file, head in heads.items() if said not in "\n".join(head)]


def without(tmp_path: Path, *names: str) -> dict[str, str]:
    """The environment of a Python that lacks modules."""
    (tmp_path / "sitecustomize.py").write_text(
        "import pkgutil, sys\n"
        f"sys.modules.update(dict.fromkeys({names}))\n"
        # Snakemake loads every plugin that it finds so.
        "found = pkgutil.iter_modules\n"
        f"pkgutil.iter_modules = lambda *given: (one for one in found(*given) if one.name not in {names})\n"
    )
    return {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'workflow'}"}


def test_a_sweep_is_made_without_the_other_extras(tmp_path: Path) -> None:
    others = [name for extra, one in EXTRAS.items() if not one.always for name in one.modules]
    needed = ["analysis.comparison", "running.notebooks", "running.runner", "testbeds.netns.testbed"]
    code = "\n".join(f"import tpcsweep.{name}" for name in needed)
    succeeded([sys.executable, "-c", code], env=without(tmp_path, *others, "kubernetes"))


def test_data_are_looked_at_without_any_extra(tmp_path: Path) -> None:
    environment = without(tmp_path, *(name for extra in EXTRAS.values() for name in extra.modules))

    def typed(*words: str) -> tuple[int, str]:
        done = finished([*TPCSWEEP, *words], cwd=tmp_path, env=environment)
        return done.returncode, done.stdout

    surface = str(ROOT / "examples/surface.nc")
    assert typed("init", "sweeps")[1].endswith("run `make setup` or `pip install 'tpcsweep[measure]'`\n")
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "dataset.nc").symlink_to(surface)
    cores = [f"{surface}:cores={cores}" for cores in ("0.1", "0.4")]
    for words in (
        ["page", surface, "-o", "page.html"],
        ["export", "csv", surface],
        ["grid", "--sweep", "smoke"],
        ["status", "--sweep", "smoke"],
        ["plan", "10Gbit/s", "--rtt", "80ms"],
    ):
        code, output = typed(*words)
        assert code == 0, output
    for extra, *words in (
        ("figures", "figure", surface),
        ("history", "history", str(kept)),
        ("models", "plan", "0.8Gbit/s", "--rtt", "40ms", surface),
        ("models", "claims", surface),
        ("models", "compare", *cores),
        ("models", "effects", surface, "--of", "cores"),
        ("notebooks", "compare", *cores, "-o", "compared"),
        ("measure", "check", "netns", "--sweep", "smoke"),
        ("kubernetes", "check", "kubernetes", "--sweep", "smoke"),
    ):
        code, output = typed(*words)
        assert code == 2 and f"pip install 'tpcsweep[{extra}]'" in output, output


def test_the_readme_is_short_and_leads_to_all_parts_of_the_documentation() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) < 70
    parts = re.findall(r"^## (.+)$", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    assert len(parts) == 4
    assert all(f"(docs/README.md#{part.lower().replace(' ', '-')})" in readme for part in parts)


def test_make_help_lists_every_target() -> None:
    told = re.findall(r"^make (\S+) +\S", finished(["make", "help"]).stdout, re.MULTILINE)
    text = (ROOT / "Makefile").read_text()
    assert set(told) == set(re.findall(r"^([\w-]+):", text, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony and set(told) == set(phony[1].split())
    assert told[0] == "sweep"


def test_a_commit_is_held_to_what_make_lint_says() -> None:
    lint = re.findall(r"^\.venv/bin/(.*)$", finished(["make", "-n", "lint"]).stdout, re.MULTILINE)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"]
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in hooks[0]["hooks"]]
    assert len(entries) == len(lint)
    # A hook is given files where `make lint` gives a folder, or nothing, which is all.
    for entry, command in zip(entries, lint, strict=True):
        assert command.startswith(entry.removesuffix(" --force-exclude"))
