# SPDX-License-Identifier: Apache-2.0
"""The rules of limits, on real cells that were built so that the answer is known.

A cell of each kind, in each direction where that has something of its own; the whole matrix of kinds, directions and
numbers of streams is `python -m benchmarks.limits`.
"""

from pathlib import Path

import pytest
from tpcsweep.data.variables import SHARES
from tpcsweep.measuring.limits import NONE_FOUND

from tests.support.constructions import GROUPS, measured

SECONDS = 3.0
ROUND_TRIPS = 50
"""That a cell lasts beside: what the client says crosses the path before a byte does, and then TCP begins slowly."""
TRIES = 10  # as others may keep the machine busy for half a minute; on an idle one the first finds it


@pytest.mark.parametrize("name", GROUPS)
def test_what_a_cell_was_built_to_be_bound_by_is_found(tmp_path: Path, name: str) -> None:
    seconds = SECONDS + ROUND_TRIPS * GROUPS[name].deployment.get("rtt", 0) / 1000
    for built, found in measured(GROUPS[name], GROUPS[name].cells, seconds, tmp_path, TRIES):
        assert found["status"] == "ok", found["message"]
        expected = built.limit
        if expected == NONE_FOUND and "machine_saturated" in found["flags"]:
            expected = "machine"  # others kept it busy, and who waits may wait for them
        assert found["limit"] == expected, (built.parameters, found["summary"])
        shares = [found["summary"][name] for name in SHARES.values()]
        assert sum(shares) == pytest.approx(1, abs=1e-4) and max(shares) == found["summary"][SHARES[expected]]
