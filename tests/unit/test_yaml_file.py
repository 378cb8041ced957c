# SPDX-License-Identifier: Apache-2.0
"""YAML that grows, nests or hides something: refused at once, with the file's name."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from tpcsweep.configuration import yaml_file
from tpcsweep.configuration.problems import MOST
from tpcsweep.configuration.yaml_file import DEEPEST, MOST_VALUES

from tests.support.projects import SECONDS, errors, problems

ALIASES = "\n".join(
    ["l0: &l0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    + [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9)]
)
"""Nine lines that stand for a thousand million values."""
MANY = f"given more than {MOST_VALUES} values, aliases followed"
DEEP = f"line 1: given lists and mappings in each other, allowed: at most {DEEPEST} deep"
INT = "the tag tag:yaml.org,2002:int"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(ALIASES, f"line 5: {MANY}", id="aliases"),
        pytest.param(
            "rtt: [" + "1, " * 2 * 10**7 + "1]",
            "given a file of 57.2 MiB, allowed: at most 4 MiB",
            id="60 MB",
        ),
        pytest.param("rtt: [" + "1," * 2 * 10**6 + "1]", f"line 1: {MANY}", id="4 MB"),
        pytest.param("rtt: " + "[" * 20_000, DEEP, id="lists"),
        pytest.param("rtt: " + "{a: " * 20_000, DEEP, id="mappings"),
        pytest.param("- " * 20_000, DEEP, id="items"),
        ("parameters: &a [*a]", "line 1: given *a, allowed: an alias of something that ends before it"),
        ("parameters: *a", "line 1: given *a, allowed: an alias of something that ends before it"),
        ('seed: !!int ""', f"line 1: given {INT}, allowed: values without tags"),
        ("parameters: !own {rtt: 1}", "line 1: given the tag !own, allowed: values without tags"),
        ('seed: 1\ndescription: "a\\0b"', "line 2: given a control character, allowed: text"),
        ('description: "\\e[2J"', "line 1: given a control character, allowed: text"),
    ],
)
def test_what_nobody_writes_is_refused_at_once(root: Path, text: str, says: str) -> None:
    began = time.process_time()
    [line] = errors(root, text)
    assert time.process_time() - began < SECONDS
    assert line.startswith(f"config/sweeps/one.yaml: {says}")


def test_a_testbed_is_looked_through_too(root: Path) -> None:
    [line] = errors(root, testbed="kind: netns\ncpus: " + "[" * 20_000)
    assert line.startswith("config/testbeds/one.yaml: line 2: given lists and mappings in each other")


def test_aliases_are_taken_for_what_they_stand_for(tmp_path: Path) -> None:
    file = tmp_path / "near.yaml"
    file.write_text("source: &near {rack: a}\ndestination: *near\nclient: {<<: *near, row: 1}\n")
    assert yaml_file.read(file, "near") == {
        "source": {"rack": "a"},
        "destination": {"rack": "a"},
        "client": {"rack": "a", "row": 1},
    }


@pytest.mark.parametrize("text", ["2026-01-02", "010", "1:30", "1e3", "9" * 101, "0x10"])
def test_what_only_looks_like_a_number_is_text(tmp_path: Path, text: str) -> None:
    file = tmp_path / "text.yaml"
    file.write_text(f"a: {text}\n")
    assert yaml_file.read(file, "text") == {"a": text}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("parameters: {rtt: [" + "x, " * 900 + "]}", id="values"),
        pytest.param("parameters: {" + ", ".join(f"k{n}: 1" for n in range(40_000)) + "}", id="keys"),
        pytest.param("exclude: [" + "{rtt: x}, " * 900 + "]", id="excludes"),
    ],
)
def test_of_many_mistakes_some_are_said(root: Path, text: str) -> None:
    began = time.process_time()
    *lines, last = errors(root, text)
    assert time.process_time() - began < SECONDS
    assert len(lines) == MOST
    assert last == "and more like these"


def test_of_many_values_that_cannot_be_some_are_said(root: Path) -> None:
    values = ", ".join(f"{n} ms" for n in range(600, 1600))
    began = time.process_time()
    lines = problems(root, f"parameters: {{rtt: [{values}], streams: [1, 2]}}")
    assert time.process_time() - began < SECONDS
    assert len(lines) == MOST + 1
    axis = ", ".join(f"{n} ms" for n in range(1000))
    entries = ", ".join(f"{{rtt: {n}.5}}" for n in range(1000))
    *lines, _ = errors(root, f"parameters: {{rtt: [{axis}]}}\nexclude: [{entries}]")
    assert time.process_time() - began < SECONDS
    assert lines[0].endswith(
        "exclude[0].rtt: given rtt: 0.5 ms, allowed: one of " + ", ".join(axis.split(", ")[:20]) + ", …"
    )


def test_what_was_given_is_said_shortly(root: Path) -> None:
    [line] = errors(root, f"description: [{', '.join(['x' * 100] * 1000)}]")
    assert len(line) < 3000
    [line] = errors(root, f"{'k' * 1000}: 1")
    assert re.match(r"config/sweeps/one.yaml: k{100}…: given an unknown key", line)


def test_every_pair_of_64_nodes_is_a_testbed(root: Path) -> None:
    names = [f"dtn{n}.example.org" for n in range(64)]
    pairs = [
        f"    - {{rtt: 20 ms, source: {{node_selector: {{kubernetes.io/hostname: {one}}}}}, "
        f"destination: {{node_selector: {{kubernetes.io/hostname: {other}}}}}}}"
        for one in names
        for other in names
        if one != other
    ]
    text = "kind: kubernetes\nimage: tpcsweep\nbandwidth: 800 Gbit/s\npaths:\n  kind: nodes\n  pairs:\n"
    began = time.process_time()
    said = errors(root, "parameters: {}", text + "\n".join([*pairs, pairs[0]]))
    assert time.process_time() - began < SECONDS
    assert said[1:] == [
        "config/testbeds/one.yaml: paths.pairs[4032]: given the same as pairs[0], allowed: each pair once"
    ]
