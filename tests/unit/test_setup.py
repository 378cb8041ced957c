# SPDX-License-Identifier: Apache-2.0
"""Set-up and a cluster's needs with programs in place of others, lists of packages, and missing extras in a line."""

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import simulation
import yaml
from IPython.core.interactiveshell import InteractiveShell
from packaging.specifiers import SpecifierSet
from tpcsweep.common.extras import EXTRAS, MissingExtraError, missing_extras
from tpcsweep.data import exporting, opening
from tpcsweep.data.importing.table_import import read_table
from tpcsweep.running.archiving import write_crate
from tpcsweep.testbeds import support
from tpcsweep.testbeds.loading import load

from tests.support.workflow import ROOT, finished

ENVS = ROOT / "envs"

PLAYED = r"""#!/bin/bash
# Each of the programs by its name; what they are asked for is written down.
program=$(basename "$0")
case "$program $1" in
dpkg-query* | rpm* | *" -c") ;;
*) echo "$program $* ${UV_DEFAULT_INDEX:-}" >>"$PLAYED_LOG" ;;
esac
case "$program $1 $2 $3" in
dpkg-query*) case "${*: -1}" in ${PLAYED_MISSING:-nothing}) exit 1 ;; *) printf installed ;; esac ;;
rpm\ --eval*) echo "${PLAYED_RHEL:-}" ;;
rpm*) case " ${PLAYED_MISSING:-} " in *" ${*: -1} "*) exit 1 ;; esac ;;
id*) echo "${PLAYED_USER:-1000}" ;;
"python"*" -c "*"version_info <"*) [ "$program" != "${PLAYED_OLD:-}" ] ;;
"python"*" -c "*) echo "$(realpath "$0") 3.11" ;;
"python"*" -m venv "*)
  mkdir -p .venv/bin
  echo "VIRTUAL_ENV='$PWD/.venv'" >.venv/bin/activate
  ln -s "$(realpath "$0")" .venv/bin/python
  ln -s "$(realpath "$0")" .venv/bin/uv ;;
"python -m pip config") echo "global.index-url='https://mirror.example.org/simple'" ;;
"uv pip install"*)
  [ -z "${PLAYED_BREAKS:-}" ] || exit 2
  mkdir -p .venv/lib/python3.11/site-packages
  touch .venv/lib/python3.11/site-packages/__editable__.tpcsweep-1.pth ;;
esac
"""


def executable(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


@dataclass(frozen=True)
class Checkout:
    """A checkout with nothing but what set-up reads, and a machine with nothing but what it runs."""

    folder: Path
    machine: Path

    def set_up(self, *extras: str, **environment: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        environment |= {"PATH": f"{self.machine}:/usr/bin:/bin", "PLAYED_LOG": str(self.log)}
        command = [self.folder / "envs/setup.sh", *extras]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def keeps(self, *extras: str, **environment: str) -> bool:
        return "nothing is missing" in self.set_up(*extras, **environment).stdout

    @property
    def log(self) -> Path:
        return self.machine / "log"

    def installed(self) -> list[str]:
        """The lists that the last set-up installed; [] where it did nothing."""
        found = [line for line in self.log.read_text().splitlines() if line.startswith("uv") and "-r" in line]
        return re.findall(r"-r envs/(\S+)\.txt", "".join(found))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "machine").mkdir()
    for name in ("python3", "python3.11", "python3.12", "dpkg-query", "rpm", "dnf", "id"):
        executable(tmp_path / "machine" / name, PLAYED)
    shutil.copytree(ENVS, tmp_path / "one/envs")
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "one")
    return Checkout(tmp_path / "one", tmp_path / "machine")


def test_extras_add_to_those_that_are_there(checkout: Checkout) -> None:
    checkout.set_up("zarr")
    assert checkout.installed() == ["requirements", "requirements-zarr"]
    assert checkout.keeps()
    assert checkout.log.read_text() == ""
    checkout.set_up("parquet", "globus")
    assert checkout.installed() == ["requirements", "requirements-parquet", "requirements-zarr"]
    assert "-m venv" not in checkout.log.read_text()
    assert checkout.keeps("zarr", "globus")


