# SPDX-License-Identifier: Apache-2.0
"""How quiet the machine was during single settings, and notes on it; flags of repetitions that do not count."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import xarray as xr
from tpcsweep.data.labels import flag_masks
from tpcsweep.pages.machine_load import loads_of_settings
from tpcsweep.pages.page_flags import noted_cells, page_flags, setting_flags
from tpcsweep.sweeps.parameters import Value

from tests.support.synthetic import bare

AXES: Mapping[str, Sequence[Value]] = {"streams": [1, 2], "repetition": [1, 2, 3]}


def loaded(kind: str = "netns", **figures: list[list[float]]) -> xr.Dataset:
    """Two settings of three repetitions, with figures of each."""
    summary = bare(np.ones((2, 3)), 0.1, AXES).assign_attrs(testbed_kind=kind)
    return summary.assign({name: (tuple(AXES), np.array(values)) for name, values in figures.items()})


@pytest.mark.parametrize(
    ("others", "slowed", "text"),
    [
        (
            0.03,
            0.1,
            "quiet meanwhile: other programs used up to 3 % of its CPU, and it was up to 10 % slower",
        ),
        (0.03, 0.0, "quiet meanwhile: other programs used up to 3 % of its CPU."),
        (0.2, 0.0, "busy meanwhile: other programs used up to 20 % of its CPU."),
        (0.02, 0.3, "slow meanwhile: other programs used up to 2 % of its CPU, and it was up to 30 % slower"),
    ],
)
def test_the_machine_of_a_setting_is_quiet_busy_or_slow(others: float, slowed: float, text: str) -> None:
    """By the worst of its repetitions."""
    summary = loaded(
        machine_others=[[0.0, others, 0.0], [np.nan] * 3],
        machine_steal=[[np.nan] * 3] * 2,
        machine_slowed=[[0.0, 0.0, slowed]] * 2,
    )
    first, second = loads_of_settings(summary)
    assert first.startswith(f"The machine was {text}") and not second


def test_hosts_of_endpoints_stand_for_the_machine() -> None:
    summary = loaded(
        "endpoints", host_cpu=[[0.2, 0.9, 0.3]] * 2, host_others=[[0.0, 0.0, 0.0], [0.0, 1.5, 0.0]]
    )
    assert loads_of_settings(summary) == [
        "CPUs of hosts were busy for up to 90 % of the time, by all programs.",
        "CPUs of hosts were busy for up to 90 % of the time, by all programs, with up to 1.5 Gbit/s of other traffic.",
    ]
    assert loads_of_settings(loaded("endpoints")) == loads_of_settings(loaded()) == ["", ""]


def test_a_slow_machine_is_a_note_of_its_cells() -> None:
    summary = loaded(machine_slowed=[[0.0, 0.3, 0.1], [0.0, 0.0, 0.0]])
    [note] = page_flags(summary)
    assert (note.words["grade"], note.words["words"]) == ("note", "slower machine")
    assert noted_cells(summary).tolist() == note.cells.tolist() == [[False, True, False], [False] * 3]


def test_flags_of_repetitions_that_do_not_count_are_told_apart() -> None:
    """A warning counts if no repetition is without any."""
    summary = loaded()
    mask = flag_masks(summary)["not_steady"]
    summary["flags"][0, 1] = mask
    summary["flags"][1] = mask
    carried = page_flags(summary)
    assert setting_flags(summary, carried, ())["texts"] == [
        "not steady (1 of 3 repetitions, left out)",
        "not steady",
    ]
    summary["flags"][1, 2] = flag_masks(summary)["files_missing"]
    texts = setting_flags(summary, page_flags(summary), ())["texts"]
    assert (
        texts[1]
        == "not all files transferred (1 of 3 repetitions, left out), not steady (2 of 3 repetitions)"
    )
