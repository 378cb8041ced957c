# SPDX-License-Identifier: Apache-2.0
"""Every process is started with an environment of its kind."""

import ast
import re
from collections.abc import Iterator

from tests.support.workflow import ROOT

PACKAGE = ROOT / "workflow"
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


def test_what_starts_a_process_without_an_environment_is_seen() -> None:
    calls = ["subprocess.run([])", "Popen([])", "os.system('')", "os.execvp('', [])", "subprocess.call([])"]
    calls += ["asyncio.create_subprocess_exec('')", "asyncio.create_subprocess_shell('')"]
    for call in calls:
        assert list(started(ast.parse(call))), call
    assert not list(started(ast.parse("processes.run([]); asyncio.create_subprocess_exec('', env={})")))


def test_every_process_is_started_with_an_environment_of_its_kind() -> None:
    files = (file for file in PACKAGE.rglob("*.py") if file.name != "processes.py")
    found = {str(file.relative_to(PACKAGE)): [*started(ast.parse(file.read_text()))] for file in files}
    assert {file: calls for file, calls in found.items() if calls} == {}
