# SPDX-License-Identifier: Apache-2.0
"""What tests look at pictures with: it must tell an empty one from one that shows something."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from tpcsweep import figures

from tests.support.pictures import colours, drawn, embedded, filled, hues, pixels


def test_empty_axes_are_lines_and_text_and_what_is_drawn_has_hues(tmp_path: Path) -> None:
    figure = Figure()
    axes = figure.add_subplot()
    figures.save(figure, tmp_path, "empty")
    axes.fill_between([0, 1], 0.25, [0.5, 0.75], color="red")
    axes.plot([0, 1], [0, 1], color="blue", linewidth=3)
    figures.save(figure, tmp_path, "full")
    empty, full = (pixels(tmp_path / f"{name}.png") for name in ("empty", "full"))
    assert (hues(empty), hues(full)) == (0, 2)
    assert 0 < drawn(empty) < 0.05 < drawn(full)
    assert colours(full)[255, 0, 0] > 0.1
    data = base64.b64encode((tmp_path / "full.png").read_bytes()).decode()
    [shown] = embedded(f"<p><img src='elsewhere.png'><img src='data:image/png;base64,{data}'></p>")
    assert np.array_equal(shown, full)


def test_an_area_in_grey_is_neither_background_nor_text(tmp_path: Path) -> None:
    figure = Figure()
    axes = figure.add_subplot(title="A title of many words, and more of them")
    figures.save(figure, tmp_path, "empty")
    axes.fill_between([0, 1], 0, [0.2, 0.2], color="grey")
    figures.save(figure, tmp_path, "full")
    empty, full = (pixels(tmp_path / f"{name}.png") for name in ("empty", "full"))
    assert hues(full) == 0
    assert filled(empty) < 0.01 < filled(full)


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG" + bytes(20_000))
    with pytest.raises(OSError, match="cannot identify image"):
        pixels(tmp_path / "broken.png")
