# SPDX-License-Identifier: Apache-2.0
"""A sweep by the plain command, and Snakemake's report of it in a browser without a network."""

import csv
import re
from pathlib import Path

import xarray as xr

from tests.support.browser import browse, opened, widths
from tests.support.pictures import drawn, embedded, hues, pixels
from tests.support.workflow import Sweep, wait_until


def test_the_dataset_opens_with_labels_units_and_holes(swept: Sweep) -> None:
    dataset = xr.open_dataset(swept.results / "dataset.nc")
    axes = {"rtt": 2, "tool": 2, "streams": 2, "repetition": 1}
    assert {name: dataset.sizes[name] for name in dataset.sizes if name != "record"} == axes
    assert dataset.throughput.units == "Gbit/s"
    assert int((dataset.status == 1).sum()) == 7
    hole = dataset.sel(rtt=0, tool="curl", streams=2).squeeze()
    assert (int(hole.status), bool(hole.throughput.isnull())) == (0, True)
    assert 0 < float(dataset.throughput_average.sel(rtt=4, tool="gfal-copy").max()) < 1.05 * 0.2
    samples = xr.open_dataset(swept.results / "dataset.nc", group="samples")
    assert samples.goodput.sel(rtt=4, tool="curl", streams=1).notnull().sum() > 3


def test_a_browser_without_a_network_shows_the_report(swept: Sweep, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = swept.run("--report", str(page))
    assert done.returncode == 0, done.stdout
    _, seen = opened(page, tmp_path)
    figures = {name: one for name, one in seen.items() if name.endswith(".png")}
    assert {"throughput_heatmap.png", "limits.png", "curves.png"} <= figures.keys()
    for name, figure in figures.items():
        assert figure["width"] > 0, name
        assert "Description" in figure["beside"], name  # its caption
    pages = {name for name, one in seen.items() if one["page"]}
    assert {"surface.html", "limits.html", "curves.html"} <= pages
    table = csv.DictReader(seen["cells.csv"]["table"].splitlines())
    assert sorted(row["status"] for row in table) == ["not_measured", *["ok"] * 7]
    picture = tmp_path / "report.png"

    def shown() -> bool:
        """On a busy machine the picture may be taken before the page has drawn itself."""
        browse(page, tmp_path, f"--screenshot={picture}", "--window-size=1400,900")
        return drawn(pixels(picture)) > 0.1

    wait_until(shown, "the report is drawn")
    screen = pixels(picture)
    assert screen.shape == (900, 1400, 3)
    assert hues(screen, 1e-4) >= 2  # the marks of the menu, and the workflow's jobs


def test_notebooks_need_no_network_either(swept: Sweep, tmp_path: Path) -> None:
    page = swept.results / "notebooks" / "curves.html"
    fetched = r"""<(?:script|link|img)[^>]*(?:src|href)=["']?https?:[^>]*|url\(["']?https?:"""
    assert re.findall(fetched, page.read_text()) == []
    pictures = embedded(page.read_text())
    assert pictures and all(map(hues, pictures))
    assert widths(page, tmp_path) == [picture.shape[1] for picture in pictures]
