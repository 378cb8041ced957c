# SPDX-License-Identifier: Apache-2.0
"""Tables of measured tools in the documentation, and the datasets behind them."""

import pytest
from tpcsweep.data.opening import load
from tpcsweep.data.tables import observations

from docs import tools


def test_the_page_has_the_tables_of_the_datasets() -> None:
    assert tools.PAGE.read_text() == tools.made(), "run make docs"


@pytest.mark.parametrize("name", tools.TABLES)
def test_every_cell_of_the_datasets_is_usable(name: str) -> None:
    cells = observations(load(tools.DATASETS / f"{name}.nc"))
    measured = cells[cells["reason"] != "not measured"]
    assert not measured.empty
    assert set(measured["reason"]) == {""}
