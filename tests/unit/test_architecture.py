# SPDX-License-Identifier: Apache-2.0
"""The house: generated parts are current, names in texts exist, scripts stand.

One module of the package formats numbers for people, and one starts processes.
"""

import ast
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpcsweep.data.variables import SOURCES
from tpcsweep.running import studies

from docs import architecture, commands
from tests.support.commands import COMMANDS
from tests.support.notebooks import code_of
from tests.support.workflow import ROOT

NAME = re.compile(r"(?<!/)\btpcsweep((?:\.[A-Za-z_][A-Za-z_0-9]*)+)")
TEXTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),  # not docs/adding: its examples do not exist
    *(ROOT / "notebooks").glob("*.ipynb"),
    *(ROOT / "studies").glob("*/*.ipynb"),
    *(ROOT / name / "README.md" for name in ("benchmarks", "config", "examples")),
    *(ROOT / "studies").glob("*/README.md"),
]


def test_the_picture_and_the_table_are_those_of_the_code() -> None:
    stale = [str(file) for file, text in architecture.made().items() if file.read_text() != text]
    assert not stale, "run make docs"


def test_every_package_says_what_it_is_about() -> None:
    assert [room for floor in architecture.floors() for room in floor if not architecture.about(room)] == []


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_in_texts_exist(text: Path) -> None:
    missing = []
    for name in sorted({match[0] for match in NAME.finditer(text.read_text())}):
        if not resolves(name):
            missing.append(name)
    assert not missing


PACKAGE = ROOT / "workflow/tpcsweep"
SUFFIXES = {"py", "toml", "yaml", "nc", "json", "md", "csv", "html", "smk", "log", "sh", "txt"}
FOREIGN = {"xrd", "ofs", "tpc", "gfal2", "publication", "module", "naming"}
"""First words of dotted names that are no modules: settings of XRootD, another library, patterns, and an argument."""


def test_names_in_docstrings_exist() -> None:
    modules = {
        each.name.removeprefix("tpcsweep."): each.name
        for each in pkgutil.walk_packages([str(PACKAGE)], "tpcsweep.")
    }
    missing = []
    for file in PACKAGE.rglob("*.py"):
        for name in re.findall(r"`([a-z_]\w*(?:\.\w+)+)`", file.read_text()):
            first, _, rest = name.removeprefix("tpcsweep.").partition(".")
            if first in FOREIGN or rest in SUFFIXES:
                continue
            homes = [full for short, full in modules.items() if f".{short}".endswith(f".{first}")]
            if not any(resolves(f"{home}.{rest}") for home in homes):
                missing.append(f"{file.relative_to(ROOT)}: {name}")
    assert missing == []


