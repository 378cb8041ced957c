# SPDX-License-Identifier: Apache-2.0
"""What a cluster of this machine needs is said before anything is set up: by programs in place of Go and of `id`."""

import subprocess
from pathlib import Path

import pytest

from tests.support.workflow import ROOT, finished

NEEDS = ROOT / "tests/cluster/local/needs.sh"
KUBERNETES = (NEEDS.parent / "go/go.mod").read_text().split("k8s.io/kubernetes ")[1].split()[0]
WANTED = f"cluster: Kubernetes {KUBERNETES} is compiled by Go 1.24 or later"


def asked(machine: Path, go: str | None, user: int = 0) -> subprocess.CompletedProcess[str]:
    """What is said on a machine with that Go, whose user has that number."""
    for name, answer in (("id", user), *([("go", go)] if go else [])):
        (machine / name).write_text(f"#!/bin/sh\necho {answer}\n")
        (machine / name).chmod(0o755)
    path = {"PATH": f"{machine}:/usr/bin:/bin"}
    return subprocess.run([NEEDS], env=path, capture_output=True, text=True, check=False)


OLD = "cluster: that is too old; https://go.dev/dl has newer ones\n"


@pytest.mark.parametrize(
    ("version", "refusal"), [("1.24", ""), ("1.25.3", ""), ("2.0", ""), ("1.9.2", OLD), ("1.23.12", OLD)]
)
def test_a_go_is_taken_if_it_is_new_enough(tmp_path: Path, version: str, refusal: str) -> None:
    done = asked(tmp_path, f"go{version}")
    said = f"{WANTED}; here is {tmp_path}/go, Go {version}\n{refusal}"
    assert (done.returncode, done.stderr) == (int(bool(refusal)), said)


def test_who_is_not_root_and_a_machine_without_go_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    done = asked(tmp_path / "other", "go1.26", user=1000)
    assert done.returncode == 1 and "takes root" in done.stderr
    if not Path("/usr/bin/go").exists():  # which would be found
        done = asked(tmp_path, None)
        said = f"{WANTED}, and there is no `go` on the PATH; https://go.dev/dl has it\n"
        assert (done.returncode, done.stderr) == (1, said)


def test_make_asks_for_it_before_it_sets_anything_up() -> None:
    done = finished(["make", "--dry-run", "cluster"])
    needs, setup = (done.stdout.index(words) for words in ("local/needs.sh", "envs/setup.sh"))
    assert needs < setup
