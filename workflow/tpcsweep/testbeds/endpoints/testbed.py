# SPDX-License-Identifier: Apache-2.0
"""The endpoints testbed. A deployment consists of a folder at each end of a pair."""

import contextlib
import dataclasses
import math
import secrets as random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tpcsweep.common import processes, signals
from tpcsweep.common.numbers import counted, json_number
from tpcsweep.common.urls import MadeFolder, door_of
from tpcsweep.data.cell_result import CellResult, Summary
from tpcsweep.deploying.xrootd.obtaining import obtain_client
from tpcsweep.deploying.xrootd.releases import ReleaseError
from tpcsweep.measuring import cell, provenance
from tpcsweep.measuring.client.client_process import ClientError, process_channel
from tpcsweep.measuring.tools.http_tpc import copy_headers
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Credentials, Transfer
from tpcsweep.measuring.tools.xrdcp_http import link_client
from tpcsweep.sweeps.parameters import DeploymentParameters, Parameters
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.sweep import Measurement
from tpcsweep.testbeds.endpoints import ledger, pauses, secrets, trial, usability
from tpcsweep.testbeds.endpoints.background import traffic
from tpcsweep.testbeds.endpoints.doors import DoorError, Doors, LeftError
from tpcsweep.testbeds.endpoints.fixes import explained_copy
from tpcsweep.testbeds.endpoints.implementations import recognized
from tpcsweep.testbeds.endpoints.local import LOCAL
from tpcsweep.testbeds.endpoints.pairs import EndpointPair, Site
from tpcsweep.testbeds.endpoints.settings import Endpoints
from tpcsweep.testbeds.endpoints.shared_doors import SharedDoors
from tpcsweep.testbeds.endpoints.site import EndpointsSite
from tpcsweep.testbeds.endpoints.spending import Spending
from tpcsweep.testbeds.endpoints.webdav import HttpDoors
from tpcsweep.testbeds.interface import Finding, Request, TeardownError

TRIAL = "trial"
"""Name of a file of one byte, by which a deployment tries its rights."""
EXPECTED = (DoorError, secrets.CredentialError, ClientError, TeardownError, ReleaseError)


def require(_settings: Endpoints) -> None:
    """Return None, as each pair can fail by itself; `warnings` knows the pairs of a sweep."""


def warnings(study: SweepStudy) -> list[str]:
    """Return why cells of a sweep may fail: doors, credentials and rights of its pairs, until its longest time.

    Raises CredentialError if no pair has a usable credential.
    """
    found = usability.problems_of_sweep(study)
    texts = list(dict.fromkeys(problem.text for problems in found.values() for problem in problems))
    if found and all(map(usability.lacks_credential, found.values())):
        raise secrets.CredentialError("\n".join(texts))
    return texts


@contextlib.contextmanager
def deployed(settings: Endpoints, request: Request) -> Iterator[EndpointsSite]:
    """Create a folder at each end of a pair, and of pairs with background traffic; check deletion, and delete all."""
    pair = settings.pair(request.parameters)
    with contextlib.ExitStack() as undo:
        site = undo.enter_context(_opened(settings, request, pair, "client"))
        for number, (other, streams) in enumerate(settings.beside_pairs(request.parameters), start=1):
            made = undo.enter_context(_opened(settings, request, other, f"beside-{number}"))
            site.beside.append((made, streams))
        yield site


