# SPDX-License-Identifier: Apache-2.0
"""What a crate has: results, the files that say what was measured, the software, and a page that says what it is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import xarray as xr
import yaml

from tpcsweep.configuration.citation import Citation
from tpcsweep.configuration.loading import SHIPPED, Configuration, files_of
from tpcsweep.files import is_file

SOFTWARE = "tpcsweep"
"""The folder of the software in a crate."""
SOFTWARE_CITATION = "CITATION.cff"
"""Who wrote it."""
WORKFLOW = "workflow/Snakefile"
CONFIG = Path("config/config.yaml")
_PARTS = (
    *("workflow", "notebooks", "profiles", "envs", "config/published", "Snakefile", "Makefile"),
    *("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", SOFTWARE_CITATION),
)
"""What of the checkout runs sweeps. Other sweeps and testbeds stay out: those of a site may name what is its own."""


class Result(NamedTuple):
    """Files of a sweep's results."""

    pattern: str
    what: str
    format: str


_RESULTS = (
    Result(
        "dataset.nc",
        "Every cell with its interval, flags, provenance and time series",
        "application/x-netcdf",
    ),
    Result("cells.csv", "Every cell, for spreadsheets", "text/csv"),
    Result("index.html", "The first page: findings, a map and the cells behind it", "text/html"),
    Result("report.html", "Snakemake's report: figures with captions, how each was made", "text/html"),
    Result("claims.csv", "Verdicts on published claims", "text/csv"),
    Result("claims.json", "Verdicts on published claims, with their evidence", "application/json"),
    Result("models.json", "Fitted models of throughput", "application/json"),
    Result("not_measured.json", "Cells that could not be measured, and why", "application/json"),
    Result("figures/*.svg", "Figure", "image/svg+xml"),
    Result("figures/*.png", "Figure", "image/png"),
    Result("figures/*.csv", "Table behind a figure", "text/csv"),
    Result("notebooks/*.html", "Executed notebook", "text/html"),
)
"""What a crate has of the results, in this order. Cells' files are left out: the dataset holds what they say."""


def results(folder: Path) -> Iterator[tuple[Path, Result]]:
    """Yield the files of a results folder by their places in the crate, without those of an earlier dataset."""
    made = (folder / "dataset.nc").stat().st_mtime
    for kind in _RESULTS:
        for file in sorted(folder.glob(kind.pattern)):
            # Snakemake renews the times of a job's files one after the other. Holes are known before.
            current = file.stat().st_mtime + 1 >= made or kind.pattern == "not_measured.json"
            if is_file(file) and current:
                yield file.relative_to(folder), kind


def settings(configuration: Configuration | None) -> dict[str, list[tuple[Path, Path]]]:
    """Return the files of the sweep and of the testbed, each with its place in the crate."""
    if configuration is None:
        return {}
    return {
        key: [(file, Path("config", f"{key}s", file.name)) for file in files]
        for key, files in files_of(configuration, Path()).items()
    }


def config(configuration: Configuration) -> str:
    """Return the workflow's config/config.yaml of a crate."""
    asked = {"sweep": Path(configuration.sweep_file).stem, "testbed": configuration.testbed_name}
    if configuration.sweep.scale is not None:
        asked["scale"] = configuration.asked["scale"]
    return str(yaml.safe_dump(asked, sort_keys=False))


def copy_software(folder: Path) -> None:
    """Copy what of the checkout runs sweeps into the folder of a crate."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
    for part in _PARTS:
        source, target = SHIPPED / part, folder / SOFTWARE / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)


def readme(folder: Path, configuration: Configuration | None, summary: xr.Dataset, cited: Citation) -> str:
    """Return the crate's README in Markdown: its content, and the commands that measure the sweep again."""
    about = summary.attrs
    rows = {
        **{str(place): kind.what for place, kind in results(folder)},
        **{
            str(place): f"What was asked for: the {key}"
            for key, files in settings(configuration).items()
            for _, place in files
        },
        **({} if configuration is None else {str(CONFIG): "What was asked for: sweep and testbed"}),
        f"{SOFTWARE}/": "The software",
        "ro-crate-metadata.json": "All of this for machines: <https://www.researchobject.org/ro-crate/>",
    }
    lines = [
        f"# {about['title']}",
        "",
        f"{about.get('summary', '')} {about['source']}.".strip(),
        "",
        f"By {', '.join(author.called for author in cited.authors)}; licence: {cited.license}.",
        "",
        "| file | content |",
        "|---|---|",
        *(f"| `{name}` | {what} |" for name, what in rows.items()),
    ]
    if configuration is not None:
        lines += [
            "",
            "To measure it again, in this folder:",
            "",
            "```",
            f"{SOFTWARE}/envs/setup.sh",
            f". {SOFTWARE}/.venv/bin/activate",
            f"snakemake --snakefile {SOFTWARE}/{WORKFLOW} --cores all --workflow-profile none",
            "```",
        ]
    return "\n".join([*lines, ""])
