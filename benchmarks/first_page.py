# SPDX-License-Identifier: Apache-2.0
"""Size and painting time in Chromium of the page of 10⁴ cells: python -m benchmarks.first_page."""

import statistics
import tempfile
import time
from pathlib import Path

from tpcsweep.pages.content import page_content
from tpcsweep.pages.rendering import render

from tests.support.browser import visiting
from tests.support.large import large

RUNS = 5
PAINTED = """() => {
  const [first] = performance.getEntriesByName("first-contentful-paint");
  return [first.startTime, performance.now(), document.querySelectorAll("#picture a").length];
}"""


def main() -> None:
    """Print the page's size, the time to make it, and the times of several visits."""
    with tempfile.TemporaryDirectory() as name:
        data = large(Path(name))
        begun = time.perf_counter()
        text = render("page", **page_content(*data))
        print(f"made in {time.perf_counter() - begun:.1f} s, {len(text.encode()) / 1e6:.1f} MB")
        file = Path(name) / "index.html"
        file.write_text(text)
        times = [visit(file) for _ in range(RUNS)]
    first, whole = (statistics.median(time) for time in zip(*times, strict=True))
    print(
        f"first contentful paint {first:.0f} ms, the picture of 10⁴ cells by {whole:.0f} ms (medians of {RUNS})"
    )


def visit(file: Path) -> tuple[float, float]:
    """Open a page in a separate Chromium; return ms to its first paint and until its picture was drawn."""
    with visiting(file) as page:
        first, whole, cells = page.run(PAINTED)
    assert cells == 10_000, cells
    return first, whole


if __name__ == "__main__":
    main()
