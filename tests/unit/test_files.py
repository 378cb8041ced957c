# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from tpcsweep.files import making, note_checksum, replacing
from tpcsweep.measure.files import DestinationFiles, hold_memory


def test_bytes_that_arrived_never_become_fewer(tmp_path: Path) -> None:
    files = DestinationFiles(tmp_path)
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert files.arrived() == 100
    (tmp_path / "a").write_bytes(b"")  # a server that starts again
    assert files.arrived() == 100
    (tmp_path / "a").unlink()  # a server that removes what failed
    (tmp_path / "b").write_bytes(b"x" * 10)
    assert files.arrived() == 110
    files.remove("b")
    files.remove("never seen")
    assert files.arrived() == 110


def test_a_file_that_comes_and_goes_counts_and_one_that_servers_need_is_kept(tmp_path: Path) -> None:
    files = DestinationFiles(tmp_path)
    (tmp_path / "a").write_bytes(b"x" * 7)
    files.remove("a")
    assert files.arrived() == 7
    for name in ("ready", "c"):
        (tmp_path / name).write_bytes(b"x")
    files.clear(keep="ready")
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]
    assert files.arrived() == 9


def test_memory_that_is_held_is_free_but_for_a_page_in_each_mebibyte() -> None:
    memory = [disk.mountpoint for disk in psutil.disk_partitions(all=True) if disk.fstype == "tmpfs"]
    free = (path for path in memory if os.access(path, os.W_OK))
    at = next(path for path in free if psutil.disk_usage(path).free > 64 << 20)
    with tempfile.TemporaryDirectory(dir=at) as folder:
        held = Path(folder) / "held"
        hold_memory(held, (32 << 20) - 1)
        assert held.stat().st_blocks * 512 == 32 * os.sysconf("SC_PAGE_SIZE")


def test_the_checksum_of_a_file_is_one_that_sha256sum_reads(tmp_path: Path) -> None:
    path = tmp_path / "dataset.nc"
    path.write_bytes(b"whole")
    note_checksum(path)
    subprocess.run(["sha256sum", "--check", "dataset.nc.sha256"], cwd=tmp_path, check=True)


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    made = tmp_path / "in/made"
    with making(made) as part:
        (part / "a").write_text("whole")
        assert not made.exists()
    assert (made / "a").read_text() == "whole"
    with pytest.raises(RuntimeError), making(tmp_path / "in/broken") as part:
        (part / "a").write_text("half")
        raise RuntimeError
    assert [*made.parent.iterdir()] == [made]


@pytest.mark.parametrize(
    ("disk", "error", "said"), [("", RuntimeError, "HDF"), ("/dev/full", OSError, "No space left.*nc")]
)
def test_a_full_disk_is_told_whatever_libraries_say(tmp_path: Path, disk: str, error: Any, said: str) -> None:
    path = tmp_path / "dataset.nc"
    path.write_text("old")
    with pytest.raises(error, match=said), replacing(path) as part:
        if disk:
            part.symlink_to(disk)
        raise RuntimeError("NetCDF: HDF error")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["dataset.nc"]