def test_each_long_step_is_announced(checkout: Checkout) -> None:
    steps = ["making .venv with Python 3.11", "installing", "compiling", "done"]
    told = checkout.set_up("zarr").stdout.splitlines()
    assert [line.startswith(f"setup: {step}") for line, step in zip(told, steps, strict=True)] == [True] * 4
    assert "with the extras zarr" in told[1]
    assert len(checkout.set_up().stdout.splitlines()) == 1


@pytest.mark.parametrize("sign", [" ", "'", "*"])
def test_a_folder_in_which_no_job_would_start_is_refused_at_once(checkout: Checkout, sign: str) -> None:
    there = checkout.folder.with_name(f"a{sign}é")
    checkout.folder.rename(there)
    done = Checkout(there, checkout.machine).set_up()
    assert (done.returncode, done.stdout) == (1, "") and not (there / ".venv").exists()
    assert done.stderr.startswith(f"setup: given the folder {there}, allowed: ")
    assert "Move the checkout" in done.stderr


def test_a_folder_with_accents_is_set_up(checkout: Checkout) -> None:
    there = checkout.folder.with_name("André-1.2_3,@=+%^日本")
    checkout.folder.rename(there)
    assert Checkout(there, checkout.machine).set_up().returncode == 0


def _changed(checkout: Checkout) -> None:
    with (checkout.folder / "envs/requirements.txt").open("a") as file:
        file.write("# changed\n")


def _copied(checkout: Checkout) -> None:
    # `pip install .` removes the editable installation.
    (link,) = (checkout.folder / ".venv").rglob("__editable__*")
    link.unlink()


def _broken_off(checkout: Checkout) -> None:
    shutil.rmtree(checkout.folder / ".venv")
    assert checkout.set_up("zarr", PLAYED_BREAKS="yes").returncode != 0


@pytest.mark.parametrize("what", [_changed, _copied, _broken_off])
def test_a_damaged_venv_is_repaired(checkout: Checkout, what: Callable[[Checkout], None]) -> None:
    checkout.set_up("zarr")
    what(checkout)
    assert "setup: done" in checkout.set_up().stdout
    assert checkout.installed() == ["requirements", "requirements-zarr"]
    log = checkout.log.read_text()
    assert "--editable ." in log and "-m venv" not in log
    assert checkout.keeps()


@pytest.mark.parametrize("how", [partial(shutil.copytree, symlinks=True), shutil.move])
def test_a_moved_checkout_is_set_up_again_with_its_extras(checkout: Checkout, how: object) -> None:
    checkout.set_up("zarr")
    there = checkout.folder.with_name("two")
    how(checkout.folder, there)
    other = Checkout(there, checkout.machine)
    (there / ".venv/of-the-first").touch()
    done = other.set_up()
    assert f"replacing .venv: it was made in {checkout.folder}/.venv with" in done.stdout
    assert other.installed() == ["requirements", "requirements-zarr"]
    assert not (there / ".venv/of-the-first").exists()
    assert other.keeps()
    shutil.rmtree(there / ".venv")
    (there / ".venv").mkdir()  # without a Python
    assert "replacing .venv: it was made in another folder" in other.set_up().stdout


def test_a_venv_that_another_command_made_is_used(checkout: Checkout) -> None:
    checkout.set_up()
    (checkout.folder / ".venv/.installed").unlink()
    (checkout.folder / ".venv/of-the-first").touch()
    checkout.set_up()
    assert checkout.installed() == ["requirements"]
    assert (checkout.folder / ".venv/of-the-first").exists()
    assert checkout.keeps()


def test_another_interpreter_is_taken_when_asked_for_and_kept(checkout: Checkout) -> None:
    checkout.set_up()
    assert "replacing .venv" in checkout.set_up(PYTHON="python3.12").stdout
    assert "python3.12 -m venv" in checkout.log.read_text()
    assert checkout.keeps()
    (checkout.machine / "python3.12").unlink()
    assert "replacing .venv" in checkout.set_up().stdout


