"""The report, as a person opens it: in a browser, without a network."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import xarray as xr
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.leftovers import present, stayed
from tests.support.workflow import Sweep

pytestmark = pytest.mark.real

CHROMIUM = [
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Whatever the page asks of a network fails at once.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:9",
    "--virtual-time-budget=20000",
]


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A small sweep with several axes, run by the plain command to its report."""
    sweep = Sweep(tmp_path_factory.mktemp("report"), "probe").define(
        parameters={
            "rtt": [0, "4 ms"],
            "bandwidth": "500 Mbit/s",
            "file_size": "8 MiB",
            "tool": ["gfal-copy", "curl"],
            "streams": [1, 2],
        },
        exclude=[{"rtt": 0, "tool": "curl", "streams": 2}],
        measurement={"min_time": "1 s", "max_time": "2 s"},
        notebooks={"curves": {"x": "streams", "curve": "tool"}},
    )
    before = present()
    done = sweep.run()
    assert done.returncode == 0, done.stdout
    assert stayed(before) == {}
    return sweep


def test_the_dataset_opens_with_labels_units_and_holes(reported: Sweep) -> None:
    dataset = xr.open_dataset(reported.results / "dataset.nc")
    assert dict(dataset.sizes) | {"record": 0} == {
        "rtt": 2,
        "tool": 2,
        "streams": 2,
        "repetition": 1,
        "record": 0,
    }
    assert dataset.throughput.units == "Gbit/s"
    assert int((dataset.status == 1).sum()) == 7
    hole = dataset.sel(rtt=0, tool="curl", streams=2).squeeze()
    assert int(hole.status) == 0
    assert hole.throughput.isnull()
    assert float(dataset.throughput.sel(rtt=4, tool="gfal-copy").max()) > 0.05
    samples = xr.open_dataset(reported.results / "dataset.nc", group="samples")
    assert samples.goodput.sel(rtt=4, tool="curl", streams=1).notnull().sum() > 10


def test_everything_is_there_and_nothing_is_left_to_do(reported: Sweep) -> None:
    figures = {path.name for path in (reported.results / "figures").iterdir()}
    for name in ("throughput_heatmap", "throughput_surface", "throughput_lines", "limits", "curves"):
        assert {f"{name}.png", f"{name}.svg"} <= figures
    assert "Nothing to be done" in reported.run().stdout


def test_the_dataset_is_exported_for_dashboards(reported: Sweep) -> None:
    done = reported.run("export")
    assert done.returncode == 0, done.stdout
    lines = (reported.results / "export" / "monitoring.csv").read_text().splitlines()
    assert len(lines) == 2 * 7
    assert any(", http_m2m_avg_01s_64m_rtt=4_tool=curl, " in line for line in lines)
    families = text_string_to_metric_families((reported.results / "export" / "openmetrics.txt").read_text())
    samples = {family.name: family.samples for family in families}
    assert len(samples["tpcsweep_throughput_bits_per_second"]) == 7


def test_a_browser_without_a_network_shows_the_report(reported: Sweep, tmp_path: Path) -> None:
    page = reported.results / "report.html"
    shown = browse(page, tmp_path, "--dump-dom")
    for text in ("Figures", "Cells", "Notebooks"):
        assert text in shown
    browse(page, tmp_path, f"--screenshot={tmp_path / 'report.png'}", "--window-size=1400,900")
    assert (tmp_path / "report.png").stat().st_size > 20_000


def test_the_notebook_needs_no_network_either(reported: Sweep, tmp_path: Path) -> None:
    page = reported.results / "notebooks" / "surface.html"
    fetched = re.findall(
        r"""<(?:script|link|img)[^>]*(?:src|href)=["']?https?:[^>]*|url\(["']?https?:""", page.read_text()
    )
    assert fetched == []
    assert "data:image/png;base64" in browse(page, tmp_path, "--dump-dom")


def browse(page: Path, folder: Path, *arguments: str) -> str:
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [*CHROMIUM, profile, *arguments, page.resolve().as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout
