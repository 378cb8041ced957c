# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests."""

import gc
import signal
from collections.abc import Iterator

import hypothesis
import pytest
from matplotlib.backend_bases import RendererBase
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from threadpoolctl import threadpool_limits

# Their assertions say what they found, as those of tests do.
pytest.register_assert_rewrite("tests.support")

# How long an example takes depends on the machine, and machines are shared. Every run draws other examples.
hypothesis.settings.register_profile(
    "shared", deadline=None, max_examples=50, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("shared")

# A shell has what it starts in the background ignore Ctrl-C, and with that all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Linear algebra by one thread, as Snakemake's jobs have it: matrices are small, and tests run side by side."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session", autouse=True)
def figures_are_whole() -> Iterator[None]:
    """No figure that a test draws has a text beyond its edges."""
    draw = Text.draw

    def drawn(text: Text, renderer: RendererBase) -> None:
        draw(text, renderer)
        figure = text.get_figure(root=True)
        arranged = figure and isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine)
        if figure and arranged and text.get_visible() and text.get_text().strip():
            box, (width, height) = text.get_window_extent(renderer), figure.bbox.size
            inside = min(box.x0, box.y0) >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
            assert inside, f"cut at an edge of its figure: {text.get_text()}"

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Text, "draw", drawn)
        yield


def pytest_collection_finish() -> None:
    """What is loaded by now stays to the end: looking through it for garbage, again and again, finds none."""
    gc.collect()
    gc.freeze()
