# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/kubernetes.md for a cluster on this machine, in a copy of the project, up to the surface."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.cluster import local
from tests.cluster.reports import check_results
from tests.cluster.sweeps import LONGEST
from tests.support.workflow import ROOT, started, wait_until

PAGE = ROOT / "docs/kubernetes.md"
BLOCKS = {
    heading: re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for heading, text in re.findall(r"^###? (.*)\n((?:(?!###? ).*\n)*)", PAGE.read_text(), re.MULTILINE)
}
"""What is to be typed, by the headings of the page."""
AS_THE_CHECKOUT = """
mount --bind "$CHECKOUT/.venv" "$COPY/.venv"
mount --rbind "$COPY" "$CHECKOUT"
cd "$CHECKOUT"
exec "$@"
"""
"""Where a `.venv` says that it is there is the copy, for a command and in a mount namespace of its own."""


@dataclass(frozen=True)
class Clone:
    """A copy of the project, with terminals in it."""

    folder: Path

    def terminal(self, script: str, output: str) -> subprocess.Popen[bytes]:
        """Begin to type that, in a terminal of its own; what it shows goes to a file next to the copy."""
        inside = ["unshare", "--mount", "sh", "-ec", AS_THE_CHECKOUT, "sh", "bash", "-ec", script]
        # Nor is anything left of a `make` that the tests run in, which would have this one say where it is.
        unset = ("KUBECONFIG", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
        environment = {name: value for name, value in os.environ.items() if not name.endswith(unset)}
        environment |= {"CHECKOUT": str(ROOT), "COPY": str(self.folder)}
        return started(["env", "--default-signal=INT", *inside], self.file(output), environment)

    def type(self, script: str, output: str) -> str:
        """Type that, and give what it has shown once it has ended, as it must."""
        with self.terminal(script, output) as typed:
            try:
                assert typed.wait(3 * LONGEST) == 0, self.shown(output)
            finally:
                _end(typed)
        return self.shown(output)

    def file(self, output: str) -> Path:
        return self.folder.parent / f"{output}.log"

    def shown(self, output: str) -> str:
        return self.file(output).read_text()


def _end(typed: subprocess.Popen[bytes]) -> None:
    if typed.poll() is None:
        os.killpg(typed.pid, signal.SIGINT)
        typed.wait(LONGEST)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    """As `git clone` makes it, with what has not been committed; the cluster of the page runs in it."""
    folder = tmp_path_factory.mktemp("page") / "tpcsweep"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    (folder / ".venv").mkdir()
    sweep = folder / "config/sweeps/local.yaml"
    content = yaml.safe_load(sweep.read_text())
    # The copy's sweep is cut down, for time.
    content["parameters"] |= {"cores": [0.5], "streams": [1, 4]}
    content["measurement"] |= {"max_time": "12 s", "precision": "50 %"}
    sweep.write_text(yaml.safe_dump(content))
    clone = Clone(folder)
    (command,) = BLOCKS["Start the cluster"]
    cluster = clone.terminal(command, "cluster")
    kubeconfig = folder / ".cluster/kubeconfig"
    try:
        wait_until(lambda: kubeconfig.exists() or cluster.poll() is not None, "it is ready", 3 * LONGEST)
        assert cluster.poll() is None, clone.shown("cluster")
        yield clone
    finally:
        _end(cluster)
    assert not (folder / ".cluster/state").exists()


def test_the_cluster_says_first_which_go_it_needs_and_which_is_there(clone: Clone) -> None:
    words = r"cluster: Kubernetes v1\S+ is compiled by Go 1\.\d+ or later; here is /\S+, Go 1\.\d+"
    assert re.match(words, clone.shown("cluster"))


def test_the_page_ends_in_a_surface(clone: Clone) -> None:
    (sweep,), (question,) = BLOCKS["Run the local sweep"], BLOCKS["Read the surface"]
    shown = clone.type(sweep + question, "sweep")
    table = re.findall(r"^(\d+) +(\d\.\d+)$", shown, re.MULTILINE)  # what the question prints: streams, rate
    assert [streams for streams, _ in table] == ["1", "4"], shown
    assert all(0 < float(rate) < 1.2 * local.RATE for _, rate in table), shown
    results = clone.folder / "results/local@local"
    check_results(results, 4)
    assert (results / "figures/throughput_heatmap.png").stat().st_size
