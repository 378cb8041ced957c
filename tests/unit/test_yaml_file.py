# SPDX-License-Identifier: Apache-2.0
"""YAML that people write: aliases, texts that look like numbers, and errors that stay readable."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpcsweep.configuration import yaml_file

from tests.support.projects import errors, problems


def test_an_alias_stands_for_its_value(tmp_path: Path) -> None:
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
    ("text", "says"),
    [
        ("parameters: *a", "line 1: given found undefined alias"),
        ("seed: !!int x", "given invalid literal for int()"),
        ("parameters: !own {rtt: 1}", "line 1: given could not determine a constructor for the tag '!own'"),
    ],
)
def test_broken_yaml_is_refused_with_the_file(root: Path, text: str, says: str) -> None:
    [line] = errors(root, text)
    assert line.startswith(f"config/sweeps/one.yaml: {says}")


def test_of_many_mistakes_the_first_are_listed(root: Path) -> None:
    *lines, last = errors(root, "parameters: {rtt: [" + "x, " * 900 + "]}")
    assert len(lines) == 50 and last == "and more like these"
    values = ", ".join(f"{n} ms" for n in range(600, 1600))
    assert len(problems(root, f"parameters: {{rtt: [{values}], streams: [1, 2]}}")) == 1000
    axis = ", ".join(f"{n} ms" for n in range(1000))
    [line] = errors(root, f"parameters: {{rtt: [{axis}]}}\nexclude: [{{rtt: 0.5}}]")
    assert line.endswith(
        "exclude[0].rtt: given rtt: 0.5 ms, allowed: one of " + ", ".join(axis.split(", ")[:20]) + ", …"
    )


def test_a_long_value_is_abbreviated(root: Path) -> None:
    [line] = errors(root, f"description: [{', '.join(['x' * 100] * 1000)}]")
    assert len(line) < 3000


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
    said = errors(root, "parameters: {}", text + "\n".join([*pairs, pairs[0]]))
    assert said[1:] == [
        "config/testbeds/one.yaml: paths.pairs[4032]: given the same as pairs[0], allowed: each pair once"
    ]
