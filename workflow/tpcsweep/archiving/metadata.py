# SPDX-License-Identifier: Apache-2.0
"""What a crate says of its content: RO-Crate 1.1 with the profiles Workflow Run Crate 0.5 and Workflow RO-Crate 1.0.

WorkflowHub reads these, and the community's validator knows them. https://w3id.org/ro/wfrun/workflow/0.5
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import xarray as xr
from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]

from tpcsweep.archiving.contents import CONFIG, SOFTWARE, WORKFLOW, config, readme, results, settings
from tpcsweep.configuration.citation import Author, Citation
from tpcsweep.configuration.loading import SHIPPED, Configuration
from tpcsweep.dataset import STATUS

_STANDARD = "1.1"
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}


def described(
    folder: Path,
    configuration: Configuration | None,
    summary: xr.Dataset,
    cited: Citation,
    software: Citation,
) -> ROCrate:
    """Describe the results of a sweep.

    Args:
        folder: the results.
        configuration: the sweep and the testbed; None for measurements from elsewhere.
        summary: the variables `status` and `provenance_record` of the dataset.
        cited: the authors of the measurements.
        software: the authors of the software.
    """
    crate = ROCrate(version=_STANDARD)
    _describe_whole(crate, summary, cited)
    if cited.doi and cited is not software:
        crate.root_dataset["identifier"] = f"https://doi.org/{cited.doi}"
    workflow = _workflow(crate, summary, software)
    text = StringIO(readme(folder, configuration, summary, cited))
    told = {"name": "What this is", "encodingFormat": "text/markdown", "about": crate.root_dataset}
    crate.add_file(text, "README.md", properties=told)
    given = {
        key: [
            _file(crate, file, place, "text/yaml", f"The {key} that was asked for") for file, place in files
        ]
        for key, files in settings(configuration).items()
    }
    if configuration is not None:
        told = {"name": str(CONFIG), "description": "Sweep and testbed", "encodingFormat": "text/yaml"}
        crate.add_file(StringIO(config(configuration)), str(CONFIG), properties=told)
    made = {
        str(place): _file(crate, folder / place, place, kind.format, kind.what)
        for place, kind in results(folder)
    }
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


def _describe_whole(crate: ROCrate, summary: xr.Dataset, cited: Citation) -> None:
    root, about = crate.root_dataset, summary.attrs
    authors = _authors(crate, cited)
    root["name"] = str(about["title"])
    # Of an earlier dataset there is no more.
    root["description"] = str(about.get("summary", about["title"]))
    root["keywords"] = ", ".join(filter(None, (about.get("keywords"), *cited.keywords)))
    root["datePublished"] = datetime.now(UTC).isoformat(timespec="seconds")
    root["author"] = _as_written(authors)
    of_institutions = (one if one.type == "Organization" else one.get("affiliation") for one in authors)
    if publisher := next(filter(None, of_institutions), None):
        root["publisher"] = publisher
    root["license"] = _licence(crate, cited)
    root["conformsTo"] = [_entity(crate, url, "CreativeWork", name=name) for url, name in _PROFILES.items()]


def _workflow(crate: ROCrate, summary: xr.Dataset, software: Citation) -> Any:
    """Add the workflow, the main entity, with what it ran, and the folder that has all of it."""
    workflow = crate.add_workflow(
        SHIPPED / WORKFLOW,
        f"{SOFTWARE}/{WORKFLOW}",
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
    workflow["author"] = workflow["sdPublisher"] = _as_written(_authors(crate, software))
    workflow["license"] = _licence(crate, software)
    if programs := list(_programs(crate, summary)):
        workflow["softwareRequirements"] = _as_written(programs)
    what = "What of tpcsweep runs sweeps, with the versions of its requirements"
    crate.add_dataset(dest_path=SOFTWARE, properties={"name": "The software", "description": what})
    return workflow


def _programs(crate: ROCrate, summary: xr.Dataset) -> Iterator[Any]:
    """Give what cells were measured with, as found: each program once, with all its versions."""
    found: dict[str, dict[str, None]] = {}
    for record in summary["provenance_record"].values.tolist():
        for name, release in (json.loads(str(record)).get("software") or {}).items():
            found.setdefault(name, {})[str(release)] = None
    for name, releases in sorted(found.items()):
        told = " and ".join(releases)
        yield _entity(crate, _local(name), "SoftwareApplication", name=name, softwareVersion=told)


def _run(summary: xr.Dataset) -> dict[str, Any]:
    """Say when, where and how far a dataset was measured."""
    about, status = summary.attrs, summary["status"].values
    counts = ", ".join(f"{int((status == at).sum())} {word}" for at, word in enumerate(STATUS))
    names = ("host", "cpu", "kernel", "commit")
    where = "".join(f"; {name}: {about[name]}" for name in names if about.get(name))
    times = {"startTime": about["measured_from"], "endTime": about["measured_until"]}
    return {
        "name": f"Sweep {about['sweep']} on {about['testbed']}",
        "description": f"{about['source']}; cells: {counts}{where}",
        "actionStatus": "http://schema.org/CompletedActionStatus",
        # The validator knows no Z; of what was measured elsewhere it is not known when.
        **{name: time.replace("Z", "+00:00") for name, time in times.items() if time != "unknown"},
    }


def _connect(crate: ROCrate, workflow: Any, side: str, files: Mapping[str, Sequence[Any]]) -> None:
    """Make files examples of what the workflow takes or gives, by the names of that."""
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


def _file(crate: ROCrate, file: Path, place: Path, kind: str, what: str) -> Any:
    told = {"name": str(place), "description": what, "encodingFormat": kind}
    return crate.add_file(file, str(place), properties=told, record_size=True)


def _authors(crate: ROCrate, cited: Citation) -> list[Any]:
    return [_author(crate, author) for author in cited.authors]


def _author(crate: ROCrate, author: Author) -> Any:
    identifier = author.orcid or author.website or _local(author.called)
    one = _entity(crate, identifier, "Person" if author.person else "Organization", name=author.called)
    if author.email:
        one["email"] = author.email
    if author.affiliation:
        where = _local(author.affiliation)
        one["affiliation"] = _entity(crate, where, "Organization", name=author.affiliation)
    return one


def _licence(crate: ROCrate, cited: Citation) -> Any:
    url, name = f"https://spdx.org/licenses/{cited.license}", cited.license
    return _entity(crate, url, "CreativeWork", name=name, identifier=url, description=f"{name}, by SPDX")


def _entity(crate: ROCrate, identifier: str, kind: str, /, **properties: Any) -> Any:
    """Give what is no file, which is added where it is not there."""
    return crate.get(identifier) or crate.add_jsonld({"@id": identifier, "@type": kind, **properties})


def _as_written(entities: Iterable[Any]) -> Any:
    """Give several values as a list and one without, as the standard wants them written."""
    several = list(entities)
    return several[0] if len(several) == 1 else several


def _local(name: str) -> str:
    """Name something within a crate."""
    return f"#{quote(name)}"
