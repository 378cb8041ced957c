# SPDX-License-Identifier: Apache-2.0
"""Some of the files that people may write; `python -m tests.fuzz` tries thousands."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.fuzzing import KINDS, TEXTS, Case, cases, taken


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_file_is_refused_in_plain_words_or_can_be_planned(
    kind: str, data: st.DataObject, tmp_path: Path
) -> None:
    taken(data.draw(cases(kind)), tmp_path)


@pytest.mark.parametrize(
    ("kind", "beside"),
    [("sweep", "simulation"), ("testbed", "nodes"), ("import", ""), ("question", ""), ("citation", "")],
)
def test_files_as_they_are_shipped_are_mostly_taken(kind: str, beside: str, tmp_path: Path) -> None:
    shipped = [taken(Case(kind, text, beside), tmp_path) for text in TEXTS[kind]]
    assert any(shipped)
