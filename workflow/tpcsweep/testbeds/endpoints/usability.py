# SPDX-License-Identifier: Apache-2.0
"""Whether the doors and credentials of a pair can be used, now and until a time. Nothing is written."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from tpcsweep.measuring.tools.tool import Credentials
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.endpoints import door_network, pauses, secrets, validity
from tpcsweep.testbeds.endpoints.doors import DoorError, Doors
from tpcsweep.testbeds.endpoints.opening_doors import open_doors
from tpcsweep.testbeds.endpoints.pairs import EndpointPair, Login, Site
from tpcsweep.testbeds.endpoints.settings import Endpoints

ROLES = ("source", "destination")
SOON = 120.0
"""Seconds before its end from which a credential is not used: files could not be deleted afterwards."""
WORKERS = 8  # pairs that are asked at a time
DENIAL = re.compile(r"\b40[13]\b|Unauthorized|Forbidden|Auth failed|\[3010\]")


class Problem(NamedTuple):
    """A fault of an end. With an error, the end cannot be used now."""

    text: str
    error: Exception | None = None


def problems_of_sweep(study: SweepStudy) -> dict[str, list[Problem]]:
    """Ask both ends of each pair of a sweep, and compare their credentials with its longest time."""
    settings, grid = study.testbed, study.grid
    assert isinstance(settings, Endpoints)
    wanted = [cells[0].parameters for cells in grid.deployments.values()]
    names = {pair.name for one in wanted if (pair := settings.find(one.pair, one.source, one.destination))}
    seconds = settings.expected_seconds(grid)[1]
    cell = study.sweep.measurement.bounds[1] + settings.cell_seconds
    pairs = settings.covering([pair for pair in settings.all_pairs if pair.name in names])
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(partial(_problems_of_pair, settings, seconds, cell), pairs))
    return {pair.name: problems for pair, problems in zip(pairs, found, strict=True)}


def lacks_credential(problems: list[Problem]) -> bool:
    """Return whether an end of a pair has no credential that is valid now."""
    return any(isinstance(problem.error, secrets.CredentialError) for problem in problems)


def _problems_of_pair(settings: Endpoints, seconds: float, cell: float, pair: EndpointPair) -> list[Problem]:
    if wishes := list(filter(None, map(pauses.wish, pair.urls))):
        return [Problem(f"pair {pair.name}: {wishes[0]}")]
    try:
        with secrets.written(settings, pair) as private:
            credentials = Credentials(private)
            found: list[Problem] = []
            for role in ROLES:
                login = settings.logins(pair)[role]
                needed = cell if login.token_command else seconds
                faults = list(end_problems(pair, role, login, credentials, needed))
                found += faults or _answers(pair, role, credentials, needed)
            return found
    except secrets.CredentialError as error:
        return [Problem(str(error), error)]


def fault(settings: Endpoints, pair: EndpointPair, role: str) -> str:
    """Return why an end of a pair cannot be used: no answer, valid credential, folder or file; "" if it can be."""
    login = settings.logins(pair)[role]
    try:
        with secrets.written(settings, pair, (role,)) as private:
            credentials = Credentials(private)
            for problem in end_problems(pair, role, login, credentials, 0.0):
                if problem.error:
                    return problem.text
            return _missing(pair, role, door_of(pair, role, credentials))
    except (secrets.CredentialError, DoorError) as error:
        return str(error)


def end_problems(
    pair: EndpointPair, role: str, login: Login, credentials: Credentials, seconds: float
) -> Iterator[Problem]:
    """Yield the faults of an end's door and credential, by the server's clock, for the next `seconds`."""
    end = getattr(pair, role)
    if end.local:
        return
    url, where = end.urls[0], name_of_end(pair, role)
    try:
        door = open_doors(url, credentials, role)
        periods = list(validity.periods(login, credentials, role))
    except (OSError, ValueError) as error:
        text = f"{where}: the certificate cannot be used: {getattr(error, 'strerror', None) or error}"
        yield Problem(text, secrets.CredentialError(text))
        return
    try:
        clock = validity.server_clock(door, url)
    except DoorError as error:
        clock = own_clock()
        yield Problem(f"{where}: {error}", DoorError(f"{where}: {error}"))
    for period in periods:
        if why := validity.invalid(period, clock, SOON):
            yield Problem(text := f"{where}: {why}. Fix: {_renewal(why)}", secrets.CredentialError(text))
        elif why := validity.invalid(period, clock, seconds):
            until = clock.now + datetime.timedelta(seconds=seconds)
            fix = "renew it, or let token_command print a new one before each cell"
            yield Problem(f"{where}: {why}, and may be needed until {validity.shown(until)}. Fix: {fix}")


def own_clock() -> validity.Clock:
    return validity.Clock(datetime.datetime.now(datetime.UTC), "this machine's clock")


def name_of_end(pair: EndpointPair, role: str) -> str:
    end = getattr(pair, role)
    where = urlsplit(end.urls[0]).netloc
    return f"site {end.name}, {where}" if isinstance(end, Site) else f"pair {pair.name}, {role} {where}"


def _renewal(why: str) -> str:
    return "set the clocks of both machines" if "not valid before" in why else "renew it"


def _answers(pair: EndpointPair, role: str, credentials: Credentials, seconds: float) -> list[Problem]:
    """Read the folder or the source file of an end, and the end of its server's certificate."""
    end, where, found = getattr(pair, role), name_of_end(pair, role), []
    if end.local:
        return []
    door = open_doors(end.urls[0], credentials, role)
    try:
        if missing := _missing(pair, role, door):
            found.append(Problem(missing))
    except DoorError as error:
        found.append(Problem(f"{where}: {explained_denial(str(error), pair, role, credentials)}"))
    with suppress(LookupError, OSError):
        ends = door_network.secured(urlsplit(end.urls[0]), credentials.authority).ends
        period = validity.Period("the server's certificate", None, ends)
        if why := validity.invalid(period, own_clock(), seconds):
            found.append(Problem(f"{where}: {why}. Fix: ask its administrators"))
    return found


