# SPDX-License-Identifier: Apache-2.0
"""Every command of the first pages, typed by an ordinary user who has the wheel and cannot see a checkout."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import xarray as xr
import yaml
from tpcsweep.data.labels import STATUS
from tpcsweep.testbeds.loading import load

from tests.support.commands import tpcsweep
from tests.support.installers import Installer, configure, installed, loopback
from tests.support.storage import Storage
from tests.support.users import TUN
from tests.support.workflow import ROOT, finished

_NAMES = ("README.md", "docs/answers.md", "docs/tutorial.md", "docs/endpoints.md")
PAGES = {name: (ROOT / name).read_text() for name in _NAMES}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(
    r"`((?:\.venv/bin/)?(?:tpcsweep|snakemake|make|pip|python3?|git|systemctl)(?![-\w])[^`\n]*)`"
)
AS_WRITTEN = ""

CHECKOUT = "needs a checkout"
INSTALLS = "the fixture installs the wheel by uv, in seconds"
NOT_HERE = {
    "make sweep": CHECKOUT,
    "make test": CHECKOUT,
    "make help": CHECKOUT,
    'make setup EXTRAS="parquet zarr"': CHECKOUT,
    "make setup": CHECKOUT,
    "python -m benchmarks.outside": CHECKOUT,
    "python3 -m venv .venv && .venv/bin/pip install .": INSTALLS,
    "python3 -m venv venv && . venv/bin/activate": INSTALLS,
    "pip install '/path/to/checkout[measure,history]'": INSTALLS,
    "pip install 'tpcsweep[measure,parquet]'": INSTALLS,
    "snakemake --profile slurm": "needs Slurm; the folder's link is that of k8s",
    "systemctl --user enable --now tpcsweep@endpoints.timer && loginctl enable-linger": "needs a login",
}
"""Commands of the pages that the user does not type, with the reason."""
DEMO_CELL = "results/demo/cells/origins=2/cores=0.6/rtt=50/streams=4/repetition=1.json"
K8S = "snakemake --profile k8s --config"
SMOKE = "results/smoke"
SMOKE_CELL = f"{SMOKE}/cells/deployment=only/streams=1/repetition=1.json"
PUBLISHED = "snakemake published --configfile config/published.yaml"
IN_A_NEW_FOLDER = "cd $(mktemp -d) && tpcsweep init sweeps && cd sweeps && "
TYPED = {
    "tpcsweep --help": AS_WRITTEN,
    ". .venv/bin/activate": AS_WRITTEN,
    ".venv/bin/tpcsweep page examples/surface.nc": AS_WRITTEN,
    "tpcsweep init": "tpcsweep init --help",
    "tpcsweep init sweeps": IN_A_NEW_FOLDER + "tpcsweep grid --sweep smoke",
    "tpcsweep init sweeps && cd sweeps": IN_A_NEW_FOLDER + "snakemake -n --config sweep=smoke",
    "tpcsweep grid": AS_WRITTEN,
    "snakemake -n": AS_WRITTEN,
    f"{K8S} testbed=kubernetes-netem": f"{K8S} testbed=netns sweep=smoke -n",
    "tpcsweep check": AS_WRITTEN,
    "snakemake --config sweep=smoke": "snakemake --config sweep=smoke -- cells",
    f"rm {DEMO_CELL} && snakemake": f"rm {SMOKE_CELL} && snakemake",
    "snakemake": AS_WRITTEN,
    "tpcsweep status": AS_WRITTEN,
    "tpcsweep reap": AS_WRITTEN,
    "tpcsweep claims results/demo": "tpcsweep claims results/smoke",
    "tpcsweep plan 10Gbit/s --rtt 80ms": AS_WRITTEN,
    "tpcsweep plan 0.8Gbit/s --rtt 40ms examples/surface.nc": "tpcsweep plan 0.8Gbit/s --rtt 40ms",
    "tpcsweep grid --sweep site": AS_WRITTEN,
    "snakemake --config sweep=site results=before": "snakemake -n --config sweep=site results=before",
    "snakemake --config sweep=site results=after": "snakemake -n --config sweep=site results=after",
    "tpcsweep compare before/site after/site": f"tpcsweep compare {SMOKE}:streams=1 {SMOKE}:streams=2",
    "tpcsweep figure results/demo --x rtt --lines streams -o rtt.pdf": (
        "tpcsweep figure examples/surface.nc --x rtt --lines streams -o rtt.pdf"
    ),
    "tpcsweep page dataset.nc": "tpcsweep page examples/surface.nc -o page.html",
    "tpcsweep crate results/demo": "tpcsweep crate results/smoke",
    "tpcsweep figure": "tpcsweep figure examples/surface.nc -o lines.svg",
    "tpcsweep claims": "tpcsweep claims examples/surface.nc",
    "tpcsweep crate": "tpcsweep crate results/smoke",
    "tpcsweep history": "tpcsweep history results/smoke",
    "tpcsweep export zarr": "tpcsweep export zarr examples/surface.nc",
    "tpcsweep grid --sweep mine": AS_WRITTEN,
    "snakemake --config sweep=mine": "snakemake -n --config sweep=mine",
    PUBLISHED: f"{PUBLISHED} -n",
    "tpcsweep check mine": AS_WRITTEN,
    "tpcsweep check mine --json": AS_WRITTEN,
    "tpcsweep grid --sweep endpoints --testbed mine": AS_WRITTEN,
    "snakemake --config sweep=endpoints testbed=mine": "snakemake --config sweep=endpoints testbed=mine -- cells",
    "tpcsweep reap --testbed NAME": "tpcsweep reap --testbed mine",
    "mkdir -p ~/.config/systemd/user && cp config/weekly/tpcsweep@.* ~/.config/systemd/user": AS_WRITTEN,
}
"""Commands of the pages in the order of typing, and how the user types those that are longer, or shorter, here."""
SHORT = {
    "parameters": {"tool": "curl", "file_size": "8 MiB", "streams": [1, 2]},
    "measurement": {"until": "files", "files": 4, "max_time": "1 min"},
}


def commands() -> Iterator[str]:
    """Yield the commands in blocks for a shell and between backquotes, without comments."""
    for text in PAGES.values():
        for language, block in BLOCK.findall(text):
            if language in ("", "sh", "bash", "console"):
                yield from filter(None, (re.sub(r"(^|\s+)# .*", "", line) for line in block.splitlines()))
        yield from INLINE.findall(BLOCK.sub("", text))
    yield from re.findall(r"Example: (.+)", tpcsweep("init", "--help").stdout)


def test_each_command_of_the_pages_is_typed_or_has_a_reason() -> None:
    assert {*commands()} == {*TYPED, *NOT_HERE}
    assert not TYPED.keys() & NOT_HERE.keys()
    demo = load({"sweep": "demo", "testbed": "netns"}, ROOT)
    assert DEMO_CELL in {f"{demo.folder}/cells/{cell.path}.json" for cell in demo.grid.cells}


@pytest.fixture(scope="module")
def user(storage: Storage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installer]:
    extras = ("crate", "history", "measure", "zarr")
    with installed(storage.pki, tmp_path_factory.mktemp("wheel"), *extras) as user:
        sweeps = user.home / "sweeps"
        mine, site = (
            re.findall(r"```yaml\n(parameters.*?)```", PAGES[f"docs/{name}.md"], re.DOTALL)[0]
            for name in ("tutorial", "answers")
        )
        files = {
            "config": {"sweep": "smoke", "testbed": "netns"},
            "sweeps/mine": yaml.safe_load(mine),
            "sweeps/site": yaml.safe_load(site),
            "sweeps/endpoints": SHORT,
            "testbeds/mine": loopback(),
        }
        configure(sweeps / "config", files)
        (sweeps / ".venv").symlink_to("../venv")
        (sweeps / "examples").mkdir()
        (sweeps / "examples/surface.nc").write_bytes((ROOT / "examples/surface.nc").read_bytes())
        for file in sweeps.rglob("*"):
            os.lchown(file, user.number, user.number)
        yield user


def typed(user: Installer, command: str, prepared: str = TUN) -> tuple[int, str]:
    """Type a command in the folder of sweeps, where the checkout is empty, and return exit code and output."""
    hidden = f"{prepared}mount -t tmpfs -o mode=755 tmpfs '{ROOT}'\n"
    shell = ["sh", "-c", f"umask 027\n. .venv/bin/activate\n{command}"]
    done = finished(user.command(user.home / "sweeps", shell, hidden), cwd=Path("/"))
    return done.returncode, done.stdout


def test_the_package_comes_from_the_wheel_alone(user: Installer) -> None:
    code, output = typed(
        user, "python -c 'import sys, tpcsweep; print(*sys.path, tpcsweep.__file__, sep=\"\\n\")'"
    )
    *path, package = output.splitlines()
    assert code == 0, output
    assert package.startswith(f"{user.home}/venv/lib/")
    assert not [folder for folder in path if folder.startswith(f"{ROOT}/")]


def test_a_machine_without_servers_gets_the_command_that_installs_them(user: Installer) -> None:
    code, output = typed(
        user, "COLUMNS=300 tpcsweep check", 'mount --bind /dev/null "$(command -v xrootd)"\n'
    )
    assert code == 1, output
    assert "Traceback" not in output
    words = " ".join(output.replace("│", " ").split())  # of a cell of several lines
    assert "apt-get install" in words and "xrootd-server" in words


def test_every_command_of_the_pages_does_its_work(user: Installer, storage: Storage) -> None:
    failed = {}
    for written, other in TYPED.items():
        code, output = typed(user, other or written)
        if code or "Traceback" in output:
            failed[written] = output
    assert not failed, "\n".join(f"$ {command}\n{output}" for command, output in failed.items())
    results = user.home / "sweeps/results"
    with xr.open_dataset(results / "smoke/dataset.nc") as dataset:
        assert [STATUS[value] for value in dataset["status"].values.ravel()] == ["ok", "ok"]
    assert len(list((results / "endpoints@mine/cells").rglob("*.json"))) == 2
    assert (results / "smoke/index.html").stat().st_uid == user.number
    assert storage.files("source") == storage.files("destination") == user.ledger == []
    assert user.processes() == {}