def test_what_is_installed_comes_from_where_pip_asks(checkout: Checkout) -> None:
    checkout.set_up()
    lines = [line for line in checkout.log.read_text().splitlines() if line.startswith("uv")]
    assert lines and all(line.endswith("https://mirror.example.org/simple") for line in lines)
    checkout.set_up("zarr", UV_DEFAULT_INDEX="https://own.example.org")
    assert "mirror" not in checkout.log.read_text()


def test_without_root_the_missing_packages_are_named(checkout: Checkout) -> None:
    assert checkout.set_up(PLAYED_MISSING="libns3-dev").returncode == 0
    done = checkout.set_up("ns3", PLAYED_MISSING="libns3-dev")
    assert done.returncode == 1
    assert "these packages of debian are missing: libns3-dev. Run this as root" in done.stderr


ALMA = {"PLAYED_RHEL": "9", "PLAYED_OLD": "python3"}
"""AlmaLinux 9, whose own Python is 3.9."""


def test_on_almalinux_what_is_missing_comes_by_dnf_with_epel(checkout: Checkout) -> None:
    missing = {"PLAYED_MISSING": "xrootd-server iproute-tc globus-gass-copy-progs"}
    done = checkout.set_up("globus", **ALMA, **missing)
    assert done.returncode == 1
    names = "iproute-tc xrootd-server globus-gass-copy-progs"
    assert f"missing: {names}. Run this as root once, or have root do it: dnf install {names}" in done.stderr
    done = checkout.set_up("globus", "zarr", **ALMA, **missing, PLAYED_USER="0")
    assert done.returncode == 0, done.stderr
    log = checkout.log.read_text()
    epel, packages = re.findall(r"^dnf install (.*?) *$", log, re.MULTILINE)
    assert epel.endswith(" epel-release")
    assert packages.endswith(f" --enablerepo=crb {names}")
    assert "apt-get" not in log
    assert checkout.installed() == ["requirements", "requirements-zarr"]
    assert "python3.11 -m venv .venv" in log
    assert checkout.keeps(**ALMA)


DEBIAN_EXTRAS = "crate, docs, globus, history, ns3, parquet, slurm, test, xrootd, zarr"
ALMA_EXTRAS = "crate, docs, globus, history, parquet, slurm, xrootd, zarr"
ALWAYS = {name for name, extra in EXTRAS.items() if extra.always}
EVERY = [f"requirements-{name}" for name in ("crate", "history", "parquet", "slurm", "zarr")]
FOR_TESTS = sorted([*EVERY, "requirements-docs", "requirements-test"])


@pytest.mark.parametrize(
    ("extra", "machine", "lists"),
    [
        ("all", {}, EVERY),
        ("all", ALMA, EVERY),
        ("test", {}, [*FOR_TESTS, "validator"]),
        ("parquets", {}, f"given the extra parquets, allowed on debian: all, {DEBIAN_EXTRAS}"),
        ("ns3", ALMA, f"given the extra ns3, allowed on alma9: all, {ALMA_EXTRAS}"),
        ("test", ALMA, f"given the extra test, allowed on alma9: all, {ALMA_EXTRAS}"),
        ("zarr", {"PYTHON": "python3", "PLAYED_OLD": "python3"}, "Python 3.11 or later is needed"),
    ],
)
def test_extras_fit_the_system(checkout: Checkout, extra: str, machine: dict[str, str], lists: Any) -> None:
    done = checkout.set_up(extra, **machine)
    if isinstance(lists, list):
        assert checkout.installed() == ["requirements", *lists]
    else:
        assert done.returncode != 0
        assert lists in done.stderr
        assert checkout.installed() == []


def test_no_list_says_where_packages_come_from() -> None:
    """That is the machine's affair; `envs/setup.sh` has pip and uv refuse what lacks a version or a hash."""
    assert not [file.name for file in ENVS.glob("*.txt") if "://" in file.read_text()]


CONTAINERFILE = (ROOT / "envs/image/Containerfile").read_text()
NOT_IN_IMAGES = {"docs", "test", "slurm"}
"""Those from PyPI that neither an image nor an environment of conda has: the last one is where Slurm's commands are."""


def named(text: str) -> set[str]:
    return set(re.findall(r"envs/(?:image/)?(?:requirements|debian)[\w-]*\.txt", text))


