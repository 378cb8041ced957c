# SPDX-License-Identifier: Apache-2.0
"""Exit codes of all commands: 1 is a negative answer and nothing else, and no user meets a traceback.

Commands are those of the registry, with the words of their own examples, so that a new command is tested too.
"""

import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import click
import netCDF4
import pytest
from click.testing import CliRunner, Result
from tpcsweep.cli import main
from tpcsweep.testbeds import kinds

from tests.support.blocks import made_up, written
from tests.support.commands import COMMANDS
from tests.support.made_up import write_results
from tests.support.workflow import ROOT

SURFACE = ROOT / "examples/surface.nc"
MAY_ANSWER_NO = {"check", "compare", "goals", "history"}


def foreign(path: Path) -> None:
    with netCDF4.Dataset(path, "w") as other:
        other.createDimension("streams", 2)
        for name in ("throughput", "flags", "status", "streams"):
            other.createVariable(name, "f8", ("streams",))[:] = [1, 2]


HOSTILE: dict[str, Callable[[Path], object]] = {
    "missing": str,
    "a folder": Path.mkdir,
    "empty": Path.touch,
    "text": lambda path: path.write_text("→ rtt;rate\n"),
    "of another program": foreign,
    "cut": lambda path: path.write_bytes(SURFACE.read_bytes()[:20_000]),
    "a workbook": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(range(256))),
    "a link to itself": lambda path: path.symlink_to(path),
    "below a file": lambda path: path.parent.touch(),
}


def example(name: str) -> list[str]:
    """The words of a command's first example, without the command."""
    command = main.get_command(click.Context(main), name)
    assert command and command.help
    line = command.help.partition("Example: tpcsweep ")[2].partition("\n")[0]
    return shlex.split(line)[1:]


def run(*words: str, charset: str = "ascii") -> Result:
    done = CliRunner(charset=charset).invoke(main, list(words), prog_name="tpcsweep")
    if done.exception and done.exception.__cause__:
        raise done.exception.__cause__
    return done