@contextlib.contextmanager
def _opened(
    settings: Endpoints, request: Request, pair: EndpointPair, client: str
) -> Iterator[EndpointsSite]:
    """Create the folders of a pair and its client, whose log has the name `client`."""
    run = psutil.Process(signals.starter())
    used = ledger.place() / f"{request.testbed}.{request.sweep}.spent"
    sites = {end.name: end.budget for end in (pair.source, pair.destination) if isinstance(end, Site)}
    spending = Spending(used, f"{run.pid} {run.create_time()}", settings.budget, request.testbed, sites)
    spending.check()
    shared = SharedDoors(ledger.place(), request.testbed)
    pauses.await_all(pair.urls, request.stage, spending.check)
    if left := ledger.reap(settings, pair.name)[1]:
        raise LeftError(f"no folder is created while an earlier one cannot be deleted: {'; '.join(left)}")
    with contextlib.ExitStack() as undo:
        private = undo.enter_context(secrets.written(settings, pair))
        credentials = Credentials(private)
        doors = {role: usability.door_of(pair, role, credentials) for role in usability.ROLES}
        _require_usable(settings, pair, credentials, request)
        entry = ledger.begin(undo, request.testbed, pair.name, private)
        undo.push(partial(_cleared, doors, entry))
        undo.callback(signals.ignore_signals)
        others = _other_runs(doors, pair, entry)
        for note in others:
            request.stage(note)
        request.stage(f"making folders for {request.deployment}")
        written = [role for role in doors if not getattr(pair, role).file]
        made = {role: _made(doors[role], entry, role, pair, credentials) for role in written}
        if any(TOOLS[tool].follows_in_clear for tool in request.tools) and Credentials(private).needed:
            _require_encrypted_copies(doors, made, pair)
        for role, folder in made.items():
            with _explained(pair, role, credentials):
                doors[role].delete(folder.file(TRIAL))
        home = private / "client"
        home.mkdir()
        xrdcp = _client_release(home, request)
        log = undo.enter_context((request.logs / f"stderr.{client}.log").open("wb"))
        command = [sys.executable, "-m", "tpcsweep.measuring.client", str(private), str(home)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
        process = processes.start(command, processes.python(home), start_new_session=True, **pipes)
        undo.callback(_ended, process)
        site = EndpointsSite(
            pair=pair,
            made=made,
            doors=doors,
            channel=process_channel(process),
            process=process,
            private=private,
            logins=settings.logins(pair),
            spending=spending,
            checksums=settings.checksums,
            shared=shared,
            max_streams=settings.most_streams(pair),
            stage=request.stage,
            rtt_idle=math.nan if pair.rtt is None else pair.rtt,
            provenance=_provenance(request.tools, pair, doors, others, xrdcp),
        )
        undo.callback(site.close)
        yield site


def _client_release(home: Path, request: Request) -> dict[str, str]:
    """Give the client a release whose xrdcp copies by HTTP if a tool needs it; return its version, for provenance."""
    if not any(TOOLS[tool].own_release for tool in request.tools):
        return {}
    release = obtain_client(request.stage)
    link_client(home, release)
    return {"xrdcp": release.client_version()}


def _other_runs(doors: Mapping[str, Doors], pair: EndpointPair, entry: ledger.Entry) -> list[str]:
    """Return notes on folders of other runs in the folders of a pair: these measure now, or were killed."""
    notes, ours = [], {folder.name for folder in entry.folders.values()}
    for role, door in doors.items():
        url = getattr(pair, role).urls[0]
        with contextlib.suppress(DoorError):  # a folder that may not be listed
            if names := sorted({*door.other_runs(url)} - ours):
                runs = f"{counted(len(names), 'other run')} in {url}, running or killed"
                notes.append(f"{runs}: {', '.join(names[:3])}")
    return notes


def _require_usable(
    settings: Endpoints, pair: EndpointPair, credentials: Credentials, request: Request
) -> None:
    """Raise DoorError or CredentialError if an end cannot be used, and report what may end during the deployment."""
    for role, login in settings.logins(pair).items():
        seconds = request.seconds if not login.token_command else 0.0  # it runs before each cell
        for problem in usability.end_problems(pair, role, login, credentials, seconds):
            if problem.error:
                raise problem.error
            request.stage(problem.text)


def _made(
    door: Doors, entry: ledger.Entry, role: str, pair: EndpointPair, credentials: Credentials
) -> MadeFolder:
    """Create a folder of an end, see it at the end's other doors, and write a file in it."""
    first, *others = getattr(pair, role).urls
    with _explained(pair, role, credentials):
        folder = entry.create(role, door, first)
        for url in others:
            door.require(folder.at(url))
        door.upload(folder.file(TRIAL), lambda: [b"\n"], 1)
    return folder


@contextlib.contextmanager
def _explained(pair: EndpointPair, role: str, credentials: Credentials) -> Iterator[None]:
    """Add the end to a DoorError, and what its token lacks to a refusal."""
    try:
        yield
    except DoorError as error:
        raise DoorError(
            f"{role}: {usability.explained_denial(str(error), pair, role, credentials)}"
        ) from None


def _require_encrypted_copies(
    doors: Mapping[str, Doors], made: Mapping[str, MadeFolder], pair: EndpointPair
) -> None:
    """Raise DoorError if a door redirects COPY to http. Whether the copies succeed is of no interest."""
    file = f"{pair.source.urls[0]}/{pair.source.file}"
    source = made["source"].file(TRIAL).url if "source" in made else file
    copy = made["destination"].file(f"{TRIAL}-copy")
    for transfer in (Transfer(source, copy.url, mode) for mode in ("pull", "push")):
        if isinstance(door := doors[transfer.roles[0]], HttpDoors):
            door.request("COPY", transfer.ends[0], copy_headers(transfer))
    doors["destination"].delete(copy)


def _ended(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()  # the client ends its tools
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _cleared(doors: dict[str, Doors], entry: ledger.Entry, _kind: object, error: object, _at: object) -> None:
    """Delete the folders of a deployment; an error that ended it is not hidden by one here."""
    count, problems = ledger.cleared(doors, entry.folders)
    if count and not problems:
        # A source folder contains no arriving files; the destination may receive another one after this.
        time.sleep(ledger.LINGER)
        _, problems = ledger.cleared(doors, entry.folders)
    if problems and isinstance(error, DoorError):
        return
    if problems:
        raise TeardownError(f"left behind, `tpcsweep reap` tries again: {'; '.join(problems)}")
    ledger.end(entry)


def _provenance(
    tools: Iterable[str],
    pair: EndpointPair,
    doors: dict[str, Doors],
    others: list[str],
    xrdcp: Mapping[str, str],
) -> dict[str, Any]:
    described, hosts = {}, {}
    for role, door in doors.items():
        url = getattr(pair, role).urls[0]
        server = door.server(url)
        implementation = recognized(server)
        hosts[role] = url.split("/")[2] or LOCAL
        described[role] = {
            "urls": list(getattr(pair, role).urls),
            "server": server,
            "implementation": implementation.name if implementation else "",
        }
    return {
        **provenance.machine(),
        "hosts": {"local": provenance.settings()},
        "software": {**provenance.software(tools), **xrdcp},
        "nodes": hosts,
        "endpoints": {
            **described,
            "declared": {"rtt": pair.rtt, "bandwidth": pair.bandwidth},
            "other_runs": others,
        },
    }


def measure(
    site: EndpointsSite, wanted: Parameters, how: Measurement, prefix: str, *shown: Any
) -> CellResult:
    """Measure a cell like `measuring.cell.measure`, without limits of servers and paths."""
    declared = math.nan if site.pair.bandwidth is None else site.pair.bandwidth
    # Nobody knows the buffers of others' servers.
    path = {"rtt": site.rtt_idle, "bandwidth": declared, "tcp_buffer": math.nan}
    of_pair = wanted.model_copy(update=path)
    with site.turn(wanted, how), traffic(site, wanted, how) as beside:
        result = cell.measure(site, of_pair, how, f"{prefix}-{random.token_hex(4)}", *shown)
    if site.beside:
        result = _with_traffic(result, beside)
    reason, ended = explained_copy(result.message, wanted.copy_mode), ""
    if usability.DENIAL.search(reason):
        ended = usability.refusals(site.pair, site.logins, Credentials(site.private))
    words = [ended, reason, *site.doubts]
    return dataclasses.replace(result, message="; ".join(filter(None, words)))


def _with_traffic(result: CellResult, beside: list[tuple[float, str]]) -> CellResult:
    """Add the rate of background traffic to a cell, which fails if a pair carried none."""
    figures = {**result.summary.figures, "throughput_beside": json_number(sum(rate for rate, _ in beside), 6)}
    result = dataclasses.replace(result, summary=Summary(figures))
    if idle := [failure or "no byte arrived" for rate, failure in beside if rate <= 0]:
        words = "; ".join(filter(None, [result.message, f"no background traffic: {idle[0]}"]))
        return dataclasses.replace(result, status="failed", message=words, limit=None)
    return result


def unexplained(settings: Endpoints) -> list[str]:
    """Return the folders of dead runs that belong to no pair of this testbed."""
    return ledger.unexplained(settings)


def reap(settings: Endpoints) -> list[str]:
    """Delete the folders of dead runs, and return them. Raises TeardownError with the remaining ones."""
    done, problems = ledger.reap(settings)
    if problems:
        raise TeardownError(
            "\n".join([*(f"reaped: {one}" for one in done), *(f"left: {one}" for one in problems)])
        )
    return done


def pause(settings: Endpoints, wanted: DeploymentParameters) -> float:
    """Return the seconds until no door of a deployment's pairs asks for a pause."""
    pairs = [settings.pair(wanted), *(pair for pair, _ in settings.beside_pairs(wanted))]
    return max((pauses.left(door_of(url)) for pair in pairs for url in pair.urls), default=0.0)


def faulty_sites(settings: Endpoints, wanted: DeploymentParameters) -> Mapping[str, str]:
    """Return the sites of a deployment's link that do not answer, or refuse a request, of tpcsweep's own; and why."""
    ends = zip(usability.ROLES, settings.sites_of(wanted), strict=True)
    pair = settings.pair(wanted)
    faults = {site.name: usability.fault(settings, pair, role) for role, site in ends}
    return {name: why for name, why in faults.items() if why}


def check(study: SweepStudy, pair: str | None = None) -> Iterator[Finding]:
    assert isinstance(study.testbed, Endpoints)
    yield from trial.findings(study.testbed, study.testbed_name, pair)
