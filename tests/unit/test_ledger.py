# SPDX-License-Identifier: Apache-2.0
"""What a campaign counts: that which it may find none of must be found where it is."""

import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tpcsweep.data import cell_files as files
from tpcsweep.data.cell_result import CellResult

from tests.support import synthetic
from tests.support.campaign import FAULTS, Fault
from tests.support.ledger import Ledger, Measurement

SPECS = {f"rtt={rtt}/repetition=1": synthetic.specification({"rtt": rtt}) for rtt in (5.0, 50.0)}
NEAR, FAR = SPECS


class Results:
    """A folder of results in which cells are measured, each at another time."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder, SPECS)
        self._times = itertools.count(1)

    def measure(self, cell: str, **changes: Any) -> None:
        content = synthetic.cell(SPECS[cell])
        # A cell that has no interval would be excused from being like its reference.
        mean = content["summary"]["throughput"]
        content["summary"] |= {"throughput_low": 0.99 * mean, "throughput_high": 1.01 * mean}
        content["summary"]["throughput_average"] = float(np.mean(content["samples"]["goodput"]))
        content["provenance"]["started"] = f"at {next(self._times)}"
        for file in (self.ledger.staged(cell), self.ledger.file(cell)):
            files.write_cell(file, SPECS[cell], CellResult.from_json(content | changes))
        self.ledger.look()

    def kept(self) -> None:
        """Empty staging, as folding does."""
        for cell in SPECS:
            self.ledger.staged(cell).unlink()


@pytest.fixture
def both(tmp_path: Path) -> Results:
    results = Results(tmp_path)
    for cell in SPECS:
        results.measure(cell)
    return results


def test_what_is_neither_in_its_place_nor_kept_is_lost_and_not_repeated(both: Results) -> None:
    both.ledger.file(NEAR).unlink()
    assert both.ledger.missing() == []  # it is kept for the next run
    both.kept()
    assert both.ledger.missing() == [Measurement(NEAR, "at 1")]
    both.measure(NEAR)
    assert both.ledger.missing() == both.ledger.repeated() == []
    both.ledger.file(FAR).unlink()
    assert both.ledger.missing() == [Measurement(FAR, "at 2")]


def test_what_is_measured_again_is_repeated_unless_it_was_destroyed(both: Results) -> None:
    both.kept()
    assert both.ledger.missing() == both.ledger.repeated() == both.ledger.wrong({}) == []
    both.ledger.destroyed([NEAR], both.ledger.file(NEAR).unlink)
    assert both.ledger.missing() == []
    both.measure(NEAR)
    assert both.ledger.repeated() == []
    both.measure(NEAR)
    found = [both.ledger.repeated() for _ in range(2)]
    assert found == [[Measurement(NEAR, "at 3")], []]


@pytest.mark.parametrize(
    ("key", "change", "said"),
    [
        ("summary", lambda old: old | {"throughput": 2 * old["throughput"]}, "and its samples"),
        ("summary", lambda old: old | {"throughput": None}, "lacks something"),
        ("samples", lambda old: old | {"goodput": [30 * rate for rate in old["goodput"]]}, "samples"),
        ("spec", lambda old: old | {"repetition": 2}, "is of another specification"),
        ("flags", lambda _: ["no flag"], "lacks something"),
    ],
)
def test_a_false_cell_is_wrong(both: Results, key: str, change: Callable[[Any], Any], said: str) -> None:
    file = both.ledger.file(FAR)
    content = files.parse_content(file.read_bytes())
    throughput = content["summary"]["throughput"]
    assert both.ledger.wrong({FAR: throughput}) == []
    [wrong] = both.ledger.wrong({FAR: 2 * throughput})
    assert "without a warning" in wrong
    file.write_bytes(files.format_content(content | {key: change(content[key])}))
    both.measure(NEAR, flags=["not_steady"])
    # A cell that warns of itself may be unlike its reference.
    [wrong] = both.ledger.wrong({FAR: 2 * throughput, NEAR: 100.0})
    assert wrong.startswith(f"{FAR}: ") and said in wrong


def test_a_cell_whose_path_carried_less_than_its_samples_say_is_right(both: Results) -> None:
    """Buffers that filled before empty into the samples, and the counters of the path bound the throughput."""
    content = files.parse_content(both.ledger.file(FAR).read_bytes())
    carried = 0.9 * content["summary"]["throughput"]
    for wire, wrong in ((carried, 0), (None, 1)):
        content["summary"] |= {"throughput": carried, "wire_throughput": wire}
        both.ledger.file(FAR).write_bytes(files.format_content(content))
        assert len(both.ledger.wrong({})) == wrong


DAMAGES = [fault for fault in FAULTS if fault.kind == "corrupt"]


@pytest.mark.parametrize("fault", DAMAGES, ids=[fault.name for fault in DAMAGES])
def test_damage_is_seen_and_cells_in_its_place_are_not_counted(both: Results, fault: Fault) -> None:
    both.kept()
    fault.act(SimpleNamespace(ledger=both.ledger, random=Random(1), done=""))
    damaged = [said.partition(": ")[0] for said in both.ledger.wrong({})]
    assert damaged or fault.name in ("a cell lacks a sample", "a cell lacks a key")
    assert both.ledger.missing() == []
    for cell in damaged:
        both.measure(cell)
    assert both.ledger.repeated() == []
    assert not damaged or both.ledger.wrong({}) == []
