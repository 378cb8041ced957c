# SPDX-License-Identifier: Apache-2.0
"""Little or odd data: every command and notebook makes what can be made, and says in a line what cannot.

Commands come from the command line's own list and notebooks from their folder; each is given what its parameters name.
A new one is in the product by itself. Notebooks draw every figure.
"""

import contextlib
import io
import json
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import click
import pytest
from matplotlib.figure import Figure
from tpcsweep.analysis.models import fit, saved_fits
from tpcsweep.analysis.page_sections import SECTIONS, goals_section
from tpcsweep.cli import main
from tpcsweep.cli.options import Named
from tpcsweep.data.opening import load
from tpcsweep.pages import figures, making
from tpcsweep.pages.figures import panels
from tpcsweep.running import notebooks
from tpcsweep.running.overview import list_sweeps

from tests.support import meshes
from tests.support.browser import PHONE
from tests.support.commands import COMMANDS, tpcsweep
from tests.support.notebooks import code_of, executed, parameters, run_here
from tests.support.odd import ODD
from tests.support.outsider import broken
from tests.support.workflow import ROOT

ASKED = {"folder": ["NEW"], "words": ["0.5Gbit/s", "DATASET"], "results": ["DATASET"], "setting": ["streams"]}
"""What an argument is given that is more than a dataset, or that may be one; and what a required option is given."""
ENDS = {"figure": ".svg", "effects": ".svg"}
"""How the name of a command's output ends, if not as a folder."""
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
QUIET = (ResourceWarning, DeprecationWarning, PendingDeprecationWarning)
"""Warnings that Python does not show to users."""


def ways(command: click.Command) -> Iterator[list[str]]:
    """The ways to ask a command about a DATASET: with each of its choices, without its options and with them all."""
    places: list[Sequence[Sequence[str]]] = []
    options, choices = [], [[]]
    for part in command.params:
        if isinstance(part.type, click.Choice):
            option = part.opts[-1:] * isinstance(part, click.Option)
            given = [[*option, str(choice)] for choice in part.type.choices]
            if isinstance(part, click.Argument):
                places.append(given)
            else:
                choices += given
        elif isinstance(part, click.Argument) and isinstance(part.type, click.Path | Named):
            if part.required or part.nargs == -1:
                places.append([ASKED.get(str(part.name), ["DATASET"])])
        elif isinstance(part, click.Option) and part.required and part.name in ASKED:
            places.append([[part.opts[0], *ASKED[part.name]]])
        elif isinstance(part, click.Option) and (part.is_flag or part.name == "output"):
            options += [part.opts[-1], *["OUTPUT"] * (not part.is_flag)]
    for row in product(*places):
        words = [word for place in row for word in place]
        if "DATASET" in words:
            yield from ([*words, *choice] for choice in choices)
            yield [*words, *options]


class Odd:
    """A folder of results with one of the odd datasets, and whatever is made of it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.file = folder / "results/odd/dataset.nc"
        self.file.parent.mkdir(parents=True)
        ODD[kind](self.file)
        saved_fits.fit_all(load(self.file), self.file.with_name("models.json"))
        self.faults: list[str] = []

    @cached_property
    def given(self) -> dict[str, Any]:
        """What notebooks are given, by the names of their parameters."""
        file, figures = str(self.file), str(self.file.with_name("figures"))
        return {
            "dataset": file, "base": file, "new": file, "models": str(self.file.with_name("models.json")),
            "figures": figures, "folder": figures, "figure": "chep2024_fig7", "question": {"target": "0.5 Gbit/s"},
            "x": "streams", "curve": "rtt",
        }  # fmt: skip

    @contextlib.contextmanager
    def watched(self, what: str) -> Iterator[None]:
        """Note an exception, a warning or a word on standard error as a fault of `what`."""
        said = io.StringIO()
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stderr(said):
            warnings.simplefilter("always")
            try:
                yield
            except SystemExit as end:  # a notebook that says why it ends
                if len(str(end).splitlines()) != 1:
                    self.faults.append(f"{what}: {end}")
            except Exception as error:
                self.faults.append(f"{what}: {error!r}")
        loud = {str(one.message) for one in warned if not issubclass(one.category, QUIET)}
        self.faults += [f"{what}: {text}" for text in (*sorted(loud), said.getvalue()) if text]


def laid_out(figure: Figure, folder: Path, name: str) -> None:
    """Lay a figure out as `save` does, which warns of what does not fit; nobody looks at the picture."""
    figure.draw_without_rendering()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.png").touch()


@pytest.fixture(scope="module", params=ODD)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Odd]:
    """Each odd dataset in turn, for all tests. Searches and drawings are short: this is about whether they end."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tpcsweep.analysis.models.saved_fits.fit", partial(fit.fit, resamples=3))
        patched.setattr("tpcsweep.analysis.publications.reproduction.DRAWS", 2)
        patched.setattr(notebooks, "run_notebook", run_here)
        patched.setattr("tpcsweep.pages.figures.save", laid_out)
        patched.setattr(panels, "save", laid_out)
        yield Odd(tmp_path_factory.mktemp("odd"), request.param)


