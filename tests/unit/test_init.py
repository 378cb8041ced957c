# SPDX-License-Identifier: Apache-2.0
"""The folder that `tpcsweep init` makes, and the files in the package that it stands on."""

from pathlib import Path

from click.testing import CliRunner
from tpcsweep.cli import main
from tpcsweep.configuration.loading import studies

from tests.support.workflow import ROOT

SHIPPED = ROOT / "workflow/tpcsweep/shipped"


def test_a_folder_is_like_a_checkout_and_an_old_one_stays(tmp_path: Path) -> None:
    folder = tmp_path / "sweeps"
    done = CliRunner().invoke(main, ["init", str(folder)])
    assert done.exit_code == 0, done.output
    assert {path.name for path in folder.iterdir()} == {"Snakefile", "config", "profiles"}
    for name in ("config", "profiles"):
        files = {file.relative_to(ROOT) for file in (ROOT / name).rglob("*") if file.is_file()}
        assert all((folder / file).read_bytes() == (ROOT / file).read_bytes() for file in files)
    found = studies({"sweep": "demo", "testbed": "netns"}, folder)
    assert list(found) == ["demo"]
    again = CliRunner().invoke(main, ["init", str(folder)])
    assert again.exit_code == 2
    assert "already contains Snakefile, config, profiles" in again.output


def test_every_link_leads_to_the_same_place_in_the_checkout() -> None:
    links = [path for path in SHIPPED.rglob("*") if path.is_symlink()]
    assert len(links) >= 8
    assert [link for link in links if link.resolve() != (ROOT / link.relative_to(SHIPPED)).resolve()] == []
