# SPDX-License-Identifier: Apache-2.0
"""Settings of hosts around real deployments: kill -9 in the midst, and the next run."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.workflow import Sweep, finished, jobs, started, wait_until

CELL = {"tool": "native", "bandwidth": "0.2 Gbit/s", "file_size": "1 MiB", "xrootd": "system"}
SOURCES = "$(ip netns list | grep -o '^tpc-[0-9a-f]*-src1')"
CAP = f"for each in {SOURCES}; do tc -n $each qdisc replace dev tpc-eth root tbf burst 32kb latency 20ms rate"


def test_the_next_run_restores_hosts_after_kill_9(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place, testbed = tmp_path / "applied", tmp_path / "hosts.yaml"
    values = {
        "slow": f"echo 20 >{place}; {CAP} 20mbit; done",
        "fast": f"echo 60 >{place}; {CAP} 60mbit; done",
    }
    restore = f"echo restored >>{tmp_path}/times; rm -f {place}"
    tuning = {"values": values, "verify": f"cat {place} || echo stock", "restore": restore}
    testbed.write_text(yaml.safe_dump({"kind": "netns", "settings": {"tuning": tuning}}))
    sweep = Sweep(tmp_path).define(
        parameters=CELL | {"tuning": ["slow", "fast"]},
        measurement={"until": "seconds", "seconds": "6 s"},
        order="blocks",
        repetitions=2,
        retry_share=0,
    )
    command = [*sweep.command("cells"), f"testbed={testbed}"]
    killed = started(command, tmp_path / "output.log")
    wait_until(place.exists, "the setting is applied")
    [job] = jobs(killed)
    job.kill()
    killed.kill()
    killed.wait()
    assert place.exists()
    done = finished(command)
    assert done.returncode == 0, done.stdout
    assert "restored after a run that was killed: tuning" in done.stdout
    assert "hosts after tuning: restored; verify printed the same as before the change\n" in done.stdout
    assert not place.exists()
    assert len((tmp_path / "times").read_text().split()) == 5
    cells = [json.loads(file.read_bytes()) for file in sweep.cells()]
    rates: dict[str, list[float]] = {value: [] for value in values}
    for cell in cells:
        assert cell["flags"].count("setting_changed") == 0
        rates[cell["spec"]["parameters"]["tuning"]].append(cell["summary"]["throughput"])
    assert max(rates["slow"]) < 0.02 < min(rates["fast"])