@pytest.fixture
def odd(made: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Odd:
    monkeypatch.chdir(tmp_path)
    made.faults.clear()
    return made


def test_every_command_answers_or_says_in_a_line_why_it_cannot(odd: Odd) -> None:
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        for number, words in enumerate(ways(command)):
            # A folder of results where a command accepts one, and the file where it accepts no folder.
            dataset = odd.file if name == "import" else odd.file.parent
            shown = " ".join([name, *words])
            words = [
                {"DATASET": str(dataset), "OUTPUT": f"{name}{number}{ENDS.get(name, '')}"}.get(word, word)
                for word in words
            ]
            with odd.watched(shown):
                done = tpcsweep(name, *words)
                said = done.stderr.splitlines()
                if done.exit_code == 2 and (len(said) != 1 or not said[0].startswith("Error: ")):
                    odd.faults.append(f"{shown}: {done.stderr}")
                if done.exit_code == 0 and "--json" in words:
                    json.loads(done.stdout)
                assert done.exit_code in (0, 1, 2, 3) and "nan" not in done.stdout.lower().split(), (
                    done.stdout
                )
    with odd.watched("overview"):
        list_sweeps(odd.file.parents[1])
        assert "cannot be read" not in (odd.file.parents[1] / "index.html").read_text()
    assert not odd.faults


def test_every_notebook_shows_what_can_be_shown(odd: Odd) -> None:
    for notebook in NOTEBOOKS:
        with odd.watched(notebook.stem):
            executed(notebook, Path(), **{name: odd.given[name] for name in parameters(notebook)})
    assert not odd.faults


def test_nothing_on_the_page_of_a_mesh_looks_broken(tmp_path: Path) -> None:
    sites = meshes.names(6)
    truth = meshes.truth(sites, 4, receives={"S02": 0.4}, links={("S03", "S05"): 0.3})
    file = meshes.folded(tmp_path / "mesh", meshes.measured(truth.logs, sites, 4, missing=[("S06", "S05")]))
    goals = tmp_path / "goals.csv"
    goals.write_text("source,destination,Gbit/s\nS01,S03,1\n")
    page = file.with_name("index.html")
    making.make_page(file, page, listed=True, analyses=[*SECTIONS, goals_section(goals)])
    assert broken(page, PHONE, file) == []


def test_nothing_on_its_pages_looks_broken(odd: Odd) -> None:
    page = odd.file.with_name("index.html")
    making.make_page(odd.file, page, listed=True, analyses=SECTIONS)
    assert broken(page, PHONE, odd.file) == []
    list_sweeps(odd.file.parents[1])
    assert broken(odd.file.parents[1] / "index.html", PHONE) == []


def test_commands_and_figures_are_found_by_themselves() -> None:
    asked = {name for name in COMMANDS if [*ways(main.get_command(click.Context(main), name))]}
    read_sweeps = {"grid", "status", "check", "reap", "dataset", "init"}
    assert asked == {*COMMANDS} - read_sweeps
    shown = "".join(source for notebook in NOTEBOOKS for source in code_of(notebook))
    functions = {
        name
        for name in figures.__all__
        if callable(getattr(figures, name)) and name not in ("save", "write_figure")
    }
    assert {name for name in functions if f"draw.{name}(" not in shown} == set()