def test_the_image_has_what_the_lists_of_this_machine_say() -> None:
    lists = {f"envs/{file.name}" for file in ENVS.glob("debian*.txt")}
    assert lists - named(CONTAINERFILE) == {"envs/debian-test.txt", "envs/debian-xrootd.txt"}


def test_an_environment_of_conda_has_what_the_image_has() -> None:
    asked = re.findall(r"envs/requirements[\w-]*\.txt", CONTAINERFILE)
    script = (ENVS / "tpcsweep.post-deploy.sh").read_text()
    assert named(script) == {*asked}
    mine = {f"envs/{file.name}" for file in ENVS.glob("requirements*.txt")}
    assert mine.difference(asked) == {f"envs/requirements-{extra}.txt" for extra in NOT_IN_IMAGES}
    # Snakemake makes an environment anew where its files change, and the lists are none of them.
    lists = hashlib.sha256(b"".join((ROOT / file).read_bytes() for file in asked)).hexdigest()
    assert f"# sha256 {lists}" in script.splitlines()
    environment = yaml.safe_load((ENVS / "tpcsweep.yaml").read_text())
    (python,) = (line for line in environment["dependencies"] if line.startswith("python "))
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert python.removeprefix("python =") in SpecifierSet(allowed)


def test_conda_outside_a_checkout_is_refused_in_a_line_and_not_in_the_catalogue(tmp_path: Path) -> None:
    done = finished(["bash", str(ENVS / "tpcsweep.post-deploy.sh")], cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == (
        f"{tmp_path}/envs/requirements.txt is missing: run snakemake in a checkout of tpcsweep, and not as a module\n"
    )
    catalogue = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())
    assert catalogue["usage"]["software-stack-deployment"]["conda"] is False


def test_every_rule_that_runs_something_names_the_environment_of_conda() -> None:
    texts = [file.read_text() for file in (ROOT / "workflow/rules").glob("*.smk")]
    scripts = [rule for text in texts for rule in re.split(r"(?m)^ *rule\b", text) if "script:" in rule]
    assert len(scripts) >= len(texts)
    assert all("conda:\n" in text and '"../../envs/tpcsweep.yaml"' in text for text in scripts)


MODULES = {"crate": "rocrate", "history": "ruptures", "parquet": "pyarrow", "zarr": "zarr"}
MODULES |= {"slurm": "snakemake_executor_plugin_slurm"}
MODULES |= {
    "figures": "seaborn",
    "kubernetes": "kubernetes",
    "measure": "snakemake",
    "models": "sklearn",
    "notebooks": "papermill",
}


def line_of(name: str) -> str:
    pip = f" or `pip install 'tpcsweep[{name}]'`" if name in MODULES else ""
    if name in ALWAYS:
        return f"the extra {name} ({EXTRAS[name].content}) is not installed: run `make setup`{pip}"
    return f"the extra {name} ({EXTRAS[name].content}) is not installed: run `make setup EXTRAS={name}`{pip}"


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)


def test_each_missing_extra_has_a_line_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert missing_extras(MODULES) == []
    without(monkeypatch, *MODULES.values())
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = [*MODULES, "globus", "ns3"]
    assert missing_extras(missing) == [line_of(name) for name in missing]
    # A wheel has no Makefile.
    monkeypatch.setattr("tpcsweep.common.extras.CHECKOUT", None)
    [crate, ns3] = missing_extras(["crate", "ns3"])
    assert crate == "the extra crate (rocrate) is not installed: run `pip install 'tpcsweep[crate]'`"
    assert ns3.endswith("is not installed: run `apt-get install g++ libns3-dev` as root")


def test_the_extras_are_those_that_set_up_has_lists_for() -> None:
    lists = {file.stem.partition("-")[2] for file in (ROOT / "envs").glob("*-*.txt")}
    assert lists - {"docs", "test"} == set(EXTRAS) - ALWAYS
    assert all((ENVS / f"requirements-{name}.in").exists() for name in ALWAYS)


