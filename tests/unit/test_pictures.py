# SPDX-License-Identifier: Apache-2.0
"""What tests look at pictures with: it must tell an empty one from one that shows something."""

import base64
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from tpcsweep import figures

from tests.support.pictures import colours, drawn, embedded, filled, hues, pixels


def test_empty_and_full_pictures_differ(tmp_path: Path) -> None:
    def saved(*areas: tuple[object, str]) -> np.ndarray:
        figure = Figure()
        axes = figure.add_subplot(title="A title of many words, and more of them")
        for area, colour in areas:
            axes.fill_between([0, 1], 0.25, area, color=colour)
        figures.save(figure, tmp_path, "figure")
        return pixels(tmp_path / "figure.png")

    empty, grey, full = saved(), saved((0.5, "grey")), saved(([0.5, 0.75], "red"), (0.1, "blue"))
    assert (hues(empty), hues(grey), hues(full)) == (0, 0, 2)
    assert 0 < drawn(empty) < 0.05 < drawn(full)
    assert filled(empty) < 0.01 < filled(grey)
    assert colours(full)[255, 0, 0] > 0.1
    data = base64.b64encode((tmp_path / "figure.png").read_bytes()).decode()
    [shown] = embedded(f"<p><img src='elsewhere.png'><img src='data:image/png;base64,{data}'></p>")
    assert np.array_equal(shown, full)
