# SPDX-License-Identifier: Apache-2.0
"""Write examples/surface.html, and the fits of its dataset if they are missing or of other cells: `make docs`."""

from pathlib import Path

from tpcsweep.analysis.models import saved_fits
from tpcsweep.analysis.page_sections import SECTIONS
from tpcsweep.data.opening import load
from tpcsweep.pages.making import make_page

DATASET = Path(__file__).parents[1] / "examples/surface.nc"

if __name__ == "__main__":
    if saved_fits.current(DATASET) is None:
        saved_fits.fit_all(load(DATASET), saved_fits.file_of(DATASET), dataset=DATASET)
    make_page(DATASET, DATASET.with_suffix(".html"), analyses=SECTIONS)