def faults(words: list[str], done: Result) -> list[str]:
    """What is wrong with an answer, with the command line."""
    no = done.exit_code == 1 and words[0] in MAY_ANSWER_NO and "Error: " not in done.stderr
    wrong = [] if no or done.exit_code in (0, 2) else [f"exit code {done.exit_code}"]
    wrong += ["a traceback"] if "Traceback" in done.output or "[Errno" in done.stderr else []
    wrong += ["no reason"] if done.exit_code == 2 and "Error: " not in done.stderr else []
    return (
        [f"{shlex.join(words)}: {' '.join(wrong)}: {done.output[-300:]} {done.exception!r}"] if wrong else []
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    write_results(
        folder, {"cores": [0.15, 0.6], "rtt": [5.0, 50.0, 100.0], "streams": [1, 2], "repetition": [1, 2]}
    )
    return folder


@pytest.fixture(autouse=True)
def project(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with results/demo. No testbed is touched, and no model fitted at length."""
    shutil.copytree(made / "results", tmp_path / "results", copy_function=shutil.copy2)
    (tmp_path / "examples").mkdir()
    shutil.copy(made / "results/demo/dataset.nc", tmp_path / "examples/surface.nc")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "0")
    monkeypatch.setattr(kinds, "load_testbed", lambda _: Mock(reap=lambda _: []))
    monkeypatch.setattr(kinds, "findings", lambda _: [])
    monkeypatch.setattr("tpcsweep.running.runner.deployment_errors", lambda _: ())
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_hostile_words_are_refused(name: str, project: Path) -> None:
    words = example(name)
    assert faults([name], run(name)) == []
    found = faults([name, *words], run(name, *words))
    for kind, write in HOSTILE.items():
        hostile = project / kind.replace(" ", "_") / "words.nc"
        if kind != "below a file":
            hostile.parent.mkdir()
        write(hostile)
        for at, word in enumerate(words):
            if word != "--" and "--" not in words[:at]:
                changed = [name, *words[:at], str(hostile), *words[at + 1 :]]
                found += faults(changed, run(*changed))
    assert not found, "\n".join(found)


def with_output() -> list[str]:
    commands = {name: main.get_command(click.Context(main), name) for name in COMMANDS}
    return [name for name, one in commands.items() if one and any(p.name == "output" for p in one.params)]


@pytest.mark.parametrize("name", with_output())
def test_output_that_cannot_be_written_is_an_error(name: str, project: Path) -> None:
    (project / "file").touch()
    words = example(name)
    words = words[: words.index("-o")] if "-o" in words else words
    found = []
    for place in ("file/below.yaml", "/sys/nowhere/out.yaml"):
        changed = [name, *words, "-o", place]
        done = run(*changed)
        found += faults(changed, done) or ([] if done.exit_code == 2 else [f"{changed}: {done.output}"])
    assert not found, "\n".join(found)


def test_a_forbidden_place_is_an_error_with_the_option_for_another() -> None:
    done = run("export", "csv", str(SURFACE), "-o", "/sys/out.csv")
    assert done.exit_code == 2 and "/sys/out.csv: " in done.stderr and "Use -o" in done.stderr


@pytest.mark.parametrize("name", with_output())
def test_a_full_disk_is_an_error(name: str, project: Path) -> None:
    words = example(name)
    output = project / ("out.svg" if name in ("figure", "effects") else "out.yaml")
    if name == "effects":
        words = [str(written(project / "blocks", made_up({"stock": 0.0, "fq": 0.3}, 3, seed=0)))]
    if name == "figure":
        words = words[: words.index("--panels")]  # the project's sweep has other axes
    words = [name, *(words[: words.index("-o")] if "-o" in words else words), "-o", str(output)]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as if no more were left
    try:
        done = run(*words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert faults(words, done) == []
    assert done.exit_code == 2, done.output
    assert ("no cells yet" if name == "dataset" else "Make room") in done.stderr


@pytest.mark.parametrize("charset", ["ascii", "latin-1"])
def test_letters_that_a_terminal_lacks_are_replaced(charset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpcsweep.pages.making.make_page", lambda *_, **_options: None)
    for name in COMMANDS:
        for words in ([name, "--help"], [name, *example(name)]):
            done = run(*words, charset=charset)
            assert not done.exception or isinstance(done.exception, SystemExit), (words, done.exception)
            assert faults(words, done) == []
    compared = run("compare", "demo:cores=0.15", "demo:cores=0.6", charset=charset).stdout
    assert "cores 0.15 -> 0.6" in " ".join(compared.split())


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (MemoryError(), 2, "Error: not enough memory"),
        (
            ModuleNotFoundError("No module named 'x'"),
            2,
            "Error: tpcsweep is not installed completely: No module",
        ),
        (
            OSError(28, "No space left on device", "a"),
            2,
            "Error: a: No space left on device. Make room, then run",
        ),
        (PermissionError(13, "Permission denied", "a"), 2, "Error: a: Permission denied"),
        (
            KeyError("flag_meanings"),
            2,
            "KeyError: 'flag_meanings'\nError: this is a fault of tpcsweep. Please report",
        ),
    ],
)
def test_an_error_of_any_kind_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, told: str
) -> None:
    monkeypatch.setattr("tpcsweep.cli.grid.load_study", Mock(side_effect=error))
    done = CliRunner().invoke(main, ["grid"])
    assert done.exit_code == code
    assert told in done.stderr


@pytest.mark.parametrize("words", ["grid --sweep demo", "--help", "compare --help"])
def test_output_that_nobody_takes_is_an_error(words: str) -> None:
    command = f"{Path(sys.executable).parent}/tpcsweep"
    full = subprocess.run(
        f"{command} {words} >/dev/full", shell=True, capture_output=True, text=True, check=False
    )
    assert full.returncode == 2 and "Make room" in full.stderr and "Traceback" not in full.stderr
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run([command, *words.split()], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["stat"], "no command 'stat': status? one of check, claims"),
        (["status", "--flg", "disturbed"], "Did you mean '--flag'?"),
        (["plan", "--rt", "1ms"], "(Did you mean one of: '--mtu', '--rtt'"),
        (["status", "--flag", "distrubed"], "no flag 'distrubed': disturbed? one of not_steady"),
        (["grid", "--sweep", "smok"], "given 'smok', allowed: smoke? or another of"),
        (
            ["compare", "demo", "demo", "--fail-below", "95"],
            "Did you mean 95 %? 95 means 9500 %. Use a fraction",
        ),
        (["plan", "--probability", "95"], "Did you mean 95 %? 95 means 9500 %."),
        (["compare", "demo:cores=inf", "demo"], "base, cores: given 'inf', allowed: null? a number of cores"),
        (["page", "store.zarr"], "`tpcsweep import store.zarr` makes one of a Zarr store"),
        (["import", "book.csv"], "given a ZIP file, such as a workbook of Excel"),
        (
            ["page", "demo", "-o", "nowhere/page.html"],
            "nowhere: a link to /nowhere/else, which does not exist",
        ),
    ],
)
def test_a_mistake_is_answered_by_what_was_meant(words: list[str], told: str) -> None:
    Path("store.zarr").mkdir()
    Path("nowhere").symlink_to("/nowhere/else")
    Path("book.csv").write_bytes(b"PK\x03\x04 and more")
    done = run(*words)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("parameters:\n\trtt: 5 ms\n", "mine.yaml: line 2: given a tab at its beginning, allowed: blanks"),
        ("parameters: {streams: '1, 2, 4'}", "allowed: [1, 2, 4]? several values are a list in brackets"),
        ("parameters: {file_size: 4M}", "allowed: 4 MB or 4 MiB? a size"),
        ("parameters: {bandwidth: 1gbps}", "allowed: 1 Gbit/s or 1 GB/s? a rate"),
        ("parameters: {cores: .inf}", "allowed: null? a number of cores"),
        (
            "{parameters: {}, measurement: {precision: 5}}",
            "precision: given 5, allowed: 5 %? 5 means 500 %. a fraction",
        ),
        (
            "{parameters: {}, retry_share: 20}",
            "retry_share: given 20, allowed: 20 %? 20 means 2000 %. a fraction",
        ),
        ("streams: 4", "streams: given an unknown key, allowed: parameters.streams? here one of description"),
        (
            "parameters: {precision: 5 %}",
            "parameters.precision: given an unknown key, allowed: measurement.precision?",
        ),
    ],
)
def test_a_mistake_in_a_sweep_is_answered_by_what_was_meant(content: str, told: str) -> None:
    Path("mine.yaml").write_text(content)
    done = run("grid", "--sweep", "mine.yaml", charset="utf-8")
    assert done.exit_code == 2
    assert told in done.stderr
