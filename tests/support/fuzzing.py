# SPDX-License-Identifier: Apache-2.0
"""Mistakes that people make in files, made up: shipped files with keys and values changed.

A file is refused in plain words, or everything that precedes a deployment can be made from it. Other errors are faults.
"""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from hypothesis import strategies as st
from kubernetes.client import ApiClient
from tpcsweep.data.importing.import_settings import Axis, Column, Import
from tpcsweep.data.importing.table_import import import_table
from tpcsweep.deploying.paths import network_path as paths
from tpcsweep.sweeps import units
from tpcsweep.sweeps.parameters import Parameters, quantity
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.sweeps.sweep import Measurement, Sweep
from tpcsweep.testbeds import support
from tpcsweep.testbeds.kubernetes import objects
from tpcsweep.testbeds.kubernetes.metadata import Naming
from tpcsweep.testbeds.kubernetes.placements import Role, Side
from tpcsweep.testbeds.kubernetes.pod.network import commands, share
from tpcsweep.testbeds.kubernetes.settings import Kubernetes, Pair, Paths
from tpcsweep.testbeds.loading import WorkflowSettings, load, load_import, studies
from tpcsweep.testbeds.netns import checks as netns
from tpcsweep.testbeds.netns import topology
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.simulation import fixed_point
from tpcsweep.testbeds.simulation.physics import Estimate, Physics
from tpcsweep.testbeds.simulation.result import results
from tpcsweep.testbeds.simulation.settings import Simulation

from tests.support import projects
from tests.support.workflow import ROOT

LOOKED_AT = 20  # deployments of a sweep that are planned
TABLE = """\
tool,client,streams,nostreams,rtt_ms,ping,throughput_gibit_per_s,rate,state
curl,curl,8,8,10.5,10.5,3,3,DONE
gridftp,gridftp,1,1,80,80,1,1,LOST
"""
ROOMY = {
    "large-netns": "{kind: netns, max_bandwidth: 100 Gbit/s, max_rtt: 2 s, memory: 1 TiB}",
    "large-netem": "{kind: kubernetes, image: tpcsweep, bandwidth: 100 Gbit/s, mtu: 9000, memory: 1024 TiB, "
    "congestion_controls: [cubic, bbr, reno], paths: {kind: netem, pairs: [{}]}}",
}
"""Testbeds that can do most of what a sweep may say."""
MACHINE = replace(projects.MACHINE, cpus=256, memory=2**41, disk=2**50)


class Case(NamedTuple):
    """A file's text, with the name of what it is used with."""

    kind: str
    text: str
    beside: str


def _shipped(*folders: str) -> list[str]:
    return [file.read_text() for folder in folders for file in sorted((ROOT / folder).glob("*.yaml"))]


TEXTS = {
    "sweep": _shipped("config/sweeps", "config/published"),
    "testbed": _shipped("config/testbeds"),
    "import": [
        *_shipped("config/imports"),
        (ROOT / "docs/data.md")
        .read_text()
        .partition("\n## Import\n")[2]
        .split("```yaml\n")[1]
        .split("```")[0],
    ],
    "config": [
        "{sweep: [nodes, demo@netns], testbed: kubernetes, results: results, notify: 'true'}",
        "{sweep: 'demo,smoke', testbed: netns, dataset: null}",
        "{sweep: demo, testbed: netns, dataset: examples/surface.nc}",
        "{sweep: chep2024_fig4@simulation, testbed: netns, scale: 1/200, only: x.json}",
    ],
}
"""The texts that cases begin with, by kind."""
BESIDE = {
    "sweep": (*ROOMY, *ROOMY, "kubernetes", "simulation", "simulation"),
    "testbed": ("demo", "smoke", "nodes", "matrix"),
}
_MODELS = Parameters, Measurement, Sweep, WorkflowSettings, Import, Axis, Column
_TESTBEDS = Netns, Kubernetes, Paths, Pair, Side, Role, Simulation, Physics, Estimate
KEYS = sorted({name for fixed_point in (*_MODELS, *_TESTBEDS) for name in fixed_point.model_fields})

