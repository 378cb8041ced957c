# SPDX-License-Identifier: Apache-2.0
"""A sweep as an RO-Crate: dataset, page, figures, configuration and software, described for archives.

It follows RO-Crate 1.1 with the profiles Workflow Run Crate 0.5 and Workflow RO-Crate 1.0, which WorkflowHub reads and
the community's validator knows. `docs/archiving.md` is for those who use it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import xarray as xr

from tpcsweep.configuration import citation
from tpcsweep.configuration.citation import Author, Citation
from tpcsweep.configuration.loading import SHIPPED, Configuration, files_of
from tpcsweep.dataset import STATUS
from tpcsweep.extras import require
from tpcsweep.files import is_file, making, replacing

if TYPE_CHECKING:
    from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]

SOFTWARE_CITATION = "CITATION.cff"
_STANDARD = "1.1"
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
_SOFTWARE = "tpcsweep"
"""The folder of the software in a crate."""
_PARTS = (
    *(
        "workflow",
        "notebooks",
        "profiles",
        "envs",
        "config/published",
        "Snakefile",
        "Makefile",
        "pyproject.toml",
    ),
    *("README.md", "CHANGELOG.md", "LICENSE", SOFTWARE_CITATION),
)
"""What of the checkout runs sweeps. Other sweeps and testbeds stay out: those of a site may name what is its own."""
_NOT_SOFTWARE = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")


class Result(NamedTuple):
    """Files of a sweep's results."""

    pattern: str
    what: str
    format: str


