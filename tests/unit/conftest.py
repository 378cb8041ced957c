# SPDX-License-Identifier: Apache-2.0
"""What several modules of unit tests begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.played_api import PlayedApi


@pytest.fixture
def server() -> Iterator[PlayedApi]:
    from tests.support.played_api import PlayedApi  # whose client takes long to import

    with PlayedApi() as played:
        yield played


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the records of the user who runs it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder, text in (("sweeps", "parameters:\n  rtt: [5 ms]\n"), ("testbeds", "kind: netns\n")):
        (tmp_path / "config" / folder).mkdir(parents=True)
        (tmp_path / "config" / folder / "one.yaml").write_text(text)
    return tmp_path
