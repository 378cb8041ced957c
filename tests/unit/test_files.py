from __future__ import annotations

from pathlib import Path

from tpcsweep.measure.files import DestinationFiles
from tpcsweep.xrootd import without_secrets


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


def test_a_file_that_comes_and_goes_between_looks_counts(tmp_path: Path) -> None:
    files = DestinationFiles(tmp_path)
    (tmp_path / "a").write_bytes(b"x" * 7)
    files.remove("a")
    assert files.arrived() == 7
    (tmp_path / "c").write_bytes(b"x")
    files.clear()
    assert list(tmp_path.iterdir()) == []
    assert files.arrived() == 8


def test_tokens_are_removed_from_what_servers_say() -> None:
    text = "open /data/f?authz=Bearer%20MDAxabc&x=1\nAuthorization: Bearer MDAxdef\nfine"
    shown = without_secrets(text)
    assert "MDAx" not in shown
    assert "fine" in shown


def test_clearing_can_keep_the_file_by_which_servers_are_known_to_be_ready(tmp_path: Path) -> None:
    for name in ("ready", "arrived"):
        (tmp_path / name).write_bytes(b"x")
    DestinationFiles(tmp_path).clear(keep="ready")
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]
