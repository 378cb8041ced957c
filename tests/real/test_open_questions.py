# SPDX-License-Identifier: Apache-2.0
"""The open questions: the experiment that they turn on, netem's limit on a real kernel; and their notebook."""

import csv
import sys
from pathlib import Path

from arithmetic import Setup
from experiments import Experiment, measure

from tests.support.browser import widths
from tests.support.pictures import embedded, hues
from tests.support.workflow import succeeded


def test_netem_holds_no_more_than_its_limit_of_packets_of_two_segments() -> None:
    # As small as one slow CPU carries with ease; so many that one with thrice its share still makes small packets.
    one = Experiment("queue_limit", streams=24, rtt=60, limit=200, mtu=1500)
    [found] = measure([one])["experiments"]
    setup = Setup(one.rtt, one.mtu, limit=one.limit)
    cap = setup.cap(one.streams)
    assert cap.low == cap.high
    # Connections that lose what is above a cap do not fill it.
    assert 0.3 * cap.low < found["throughput"] < 1.3 * cap.low
    assert found["drops"] > 0
    assert found["packets_held"] <= one.limit
    # Two segments, or one where losses left windows of odd numbers.
    assert 0.5 * setup.packets.low < found["packet"] < 1.3 * setup.packets.low


def test_shipped_measurements_are_drawn_without_a_network_in_a_folder_with_any_name(tmp_path: Path) -> None:
    results = tmp_path / "my results"
    # In a network namespace of its own, with its loopback interface down.
    command = [sys.executable, "-m", "snakemake", "-s", "studies/open_questions/Snakefile"]
    succeeded(["unshare", "-n", *command, "--config", f"results={results}"])
    page = results / "published/open_questions/open_questions.html"
    pictures = embedded(page.read_text())
    assert pictures and all(map(hues, pictures))
    assert widths(page) == [picture.shape[1] for picture in pictures]
    assert [path.name for path in results.iterdir()] == ["published"]
    with page.with_name("explanations.csv").open(newline="") as file:
        seen = [row["seen"] for row in csv.DictReader(file)]
    assert seen and not any(text.startswith("not measured") for text in seen)
