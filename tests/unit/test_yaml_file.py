# SPDX-License-Identifier: Apache-2.0
"""Files that people write: aliases, texts that look like numbers, errors; `make fuzz` tries more of them."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tpcsweep.sweeps.problems import read_yaml

from tests.support.fuzzing import TEXTS, cases, taken
from tests.support.projects import errors, problems


def test_an_alias_stands_for_its_value(tmp_path: Path) -> None:
    file = tmp_path / "near.yaml"
    file.write_text("source: &near {rack: a}\ndestination: *near\nclient: {<<: *near, row: 1}\n")
    near = {"rack": "a"}
    content = {"source": near, "destination": near, "client": {**near, "row": 1}}
    assert read_yaml(file, "near") == content


@pytest.mark.parametrize("text", ["2026-01-02", "010", "1:30", "1e3", "9" * 101, "0x10"])
def test_what_only_looks_like_a_number_is_text(tmp_path: Path, text: str) -> None:
    file = tmp_path / "text.yaml"
    file.write_text(f"a: {text}\n")
    assert read_yaml(file, "text") == {"a": text}


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
    *lines, last = errors(root, "parameters: {rtt: [" + "x, " * 90 + "]}")
    assert len(lines) == 50 and last == "and more like these"
    values = ", ".join(f"{n} ms" for n in range(600, 1600))
    assert len(problems(root, f"parameters: {{rtt: [{values}], streams: [1, 2]}}")) == 1000
    axis = ", ".join(f"{n} ms" for n in range(1000))
    [line] = errors(root, f"parameters: {{rtt: [{axis}]}}\nexclude: [{{rtt: 0.5}}]")
    allowed = ", ".join(f"{n} ms" for n in range(20))
    assert line.endswith(f"exclude[0].rtt: given rtt: 0.5 ms, allowed: one of {allowed}, …")
    [line] = errors(root, f"description: [{', '.join(['x' * 100] * 1000)}]")
    assert len(line) < 3000


@pytest.mark.parametrize("kind", TEXTS)
@settings(
    max_examples=int(os.environ.get("FUZZ_INPUTS", "15")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_file_is_refused_or_planned(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    taken(data.draw(cases(kind)), tmp_path)
