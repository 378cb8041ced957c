"""The rules of limits, on real cells that were built so that the answer is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpcsweep.measure.limits import NONE_FOUND

from tests.support.constructions import GROUPS, measured

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", GROUPS)
def test_what_a_cell_was_built_to_be_bound_by_is_found(tmp_path: Path, name: str) -> None:
    for built, found in measured(GROUPS[name], tmp_path):
        assert found["status"] == "ok", found["message"]
        expected = built.limit
        if expected == NONE_FOUND and "machine_saturated" in found["flags"]:
            expected = "machine"  # others kept it busy, and who waits may wait for them
        assert found["limit"] == expected, (built.parameters, found["summary"])
        assert expected == NONE_FOUND or found["evidence"][expected]["reached"]
