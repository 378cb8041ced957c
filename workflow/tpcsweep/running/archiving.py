# SPDX-License-Identifier: Apache-2.0
"""RO-Crates of sweeps for archives: dataset, page, figures, configuration and software.

A crate follows RO-Crate 1.1 with the profiles Workflow Run Crate 0.5 (https://w3id.org/ro/wfrun/workflow/0.5) and
Workflow RO-Crate 1.0, which WorkflowHub and the community's validator read. `docs/data.md` describes crates for
users.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import xarray as xr
import yaml

from tpcsweep.common.extras import require_extra
from tpcsweep.common.files import creating_folder, is_file, replacing_file
from tpcsweep.common.installation import PACKAGE, SHIPPED
from tpcsweep.data.labels import STATUS
from tpcsweep.data.opening import open_group
from tpcsweep.data.places import FILES
from tpcsweep.sweeps import citation
from tpcsweep.sweeps.citation import Author, Citation
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.loading import source_files

_SOFTWARE = "tpcsweep"  # folder of the software in a crate
_SOFTWARE_CITATION = "CITATION.cff"
_WORKFLOW = "workflow/Snakefile"
_CONFIG = Path("config/config.yaml")
_SHIPPED_PARTS = (
    *(f"workflow/{name}" for name in ("Snakefile", "report", "rules", "schemas", "scripts")),
    *("notebooks", "profiles", "envs", "config/published", "Snakefile", "Makefile"),
    *("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", _SOFTWARE_CITATION),
    "examples/terena2005-verdicts.json",  # an input of the rules
)
"""Parts of the checkout that run sweeps, without sweeps and testbeds, which may name a site's private machines."""
_PACKAGES = ("tpcsweep", "snakemake_logger_plugin_tpcsweep")
"""Packages of the software: in the folder `workflow` of a checkout, or where a wheel is installed."""
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}


class _File(NamedTuple):
    place: Path
    source: Path | StringIO
    description: str
    format: str


def write_crate(
    results: Path, study: SweepStudy | None, cited: Citation | None, folder: Path, archive: Path
) -> None:
    """Write the crate of a results folder as a folder, which replaces an earlier one, and as ZIP file, atomically.

    Imported measurements have no configuration. Without `cited`, the authors are those of the software. Raises
    MissingExtraError without the extra `crate`.
    """
    require_extra("crate")
    crate = _described(results, study, cited)
    with creating_folder(folder) as whole, replacing_file(archive) as packed:
        crate.write(whole)
        copy_software(whole)
        Path(shutil.make_archive(str(packed), "zip", whole)).replace(packed)
        shutil.rmtree(folder, ignore_errors=True)


def copy_software(folder: Path) -> None:
    """Copy the part of a checkout that runs sweeps into a crate's folder; a wheel contains the same files."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", "shipped")
    sources = {part: SHIPPED / part for part in _SHIPPED_PARTS}
    sources |= {f"workflow/{package}": PACKAGE.parent / package for package in _PACKAGES}
    for part, source in sources.items():
        target = folder / _SOFTWARE / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)


def _results(folder: Path) -> Iterator[_File]:
    """Yield the files of a results folder, except those older than its dataset."""
    made = (folder / "dataset.nc").stat().st_mtime
    for pattern, about in FILES["crate"].items():
        for file in sorted(folder.glob(pattern)):
            # Snakemake updates the times of a job's files one after the other; the list of holes precedes the dataset.
            current = file.stat().st_mtime + 1 >= made or pattern == "not_measured.json"
            if is_file(file) and current:
                yield _File(file.relative_to(folder), file, *about)


def _settings(study: SweepStudy) -> dict[str, list[_File]]:
    requested = {"sweep": Path(study.sweep_file).stem, "testbed": study.testbed_name}
    if study.sweep.scale is not None:
        requested["scale"] = study.requested["scale"]
    files = {}
    for key, sources in source_files(study, Path()).items():
        about = f"The requested {key}", "text/yaml"
        files[key] = [_File(Path(f"config/{key}s", source.name), source, *about) for source in sources]
    text = StringIO(yaml.safe_dump(requested, sort_keys=False))
    files["config"] = [_File(_CONFIG, text, "The requested sweep and testbed", "text/yaml")]
    return files


def _readme(files: Iterable[_File], again: bool, summary: xr.Dataset, cited: Citation) -> _File:
    rows = {
        **{str(file.place): file.description for file in files},
        f"{_SOFTWARE}/": "The software",
        "ro-crate-metadata.json": "All of this for machines: <https://www.researchobject.org/ro-crate/>",
    }
    table = "".join(f"| `{name}` | {what} |\n" for name, what in rows.items())
    about = summary.attrs
    text = f"""\
