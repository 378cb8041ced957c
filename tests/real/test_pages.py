# SPDX-License-Identifier: Apache-2.0
"""Data from somebody who means harm, from the import to its pages in a browser: their text stays text."""

import csv
import itertools
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.browser import Visit, opened, visiting
from tests.support.workflow import TPCSWEEP, succeeded

OWN = "document.body.id='owned'"
HOSTILE = f'</script><script>{OWN}</script><img src="x" onerror="{OWN}">'
NOTEBOOKS = ("surface", "limits", "claims")
TOOLS = [HOSTILE, "=cmd|' /C calc'!A0", r"$\frac$ {{ 6 * 7 }}"]


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of an import in which every text means harm."""
    folder = tmp_path_factory.mktemp("pages")
    with (folder / "measured.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["tool", "n", "ping", "rate"])
        for tool, streams, rtt in itertools.product(TOOLS, (1, 4), (5, 50)):
            rows.writerow([tool, streams, rtt, streams / rtt])
    settings = {
        "description": HOSTILE,
        "citation": HOSTILE,
        "where": f"tool != {HOSTILE + 'x'!r}",
        "axes": {
            "tool": {"column": "tool"},
            "streams": {"column": "n"},
            "rtt": {"column": "ping", "unit": "ms"},
        },
        "variables": {"throughput": {"column": "rate", "unit": "Gbit/s"}},
        "fixed": {"layer": HOSTILE, "site": HOSTILE, "bandwidth": "10 Gbit/s"},
    }
    (folder / "harm.yaml").write_text(yaml.safe_dump(settings))
    results = folder / "results"
    harm = results / "harm"
    files = [f"{folder}/harm.yaml", f"{folder}/measured.csv", "--results", str(results)]
    config = ["--config", f"dataset={harm}/dataset.nc", f"results={results}"]
    pages = [f"{results}/index.html", *(f"{harm}/notebooks/{name}.html" for name in NOTEBOOKS)]
    snakemake = [sys.executable, "-m", "snakemake", *pages, *config]
    report = [*snakemake, "--report", f"{harm}/report.html"]
    for command in ([*TPCSWEEP, "import", *files], snakemake, report):
        succeeded(command)
    return harm


def is_owned(visit: Visit) -> bool:
    return bool(visit.run("document.body.id === 'owned'"))


def test_the_report_shows_text_and_runs_none(brought: Path) -> None:
    with visiting(brought / "report.html") as visit:
        seen = opened(visit)
        assert not is_owned(visit)
    assert seen["throughput_heatmap.png"]["width"] > 0
    assert list(csv.DictReader(seen["claims.csv"]["table"].splitlines()))


@pytest.mark.parametrize("page", ["index", "../index", *(f"notebooks/{name}" for name in NOTEBOOKS)])
def test_pages_show_text_and_run_none(brought: Path, page: str) -> None:
    with visiting(brought / f"{page}.html") as visit:
        assert not is_owned(visit)