_RESULTS = (
    Result("dataset.nc", "", "application/x-netcdf"),
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
"""What a crate has of the results, in this order. Cells' files are left out: the dataset holds all of them."""


def write(configuration: Configuration, folder: Path, archive: Path) -> None:
    """Write the crate of a configuration's results as a folder, which is not there yet, and as a ZIP file.

    Raises:
        MissingExtraError: without the extra `crate`.
        ConfigurationError: for a CITATION.cff without what a crate takes from it.
    """
    require("crate")
    with xr.open_dataset(configuration.folder / "dataset.nc") as opened:
        summary = opened[["status", "provenance_record"]].load()
    cited = configuration.citation or citation.read(SHIPPED / SOFTWARE_CITATION, SOFTWARE_CITATION)
    crate = _described(configuration, summary, cited)
    with making(folder) as whole, replacing(archive) as packed:
        crate.write(whole)
        for part in _PARTS:
            _copy(SHIPPED / part, whole / _SOFTWARE / part)
        Path(shutil.make_archive(str(packed), "zip", whole)).replace(packed)


def results(configuration: Configuration) -> Iterator[tuple[Path, Result]]:
    """Give the results that are there, by their places in the crate, and none that is of an earlier dataset."""
    folder = configuration.folder
    made = (folder / "dataset.nc").stat().st_mtime
    for kind in _RESULTS:
        for file in sorted(folder.glob(kind.pattern)):
            # Files that a job has made together are renewed one after the other.
            current = file.stat().st_mtime + 1 >= made
            if is_file(file) and (current or kind.pattern == "not_measured.json"):
                yield file.relative_to(folder), kind


def settings(configuration: Configuration) -> dict[str, list[tuple[Path, Path]]]:
    """Give the files that say what was measured and where: each with its place in the crate."""
    if not configuration.measures:
        return {}
    return {
        key: [(file, Path("config", f"{key}s", file.name)) for file in files]
        for key, files in files_of(configuration, Path()).items()
    }


def _described(configuration: Configuration, summary: xr.Dataset, cited: Citation) -> ROCrate:
    """Make the metadata of a crate."""
    from rocrate.rocrate import ROCrate

    crate = ROCrate(version=_STANDARD)
    ours = citation.read(SHIPPED / SOFTWARE_CITATION, SOFTWARE_CITATION)
    about = summary.attrs
    authors, developers = [_authors(crate, one.authors) for one in (cited, ours)]
    root = crate.root_dataset
    root["name"] = str(about["title"])
    root["description"] = str(about.get("summary") or about["title"])
    root["datePublished"] = datetime.now(UTC).isoformat(timespec="seconds")
    root["author"] = _as_written(authors)
    root["publisher"] = authors[0]
    root["license"] = _licence(crate, cited.license)
    root["keywords"] = ", ".join(filter(None, [str(about.get("keywords", "")), *cited.keywords]))
    if cited.doi and cited is configuration.citation:
        root["identifier"] = f"https://doi.org/{cited.doi}"
    root["conformsTo"] = [_entity(crate, url, "CreativeWork", name=name) for url, name in _PROFILES.items()]

    workflow = crate.add_workflow(
        SHIPPED / "workflow/Snakefile",
        f"{_SOFTWARE}/workflow/Snakefile",
        main=True,
        lang="snakemake",
        lang_version=version("snakemake"),
        properties={
            "name": ours.title,
            "description": "The workflow that measures sweeps and makes datasets, figures and pages of them",
            "version": version("tpcsweep"),
            "encodingFormat": "text/plain",
            "conformsTo": {"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"},
        },
    )
    workflow["author"] = workflow["sdPublisher"] = _as_written(developers)
    workflow["license"] = _licence(crate, ours.license)
    workflow["softwareRequirements"] = _as_written(_software(crate, summary))
    crate.add_dataset(
        dest_path=_SOFTWARE,
        properties={
            "name": "The software",
            "description": "What of tpcsweep runs sweeps, with the versions of its requirements",
        },
    )
    readme = {"name": "What this is", "encodingFormat": "text/markdown", "about": {"@id": "./"}}
    text = StringIO(_readme(configuration, summary, cited))
    crate.add_file(text, "README.md", properties=readme)

    given = {
        key: [_file(crate, file, place, "text/yaml") for file, place in files]
        for key, files in settings(configuration).items()
    }
    made = {
        place: _file(
            crate, configuration.folder / place, place, kind.format, kind.what or root["description"]
        )
        for place, kind in results(configuration)
    }
    _connect(crate, "input", given)
    _connect(crate, "output", {"dataset": [made[Path("dataset.nc")]], "page": [made[Path("index.html")]]})
    action = crate.add_action(
        workflow,
        "#run",
        object=_as_written(chain.from_iterable(given.values())),
        result=_as_written(made.values()),
        properties={"name": f"Sweep {about['sweep']} on {about['testbed']}", **_run(summary)},
    )
    action["agent"] = _as_written(authors)
    root["mentions"] = action
    return crate


def _run(summary: xr.Dataset) -> dict[str, Any]:
    """Say when, where and how far a dataset was measured."""
    about, status = summary.attrs, summary["status"].values
    counts = ", ".join(f"{int((status == at).sum())} {word}" for at, word in enumerate(STATUS))
    where = ", ".join(
        f"{name} {about[name]}" for name in ("host", "cpu", "kernel", "commit") if about.get(name)
    )
    times = {"startTime": about["measured_from"], "endTime": about["measured_until"]}
    return {
        "description": f"{about['source']}; cells: {counts}{f'; {where}' if where else ''}",
        "actionStatus": "http://schema.org/CompletedActionStatus",
        # The validator knows no Z; of what was measured elsewhere it is not known when.
        **{name: time.replace("Z", "+00:00") for name, time in times.items() if time != "unknown"},
    }


def _entity(crate: ROCrate, identifier: str, kind: str, /, **properties: Any) -> Any:
    """Give a contextual entity, which is added where it is not there."""
    known = crate.get(identifier)
    return known or crate.add_jsonld({"@id": identifier, "@type": kind, **properties})


def _as_written(entities: Iterable[Any]) -> Any:
    """Give several values as a list and one without, as the standard wants them written."""
    several = list(entities)
    return several[0] if len(several) == 1 else several


def _local(name: str) -> str:
    """Name something within a crate."""
    return f"#{quote(name)}"


def _authors(crate: ROCrate, authors: Iterable[Author]) -> list[Any]:
    made = []
    for author in authors:
        identifier = author.orcid or author.website or _local(author.called)
        one = _entity(crate, identifier, "Person" if author.person else "Organization", name=author.called)
        if author.email:
            one["email"] = author.email
        if author.affiliation:
            one["affiliation"] = _entity(
                crate, _local(author.affiliation), "Organization", name=author.affiliation
            )
        made.append(one)
    return made


def _licence(crate: ROCrate, name: str) -> Any:
    url = f"https://spdx.org/licenses/{name}"
    return _entity(crate, url, "CreativeWork", name=name, identifier=url, description=f"{name}, by SPDX")


def _software(crate: ROCrate, summary: xr.Dataset) -> Iterator[Any]:
    """Give what cells were measured with, as found: each program once, with all its versions."""
    found: dict[str, dict[str, None]] = {}
    for record in summary["provenance_record"].values.tolist():
        for name, release in (json.loads(str(record)).get("software") or {}).items():
            found.setdefault(name, {})[str(release)] = None
    for name, releases in sorted(found.items()):
        told = " and ".join(releases)
        yield _entity(crate, _local(name), "SoftwareApplication", name=name, softwareVersion=told)


def _file(crate: ROCrate, file: Path, place: Path, kind: str, what: str = "") -> Any:
    told = {"description": what} if what else {}
    return crate.add_file(
        file,
        str(place),
        properties={"name": str(place), "encodingFormat": kind, **told},
        record_size=True,
    )


def _connect(crate: ROCrate, side: str, files: Mapping[str, Sequence[Any]]) -> None:
    """Make files examples of what the workflow takes or gives, by the names of that."""
    parameters = []
    for name, examples in files.items():
        what = f"The {name}, as {'it is asked for' if side == 'input' else 'it was made'}"
        parameter = crate.add_formal_parameter(name, "File", _local(name), what)
        parameter["workExample"] = _as_written(examples)
        parameters.append(parameter)
        for file in examples:
            file["exampleOfWork"] = parameter
    if parameters:
        crate.mainEntity[side] = _as_written(parameters)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=_NOT_SOFTWARE, dirs_exist_ok=True)
    elif is_file(source):
        shutil.copyfile(source, target)


def _readme(configuration: Configuration, summary: xr.Dataset, cited: Citation) -> str:
    """Say what a crate is, what is in it, and how the sweep is measured again with it."""
    about = summary.attrs
    lines = [
        f"# {about['title']}",
        "",
        f"{about.get('summary', '')} {about['source']}.".strip(),
        "",
        f"By {', '.join(author.called for author in cited.authors)}; licence: {cited.license}.",
        "",
        "| | |",
        "|---|---|",
        *(
            f"| `{place}` | {kind.what or 'everything that was found'} |"
            for place, kind in results(configuration)
        ),
        *(
            f"| `{place}` | the {key} that was asked for |"
            for key, files in settings(configuration).items()
            for _, place in files
        ),
        f"| `{_SOFTWARE}/` | the software |",
        "| `ro-crate-metadata.json` | all of this for machines: <https://www.researchobject.org/ro-crate/> |",
    ]
    if configuration.measures:
        lines += [
            "",
            "To measure it again, in this folder:",
            "",
            "```",
            f"{_SOFTWARE}/envs/setup.sh",
            f". {_SOFTWARE}/.venv/bin/activate",
            f"snakemake --snakefile {_SOFTWARE}/workflow/Snakefile --cores all --workflow-profile none "
            f"--config sweep={configuration.name} testbed={configuration.testbed_name}",
            "```",
        ]
    return "\n".join([*lines, ""])