def test_what_a_sweep_needs_follows_from_its_testbed_and_tools(tmp_path: Path) -> None:
    def needs(testbed: str, **parameters: object) -> list[str]:
        file = tmp_path / "sweep.yaml"
        file.write_text(yaml.safe_dump({"parameters": parameters}))
        return support.extras(load({"sweep": str(file), "testbed": testbed}, ROOT))

    globus = {"tool": ["curl", "globus-url-copy"], "copy_mode": "push"}
    assert needs("netns", tool="curl") == []
    assert needs("netns", **globus) == ["globus"]
    assert needs("simulation", **globus) == []
    assert needs("kubernetes", streams=4) == []


def test_what_imports_an_extra_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "a.parquet")
    without(monkeypatch, "pyarrow", "zarr", "rocrate")
    monkeypatch.setenv("PATH", str(tmp_path))
    a = tmp_path / "a"
    for extra, function, *arguments in (
        ("parquet", read_table, tmp_path / "a.parquet"),
        ("zarr", exporting.zarr, ROOT / "examples/surface.nc", a),
        ("zarr", opening.copy_dataset, tmp_path / "a.zarr", a),
        ("crate", write_crate, tmp_path, None, None, a, a),
        ("ns3", simulation.build, a),
    ):
        with pytest.raises(MissingExtraError, match=f"EXTRAS={extra}"):
            function(*arguments)


def test_a_notebook_shows_the_line_alone(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell()
    shell.run_cell(
        "from tpcsweep.common.extras import MissingExtraError\nraise MissingExtraError('one line')"
    )
    assert capsys.readouterr().out.strip() == "one line"


def test_what_a_sweep_needs_has_no_packages_of_extras() -> None:
    lists = (file.with_suffix(".in") for file in ENVS.glob("requirements-*.txt"))
    asked = {line for file in lists for line in file.read_text().splitlines()}
    assert {"pyarrow", "rocrate", "statsmodels", "pytest"} <= asked
    # Tests look at pictures, notebooks and threads with libraries that base requirements need, too.
    needed = set(re.findall(r"^([a-z0-9._-]+)==", (ENVS / "requirements.txt").read_text(), re.MULTILINE))
    assert "snakemake" in needed and asked & needed <= {"pillow", "beautifulsoup4", "jsonschema"}


NEEDS = ROOT / "tests/cluster/local/needs.sh"
KUBERNETES = (NEEDS.parent / "go/go.mod").read_text().split("k8s.io/kubernetes ")[1].split()[0]
WANTED = f"cluster: Kubernetes {KUBERNETES} is compiled by Go 1.24 or later"


def checked(machine: Path, go: str | None, user: int = 0) -> subprocess.CompletedProcess[str]:
    """What is said on a machine with that Go, whose user has that number."""
    for name, answer in (("id", user), *([("go", go)] if go else [])):
        executable(machine / name, f"#!/bin/sh\necho {answer}\n")
    path = {"PATH": f"{machine}:/usr/bin:/bin"}
    return subprocess.run([NEEDS], env=path, capture_output=True, text=True, check=False)


OLD = "cluster: that is too old; https://go.dev/dl has newer ones\n"


@pytest.mark.parametrize(
    ("version", "refusal"), [("1.24", ""), ("1.25.3", ""), ("2.0", ""), ("1.9.2", OLD), ("1.23.12", OLD)]
)
def test_a_go_is_taken_if_it_is_new_enough(tmp_path: Path, version: str, refusal: str) -> None:
    done = checked(tmp_path, f"go{version}")
    said = f"{WANTED}; here is {tmp_path}/go, Go {version}\n{refusal}"
    assert (done.returncode, done.stderr) == (int(bool(refusal)), said)


def test_users_without_root_and_machines_without_go_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    done = checked(tmp_path / "other", "go1.26", user=1000)
    assert done.returncode == 1 and "takes root" in done.stderr
    if not Path("/usr/bin/go").exists():  # which would be found
        done = checked(tmp_path, None)
        said = f"{WANTED}, and there is no `go` on the PATH; https://go.dev/dl has it\n"
        assert (done.returncode, done.stderr) == (1, said)


def test_make_asks_what_a_cluster_needs_before_it_sets_anything_up() -> None:
    planned = finished(["make", "--dry-run", "cluster"]).stdout
    assert planned.index("local/needs.sh") < planned.index("envs/setup.sh")
