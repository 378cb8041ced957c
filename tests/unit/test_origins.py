# SPDX-License-Identifier: Apache-2.0
"""Origins of a dataset's cells on its page."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpcsweep.data import folding
from tpcsweep.pages.dataset_facts import dataset_facts

from tests.support import synthetic


def test_each_of_several_commits_names_its_cells(tmp_path: Path) -> None:
    axes: dict[str, Sequence[Any]] = {
        "rtt": [5.0, 50.0],
        "streams": [1, 4, 8],
        "repetition": [1, 2],
    }
    files = synthetic.write_sweep(tmp_path, axes)

    def facts(of: Callable[[Mapping[str, Any]], str]) -> dict[str, str]:
        for file, spec in files.items():
            provenance = synthetic.cell(spec)["provenance"] | {"commit": of(spec)}
            synthetic.write_cell(file, spec, provenance=provenance)
        whole = folding.fold(files, axes).summary.assign_attrs(order="blocks")
        return dict(dataset_facts(whole)["facts"])

    def old_in_first(spec: Mapping[str, Any]) -> str:
        return "old" if spec["repetition"] == 1 and spec["parameters"]["streams"] > 1 else "new"

    found = facts(old_in_first)
    assert found["commit"] == "new in 8 cells; old in 4 cells (streams 4, 8; block 1)"
    assert found["host"] == "testhost"
    assert facts(lambda spec: ["new", "old"][spec["repetition"] - 1])["commit"] == (
        "new in 6 cells (block 1); old in 6 cells (block 2)"
    )
    assert facts(lambda _: "new")["commit"] == "new"