# --- what is written

_DIMENSIONS = (units.SIZE, units.RTT, units.RATE, units.FRACTION)
_UNITS = sorted({unit for dimension in _DIMENSIONS for unit in dimension.units})
_AMOUNTS = ("0", "1", "5", "0.5", "1000", "1e3", "-1", "0.0000001", "99999999999", "1,5", ".5", "")
_NUMBERS = (0, 1, -1, 2, 3, 64, 65, 300, 10**6, 2**31, 2**32, 0.001, 0.5, 1e-9)
_WORDS = (
    "null none ../../etc é @x {x} %s 1/0 0x10 1:30 010 2026-13-01 = steady seconds files tls direct push disk_to_disk "
    "curl native iperf3 xrdcp netem networks nodes simulation netns 10.0.0.1/24 /"
)
_ODD = (None, True, False, *_NUMBERS, "", " ", *_WORDS.split())

_quantity = st.builds("{} {}".format, st.sampled_from(_AMOUNTS), st.sampled_from(_UNITS))
_number = st.integers(-10, 2**40) | st.floats(allow_nan=False, allow_infinity=False)
_value = st.sampled_from(_ODD) | _quantity | _number | st.text(max_size=12)
_nested = st.lists(_value, max_size=4) | st.dictionaries(st.sampled_from(KEYS), _value, max_size=3)
_any = _value | _nested | st.lists(_nested, max_size=1)


def _within(known: units.Quantity) -> st.SearchStrategy[Any]:
    """Values within the bounds of a parameter, small and large ones, and lists of them."""
    low, high = known.at_least, known.at_most
    values = st.integers(int(low), int(high)) if known.dimension.whole else st.floats(low, high)
    small = [min(high, low * 2**power + power) for power in range(11)]
    value = st.sampled_from([high, *small]) | values
    return value | st.lists(value, min_size=1, max_size=3)


