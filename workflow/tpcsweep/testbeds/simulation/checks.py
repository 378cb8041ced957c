# SPDX-License-Identifier: Apache-2.0
"""Check a sweep on the simulated testbed, whose model supports some parameters and values."""

from collections import Counter
from collections.abc import Iterator

from tpcsweep.data.publications import claim_names
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.sweeps.parameters import show_value
from tpcsweep.sweeps.problems import Problem, suggest
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.units import CORES
from tpcsweep.testbeds.rules import Rule, allowed_values, at_most, broken, everywhere
from tpcsweep.testbeds.simulation.fixed_point import DISKS
from tpcsweep.testbeds.simulation.settings import Simulation

UNMODELLED_PARAMETERS = ("tool", "copy_mode", "source_content")
"""Parameters whose values the model does not distinguish; as axes they would falsely show no effect."""


def check(study: SweepStudy) -> list[Problem]:
    testbed, file = study.testbed, study.testbed_file
    assert isinstance(testbed, Simulation)
    rules = [*_rules(testbed, file), *everywhere(testbed.memory, f"memory in {file}")]
    return [
        *_claims(testbed, file),
        *_axes(study),
        *broken(rules, study),
    ]


def _claims(testbed: Simulation, file: str) -> Iterator[Problem]:
    known = claim_names()
    for key, names in ("inputs", testbed.inputs), ("assumptions", testbed.assumptions):
        for name in (name for name in names if name not in known):
            yield Problem(key, repr(name), suggest(name, known), file)


def _axes(study: SweepStudy) -> Iterator[Problem]:
    for name in UNMODELLED_PARAMETERS:
        values = study.grid.axes.get(name, ())
        alike = Counter(_known_by(str(value)) if name == "tool" else None for value in values)
        if max(alike.values(), default=0) > 1:
            given = ", ".join(show_value(name, value) for value in values)
            allowed = "one value: the model does not tell them apart"
            yield Problem(f"parameters.{name}", given, allowed, study.sweep_file)


def _known_by(tool: str) -> str | None:
    """Return the property of a tool that the model uses: its encryption, or that it moves no files."""
    protocol = TOOLS[tool].protocol if tool in TOOLS else None
    return protocol if protocol in ("https", "iperf3") else None


def _rules(testbed: Simulation, file: str) -> list[Rule]:
    physics = testbed.parameters
    most = physics.host_cores.value
    assert most is not None

    def layer(value: str) -> str | None:
        if value == "mirage":
            return f"network or memory_to_memory: {file} has no cost of invented files"
        rates = {"disk_read_rate": physics.disk_read_rate, "disk_write_rate": physics.disk_write_rate}
        used = zip(rates.items(), DISKS.get(value, (False, False)), strict=True)
        lacking = [name for (name, rate), on_disk in used if on_disk and rate.value is None]
        if not lacking:
            return None
        return f"layers without disks, or a testbed with numbers for {' and '.join(lacking)} (null in {file})"

    priced = {
        "encryption": testbed.encryption,
        "authorization": "none" if testbed.encryption == "none" else "usual",
    }
    tools = f"{' or '.join(testbed.tools)}: {file} has no set-up time and cost of other tools (tools)"
    return [
        at_most("cores", most, CORES, f" (host_cores in {file})"),
        Rule(("layer",), layer),
        Rule(("tool",), lambda value: None if value in testbed.tools or value not in TOOLS else tools),
        *(
            allowed_values(
                name, [value], f"{value}: other {name} has a cost that {file} does not state (encryption)"
            )
            for name, value in priced.items()
        ),
    ]