def resolves(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_the_functions_on_the_way_of_a_cell_and_of_figures_exist() -> None:
    text = (ROOT / "docs/developing.md").read_text()
    way = text.partition("## The way of a cell")[2].partition("\n## ")[0]
    names = set(re.findall(r"`(\w+(?:\.\w+)+)`", way)) - {"not_measured.json"}
    assert len(names) > 20
    for name in names | set(re.findall(r"`(\w+(?:\.\w+)+)`", " ".join(SOURCES.values()))):
        pkgutil.resolve_name(f"tpcsweep.{name}")


def test_the_tests_that_show_guarantees_exist() -> None:
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", (ROOT / "docs/developing.md").read_text())
    assert len(named) > 10
    assert [test for file, test in named if f"def {test}(" not in (ROOT / file).read_text()] == []


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")]
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
RULES = {"all", "cells", "published"}


def named(program: str) -> set[str]:
    code = "\n".join(text for page in PAGES for text in CODE.findall(page.read_text()))
    return set(re.findall(rf"(?m)(?:`|^|&& |bin/|\$\(){program} ([a-z]\w*)(?![\w/])", code))


@pytest.mark.parametrize("page", commands.PARTS)
def test_generated_parts_are_current(page: str) -> None:
    assert (commands.DOCS / page).read_text() == commands.made(page), "run make docs"


def test_pages_name_commands_and_targets_that_exist() -> None:
    assert named("tpcsweep") - {*COMMANDS} == set()
    rules = (ROOT / "workflow/Snakefile").read_text()
    assert set(re.findall(r"^rule (\w+):", rules, re.MULTILINE)) == RULES
    assert named("snakemake") - RULES == set()


@pytest.mark.parametrize("script", sorted(ROOT.glob("workflow/scripts/*.py")), ids=lambda script: script.stem)
def test_a_script_reports_a_full_disk(script: Path) -> None:
    *_, work = ast.parse(script.read_text()).body
    assert isinstance(work, ast.With)
    assert ast.unparse(work.items[0]).startswith("exit_on_errors(")


def test_a_full_disk_is_explained_and_other_refusals_keep_their_traceback(tmp_path: Path) -> None:
    with (
        pytest.raises(SystemExit) as ended,
        studies.exit_on_errors(str(tmp_path / "no folder/log"), about="demo"),
    ):
        raise OSError(28, "No space left on device", "results/demo/dataset.nc")
    told = "demo: results/demo/dataset.nc: No space left on device: make room"
    assert str(ended.value.code).startswith(told)
    with pytest.raises(PermissionError), studies.exit_on_errors(str(tmp_path / "log"), about="demo"):
        raise PermissionError(13, "Permission denied")
    assert not (tmp_path / "log").exists()


FOR_PROGRAMS = {
    "analysis/models/observations.py": "names of deployments",
    "deploying/paths/delayline.py": "arguments of a program",
    "deploying/paths/network_path.py": "arguments of tc",
    "analysis/plans/recommendations.py": "CSV",
    "testbeds/kubernetes/objects.py": "quantities of Kubernetes",
    "open_questions/inside.py": "arguments of tc",
    "open_questions/uml/__init__.py": "arguments of timeout",
    "terena2005/cases.py": "names of files",
    "usatlas2007/lines.py": "rows for dashboards",
}
"""The modules that may write floats with a format of their own, for programs that read them."""
READ = re.compile(r"""(float|Decimal)\(f?["'][^"']*["']""")
"""A text that is read as a number at once only rounds it."""
EXPONENTS = re.compile(r"%[-+ 0#]*\d*(\.\d+)?[eEgG](?!\w)|:[-+#,<>^\d.]*(\{\w+\})?[eEgG]\}")
"""Formats that may write a number as 2.23e+03: g and e, of f-strings, format and %."""


def sources() -> Iterator[tuple[str, str]]:
    for folder in (ROOT / "workflow/tpcsweep", ROOT / "studies", ROOT / "notebooks"):
        for file in sorted(folder.rglob("*.py")):
            yield str(file.relative_to(folder)), file.read_text()
        for file in sorted(folder.rglob("*.ipynb")):
            yield str(file.relative_to(folder)), "\n".join(code_of(file))


def exponents(code: str) -> list[int]:
    lines = enumerate(code.splitlines(), 1)
    return [number for number, line in lines if EXPONENTS.search(READ.sub("", line))]


def test_only_files_for_programs_have_formats_of_their_own() -> None:
    found = {place: lines for place, code in sources() if (lines := exponents(code))}
    others = {place: lines for place, lines in found.items() if place not in FOR_PROGRAMS}
    assert not others, "tpcsweep.common.numbers writes numbers for people: short, between and plain"
    assert found.keys() == FOR_PROGRAMS.keys(), "an exception that none needs"


def test_one_module_knows_where_the_files_of_the_package_are() -> None:
    own_place = re.compile(r"\b__file__\b|importlib.resources|import resources|\bbasedir\b|inspect\.getfile")
    files = [file for kind in ("*.py", "*.smk", "Snakefile") for file in (ROOT / "workflow").rglob(kind)]
    found = {file.name for file in files if own_place.search(file.read_text())}
    assert found == {"installation.py"}, (
        "use PACKAGE and SHIPPED of tpcsweep.common.installation: a wheel has no checkout"
    )


STARTS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
"""Functions of subprocess that start processes."""
OF_OS = r"os\.(system|popen|(posix_)?spawn\w+|exec\w+(?<!e))"
INHERITS = re.compile(rf"Popen|subprocess\.({'|'.join(STARTS)})|{OF_OS}")
ASYNC = re.compile(r"asyncio\.create_subprocess_\w+")


def started(tree: ast.AST) -> Iterator[str]:
    """The calls that start a process with whatever environment this process has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "subprocess":
            yield from STARTS & {each.name for each in node.names} - {"Popen"}  # the name is a type, too
        if isinstance(node, ast.Call):
            called, environment = ast.unparse(node.func), any(word.arg == "env" for word in node.keywords)
            if INHERITS.fullmatch(called) or (not environment and ASYNC.fullmatch(called)):
                yield called


def test_every_process_is_started_with_an_environment_of_its_kind() -> None:
    found = {file: [*started(ast.parse(file.read_text()))] for file in (ROOT / "workflow").rglob("*.py")}
    starting = sorted(file.name for file, calls in found.items() if calls)
    assert starting == ["host_state.py", "processes.py"], (
        found
    )  # the former is sent to hosts without the package


PACKAGE = ROOT / "workflow/tpcsweep"
OF_TESTBEDS = {"checks", "settings", "site", "testbed"}
"""Modules that each kind of testbed has, and that are found by their names."""


def test_no_name_stands_for_two_modules() -> None:
    """Testbeds and commands are found by the names of their modules, which may be those of others."""
    found = [file for file in PACKAGE.rglob("*.py") if file.name not in ("__init__.py", "__main__.py")]
    others = [file for file in found if file.parent.name != "cli" and file.parent.parent.name != "testbeds"]
    of_testbeds = {file for file in found if file.parent.parent.name == "testbeds"}
    names = Counter(file.stem for file in (*others, *(f for f in of_testbeds if f.stem not in OF_TESTBEDS)))
    assert [name for name, count in names.items() if count > 1] == []


def test_packages_have_their_code_in_modules() -> None:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    bodies = {file: ast.parse(file.read_text()).body for file in PACKAGE.rglob("__init__.py")}
    found = [file for file, body in bodies.items() if any(isinstance(node, kinds) for node in body)]
    assert not found