# {about["title"]}

{f"{about.get('summary', '')} {about['source']}.".strip()}

By {", ".join(author.called for author in cited.authors)}; licence: {cited.license}.

| file | content |
|---|---|
{table}"""
    if again:
        text += f"""
To measure it again, in this folder:

```
{_SOFTWARE}/envs/setup.sh
. {_SOFTWARE}/.venv/bin/activate
snakemake --snakefile {_SOFTWARE}/{_WORKFLOW} --cores all --workflow-profile none
```
"""
    return _File(Path("README.md"), StringIO(text), "Description of the archive", "text/markdown")


def _described(folder: Path, study: SweepStudy | None, cited: Citation | None) -> Any:
    from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]

    with open_group(folder / "dataset.nc") as cells:
        summary = cells[["status", "provenance_record"]].load()
    software = citation.read_citation(SHIPPED / _SOFTWARE_CITATION, _SOFTWARE_CITATION)
    crate = ROCrate(version="1.1")
    _describe_whole(crate, summary, cited or software)
    if cited and cited.doi:
        crate.root_dataset["identifier"] = f"https://doi.org/{cited.doi}"
    workflow = _workflow(crate, summary, software)
    settings = {} if study is None else _settings(study)
    results = list(_results(folder))
    listed = [*results, *chain.from_iterable(settings.values())]
    _add(crate, _readme(listed, bool(settings), summary, cited or software), about=crate.root_dataset)
    given = {key: [_add(crate, file) for file in files] for key, files in settings.items()}
    given.pop("config", None)  # no input of the workflow by itself
    made = {str(file.place): _add(crate, file) for file in results}
    _connect(crate, workflow, "input", given)
    outputs = {"dataset": "dataset.nc", "page": "index.html"}
    shown = {name: [made[file]] for name, file in outputs.items() if file in made}
    _connect(crate, workflow, "output", shown)
    run = crate.add_action(
        workflow,
        "#run",
        object=_as_written(chain.from_iterable(given.values())),
        result=_as_written(made.values()),
        properties=_run(summary),
    )
    run["agent"] = crate.root_dataset["author"]
    crate.root_dataset["mentions"] = run
    return crate


def _add(crate: Any, file: _File, **more: Any) -> Any:
    properties = {"name": str(file.place), "description": file.description, "encodingFormat": file.format}
    on_disk = isinstance(file.source, Path)
    return crate.add_file(file.source, str(file.place), properties=properties | more, record_size=on_disk)


def _describe_whole(crate: Any, summary: xr.Dataset, cited: Citation) -> None:
    root, about = crate.root_dataset, summary.attrs
    authors = [_author(crate, author) for author in cited.authors]
    root["name"] = str(about["title"])
    root["description"] = str(about["summary"])
    root["keywords"] = ", ".join(filter(None, (about.get("keywords"), *cited.keywords)))
    root["datePublished"] = datetime.now(UTC).isoformat(timespec="seconds")
    root["author"] = _as_written(authors)
    institutions = (one if one.type == "Organization" else one.get("affiliation") for one in authors)
    if publisher := next(filter(None, institutions), None):
        root["publisher"] = publisher
    root["license"] = _licence(crate, cited)
    root["conformsTo"] = [_entity(crate, url, "CreativeWork", name=name) for url, name in _PROFILES.items()]


def _workflow(crate: Any, summary: xr.Dataset, software: Citation) -> Any:
    """Add the workflow as main entity, with the programs that it ran and the folder of the software."""
    workflow = crate.add_workflow(
        SHIPPED / _WORKFLOW,
        f"{_SOFTWARE}/{_WORKFLOW}",
        main=True,
        lang="snakemake",
        lang_version=version("snakemake"),
        properties={
            "name": software.title,
            "description": "The workflow that measures sweeps and makes datasets, figures and pages of them",
            "version": version("tpcsweep"),
            "encodingFormat": "text/plain",
            "conformsTo": {"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"},
        },
    )
    authors = [_author(crate, author) for author in software.authors]
    workflow["author"] = workflow["sdPublisher"] = _as_written(authors)
    workflow["license"] = _licence(crate, software)
    if programs := list(_programs(crate, summary)):
        workflow["softwareRequirements"] = _as_written(programs)
    what = "The part of tpcsweep that runs sweeps, with the versions of its requirements"
    crate.add_dataset(dest_path=_SOFTWARE, properties={"name": "The software", "description": what})
    return workflow


def _programs(crate: Any, summary: xr.Dataset) -> Iterator[Any]:
    versions_by_name: dict[str, dict[str, None]] = {}
    for record in summary["provenance_record"].values.tolist():
        for name, release in (json.loads(str(record)).get("software") or {}).items():
            versions_by_name.setdefault(name, {})[str(release)] = None
    for name, releases in sorted(versions_by_name.items()):
        versions = " and ".join(releases)
        yield _entity(crate, _local(name), "SoftwareApplication", name=name, softwareVersion=versions)


def _run(summary: xr.Dataset) -> dict[str, Any]:
    about, status = summary.attrs, summary["status"].values
    counts = ", ".join(f"{int((status == at).sum())} {word}" for at, word in enumerate(STATUS))
    names = ("host", "cpu", "kernel", "commit")
    where = "".join(f"; {name}: {about[name]}" for name in names if about.get(name))
    times = {"startTime": about["measured_from"], "endTime": about["measured_until"]}
    return {
        "name": f"Sweep {about['sweep']} on {about['testbed']}",
        "description": f"{about['source']}; cells: {counts}{where}",
        "actionStatus": "http://schema.org/CompletedActionStatus",
        # The validator does not know Z. Imported measurements have unknown times.
        **{name: time.replace("Z", "+00:00") for name, time in times.items() if time != "unknown"},
    }


def _connect(crate: Any, workflow: Any, side: str, files: Mapping[str, Sequence[Any]]) -> None:
    """Make files examples of the workflow's inputs or outputs, by their names."""
    parameters = []
    for name, examples in files.items():
        what = f"The {name}, as {'it is asked for' if side == 'input' else 'it is made'}"
        parameter = crate.add_formal_parameter(name, "File", _local(name), what)
        parameter["workExample"] = _as_written(examples)
        parameters.append(parameter)
        for file in examples:
            file["exampleOfWork"] = parameter
    if parameters:
        workflow[side] = _as_written(parameters)


def _author(crate: Any, author: Author) -> Any:
    identifier = author.orcid or author.website or _local(author.called)
    one = _entity(crate, identifier, "Person" if author.person else "Organization", name=author.called)
    if author.email:
        one["email"] = author.email
    if author.affiliation:
        where = _local(author.affiliation)
        one["affiliation"] = _entity(crate, where, "Organization", name=author.affiliation)
    return one


def _licence(crate: Any, cited: Citation) -> Any:
    url, name = f"https://spdx.org/licenses/{cited.license}", cited.license
    return _entity(crate, url, "CreativeWork", name=name, identifier=url, description=f"{name}, by SPDX")


def _entity(crate: Any, identifier: str, kind: str, /, **properties: Any) -> Any:
    """Return an entity that is no file; add it if the crate lacks it."""
    return crate.get(identifier) or crate.add_jsonld({"@id": identifier, "@type": kind, **properties})


def _as_written(entities: Iterable[Any]) -> Any:
    """Return several values as a list, but a single one alone, as the standard requires."""
    several = list(entities)
    return several[0] if len(several) == 1 else several


def _local(name: str) -> str:
    return f"#{quote(name)}"