def _missing(pair: EndpointPair, role: str, door: Doors) -> str:
    """Say that an end lacks its file or its folder; "" if it does not. Raises DoorError if the server refuses."""
    end, where = getattr(pair, role), name_of_end(pair, role)
    if end.file:
        return (
            "" if door.size(f"{end.urls[0]}/{end.file}") is not None else f"{where}: {end.file}: no such file"
        )
    return "" if door.lists(end.urls[0]) else f"{where}: {end.urls[0]}: no such folder"


def explained_denial(text: str, pair: EndpointPair, role: str, credentials: Credentials) -> str:
    """Return the text of a failed request; for a refusal with what the end's credential lacks, if that is seen."""
    end, token = getattr(pair, role), credentials.token(role)
    refusal, _, fix = text.partition(". Fix: ")
    if not DENIAL.search(refusal):
        return text
    lacking = validity.doubts(token, role, end.urls[0], reads=bool(end.file)) if token else []
    if not credentials.needed:
        fix = "anonymous access has no right there: set credentials, or ask for the right"
    elif lacking:
        fix = f"another token: {' and '.join(lacking)} (audience or scope)"
    elif not token:
        fix = "a proxy with the attributes of your VO (voms-proxy-init --voms), or ask for the right"
    if role == "source" and re.match(r"MKCOL|mkdir", text):
        fix += "; or set source.file, if you may only read"
    return f"{refusal}. Fix: {fix}"


def refusals(pair: EndpointPair, logins: dict[str, Login], credentials: Credentials) -> str:
    """Return which ends of a pair have a credential that is not valid now; "" for none."""
    found = [
        problem.text
        for role in ROLES
        for problem in end_problems(pair, role, logins[role], credentials, 0.0)
        if problem.error
    ]
    return "; ".join(found)


def door_of(pair: EndpointPair, role: str, credentials: Credentials) -> Doors:
    """Open the doors of an end. Raises CredentialError for unusable certificates."""
    try:
        return open_doors(getattr(pair, role).urls[0], credentials, role)
    except OSError as error:
        raise secrets.CredentialError(
            f"{name_of_end(pair, role)}: the certificate cannot be used: {error.strerror or error}"
        ) from error