_WITHIN = {name: _within(known) for name in Parameters.model_fields if (known := quantity(name))}


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of nested lists and mappings: what holds it, and its key or index."""
    inner = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in inner:
        yield content, key
        if isinstance(value, dict | list):
            yield from _places(value)


@st.composite
def _changed(draw: st.DrawFn, kind: str) -> str:
    content = yaml.safe_load(draw(st.sampled_from(TEXTS[kind])))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        places = list(_places(content))
        if not places:
            break
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["replace", "replace", "drop", "add", "rename", "list"])):
            case "replace":
                within = isinstance(holder, dict) and key in _WITHIN and draw(st.booleans())
                holder[key] = draw(_WITHIN[key] if within else _any)
            case "drop":
                del holder[key]
            case "list":
                held = holder[key] if isinstance(holder[key], list) else [holder[key]]
                holder[key] = [*held, *draw(st.lists(_value, max_size=3))]
            case "add" if isinstance(holder, dict):
                holder[draw(st.sampled_from(KEYS) | st.text(max_size=5))] = draw(_any)
            case "rename" if isinstance(holder, dict):
                holder[draw(st.sampled_from(KEYS))] = holder.pop(key)
            case _ if isinstance(holder, list):
                holder.append(draw(_any))
    return yaml.safe_dump(content, sort_keys=False)


def cases(kind: str) -> st.SearchStrategy[Case]:
    """Files of a kind of TEXTS."""
    return st.builds(Case, st.just(kind), _changed(kind), st.sampled_from(BESIDE.get(kind, ("",))))


# --- what comes of it


def taken(case: Case, folder: Path) -> bool:
    """Return whether a file is accepted.

    Raises:
        AssertionError: for a refusal without the file's name.
        Exception: for any error that is not a refusal in plain words.
    """
    file = folder / "written.yaml"
    file.write_text(case.text)
    try:
        _try(case, file)
    except ConfigurationError as error:
        said = str(error)
        assert str(folder) in said or "config/" in said, f"of which file? {said[:500]}"
        return False
    return True


def _try(case: Case, file: Path) -> None:
    match case.kind:
        case "sweep":
            testbed = case.beside
            if testbed in ROOMY:
                testbed = f"{file.parent}/{case.beside}.yaml"
                Path(testbed).write_text(ROOMY[case.beside])
            _planned(load({"sweep": str(file), "testbed": testbed}, ROOT))
        case "testbed":
            _planned(load({"sweep": case.beside, "testbed": str(file)}, ROOT))
        case "import":
            table = file.with_name("table.csv")
            table.write_text(TABLE)
            name, settings = load_import(str(file), ROOT)
            import_table(settings, table, name)
        case "config":
            for study in studies(yaml.safe_load(case.text), ROOT).values():
                assert len(study.folder.name.encode()) < 256


# --- what is made of what is taken


def _planned(configuration: SweepStudy) -> None:
    """Check a configuration, and make all of its deployments that needs nothing deployed; raises what a step raises."""
    testbed = configuration.testbed
    of_this_machine = isinstance(testbed, Netns)
    found = netns.check(configuration, MACHINE) if of_this_machine else support.check(configuration)
    if found:
        raise ConfigurationError(found)
    for cells in islice(configuration.grid.deployments.values(), LOOKED_AT):
        cell_spec(configuration, cells[0])
        assert all(len(part) < 256 for part in configuration.cell_file(cells[0]).parts)
        parameters = cells[0].parameters
        match testbed:
            case Netns():
                _on_netns(parameters)
            case Kubernetes():
                _on_kubernetes(configuration, testbed, parameters)
            case Simulation():
                _on_simulation(configuration, testbed, parameters)


def _on_netns(parameters: Parameters) -> None:
    path = _path(parameters)
    emulator = paths.choose_emulator(path, netem_works=True)
    assert path.rtt == 0 or path.rtt >= paths.SMALLEST_RTT[emulator]
    assert path.bandwidth <= paths.LARGEST_BANDWIDTH[emulator]
    assert all(len(line) < 400 for line in paths.qdiscs(path, emulator))
    for name, servers in topology.sides(Path("/f"), parameters.origins).items():
        free = set(map(str, ip_network(topology.LAN[name]).hosts())) - {topology.GATEWAY[name]}
        assert len(set(servers.addresses) & free) == parameters.origins
        assert all(len(f"tpc-{server.name}") < 16 for server in servers.servers)
    sizes = " ".join(topology.tcp_sysctls(parameters).values()).split()
    assert all(int(size) < 2**31 for size in sizes)


def _on_kubernetes(configuration: SweepStudy, settings: Kubernetes, parameters: Parameters) -> None:
    naming = Naming("abc123", configuration.name, "x")
    deadline = settings.start_time + configuration.sweep.measurement.bounds[1]
    pair = next(pair for pair in settings.pairs if settings.serves(pair, parameters))
    made = objects.deployment_jobs(naming, settings, pair, parameters, parameters.streams, deadline)
    assert ApiClient().sanitize_for_serialization(made)
    if settings.paths.kind == "netem":
        assert commands("eth0", share(_path(parameters), parameters.origins), ["10.0.0.1"])


def _on_simulation(configuration: SweepStudy, settings: Simulation, parameters: Parameters) -> None:
    cells, physics = fixed_point.model_cells([parameters]), fixed_point.central(settings.parameters)
    found, *_ = fixed_point.solve(cells, physics, settings.queues)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert list(results([parameters], settings, configuration.sweep.measurement))


def _path(parameters: Parameters) -> paths.NetworkPath:
    names = {"rtt", "bandwidth", "loss", "mtu", "queue_limit"}
    return paths.NetworkPath(**parameters.model_dump(include=names))
