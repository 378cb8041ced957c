# SPDX-License-Identifier: Apache-2.0
"""Settings of hosts by a user's commands: the axis, and how they are applied, verified and restored."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tpcsweep.analysis.plans.recommendations import check_question
from tpcsweep.common import processes
from tpcsweep.data import folding
from tpcsweep.running import host_settings, runner
from tpcsweep.running.host_settings import SettingError, without_secrets
from tpcsweep.running.status import current_contents, restoration_lines
from tpcsweep.sweeps.problems import ConfigurationError
from tpcsweep.sweeps.study import SweepStudy, cell_spec

from tests.support import synthetic
from tests.support.jobs import Played
from tests.support.projects import study_of

SETTING = {"values": {"stock": "echo stock >state", "fq": "echo fq >state"}, "restore": "rm state"}


def setting(**changed: Any) -> dict[str, Any]:
    return {"tuning": SETTING | changed}


def study(folder: Path, settings: Any, **parameters: Any) -> SweepStudy:
    file = folder / "hosts.yaml"
    file.write_text(yaml.safe_dump({"kind": "netns", "settings": settings}))
    sweep = {"parameters": parameters, "retry_share": 0, "seed": 0, "repetitions": 2}
    return study_of(folder, str(file), **sweep)


def test_a_setting_is_an_axis_of_deployments(tmp_path: Path) -> None:
    found = study(tmp_path, setting(), streams=[1, 2], tuning=["stock", "fq"], rtt=["1 ms", "2 ms"])
    assert list(found.grid.axes) == ["tuning", "rtt", "streams", "repetition"]
    assert len(found.grid.deployments) == 4
    assert found.places == 1
    cell = found.grid.cells[-1]
    assert cell.path == "tuning=fq/rtt=2/streams=2/repetition=2"
    changed = study(tmp_path, setting(values=SETTING["values"] | {"fq": "echo other >state"}), tuning="fq")
    spec, other = (cell_spec(each, each.grid.cells[-1]) for each in (found, changed))
    assert spec["parameters"]["tuning"] == "fq"
    assert spec["conditions"]["tuning"] != other["conditions"]["tuning"]
    assert "echo" not in json.dumps(spec)


@pytest.mark.parametrize(
    ("parameters", "settings", "problem"),
    [
        (
            {"tuning": ["fq", "slow"]},
            setting(),
            "given ['fq', 'slow'], allowed: of its values",
        ),
        ({"tuning": ["fq", "fq"]}, setting(), "given ['fq', 'fq'], allowed: each value once"),
        ({"tuning": 5}, setting(), "given 5, allowed: of its values: fq, stock"),
        ({"tuninx": "fq"}, setting(), "parameters.tuninx: given an unknown key, allowed: one of"),
        ({"tuning": "fq"}, {}, "parameters.tuning: given an unknown key"),
        ({"corse": 2}, setting(), "given an unknown key, allowed: cores? one of"),
        ({"rtt": 1}, {"streams": SETTING}, "settings: given streams, allowed: a name that is no parameter"),
        ({"rtt": 1}, {"status": SETTING}, "settings: given status, allowed: a name that is no parameter"),
        ({"rtt": 1}, setting(restore=""), "settings.tuning.restore"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, parameters: Any, settings: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        study(tmp_path, settings, **parameters)
    assert problem in str(error.value)


Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs the deployment tuning=fq, and returns its cells; commands run in `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "ledgers"))
    monkeypatch.setenv("BEARER_TOKEN", "secret")
    (tmp_path / "logs").mkdir()

    def run(testbed: Any = None, **changed: Any) -> list[dict[str, Any]]:
        found = study(tmp_path, setting(**changed), tuning="fq")
        monkeypatch.setattr(runner.kinds, "load_testbed", lambda _: testbed or Played([]))
        runner.run(found, "deployment=only", tmp_path / "logs")
        return [json.loads(found.cell_file(cell).read_bytes()) for cell in found.grid.cells]

    return run


def test_commands_run_around_the_cells_of_a_deployment(run: Run, tmp_path: Path) -> None:
    seen = []

    class Host(Played):
        def measure(self, *about: Any) -> Any:
            seen.append(Path("state").read_text())
            return super().measure(*about)

    cells = run(Host([]), verify="cat state; env >&2")
    assert seen == ["fq\n", "fq\n"]
    assert not Path("state").exists()
    assert [cell["provenance"]["settings"] for cell in cells] == [
        {
            "tuning": {
                "value": "fq",
                "command": "echo fq >state",
                "restore": "rm state",
                "verified": "fq\n",
                "restored": "as before",
            }
        }
    ] * 2
    assert [cell["flags"] for cell in cells] == [[], []]
    log = (tmp_path / "logs/commands.log").read_text()
    assert [log.count(part) for part in ("echo fq >state", "cat state", "rm state", "exit code 0")] == [
        1,
        5,
        1,
        7,
    ]
    assert "HOME=" in log
    assert "secret" not in log
    assert not list(tmp_path.glob("ledgers/**/*.json"))


@pytest.mark.parametrize(
    "command",
    [
        "sshpass -p {} ssh dtn1 true",
        "sshpass -p{} ssh dtn1 true",
        "curl -u me:{} https://dtn1/tune",
        "curl --user me:{} https://dtn1/tune",
        "curl https://me:{}@dtn1/tune",
        "curl 'https://dtn1/tune?authz={}&x=1'",
        'curl -H "Authorization: Bearer {}" https://dtn1',
        "TUNE_TOKEN={} tune && true",
        "PASSWORD='{} b' tune",
        "tune --db-password {} --yes",
        "echo {} | sudo -S tune",
        "sysctl -w net.ipv4.tcp_fastopen_key={}",
    ],
)
def test_a_recorded_command_has_no_secret(command: str) -> None:
    shown = without_secrets(command.format("hunter2-0abc"))
    assert "hunter2" not in shown and "[removed]" in shown
    assert without_secrets(shown).count("[removed]") == 1


@pytest.mark.parametrize(
    "command",
    [
        *SETTING["values"].values(),
        "for host in a b; do ssh -i ~/.ssh/id_key $host sudo tune --mode apply --yes || exit; done",
        "ssh user@dtn1 sysctl -w net.ipv4.tcp_rmem='4096 131072 67108864'",
        "tune --token $TOKEN --password $(cat file)",
        "systemctl restart tune --user",
    ],
)
def test_a_command_without_secrets_is_recorded_as_it_is(command: str) -> None:
    assert without_secrets(command) == command


def test_a_changed_setting_flags_the_cells_since(run: Run, tmp_path: Path) -> None:
    class Changing(Played):
        def measure(self, *about: Any) -> Any:
            if self.deployments[-1]:
                Path("state").write_text("reset by a daemon\n")
            return super().measure(*about)

    run(Changing([]), verify="cat state")
    found = study(tmp_path, setting(verify="cat state"), tuning="fq")
    cells = [json.loads(found.cell_file(cell).read_bytes()) for cell in found.grid.cells]
    by_flag = {bool(cell["flags"]): cell for cell in cells}
    assert by_flag[True]["flags"] == ["setting_changed"]
    assert by_flag[True]["provenance"]["settings"]["tuning"]["changed"] == "reset by a daemon\n"
    assert "changed" not in by_flag[False]["provenance"]["settings"]["tuning"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"values": {"fq": "echo some; echo no such device >&2; exit 3"}},
            "values.fq: {}: exit code 3: no such device",
        ),
        ({"values": {"fq": "echo up; sleep 60"}, "timeout": "1 s"}, "values.fq: {}: no end after 1 s: up"),
        ({"verify": "exit 1"}, "verify: exit 1: exit code 1: no output"),
    ],
)
def test_cells_of_a_failing_command_are_not_measured(run: Run, changed: Any, reason: str) -> None:
    command = str(changed.get("values", {}).get("fq"))
    cells = run(restore="rm -f state; touch restored", **changed)
    assert {(cell["status"], cell["message"]) for cell in cells} == {
        ("not_measured", f"settings.tuning.{reason.format(command)}")
    }
    assert Path("restored").exists()


@pytest.mark.parametrize(
    ("changed", "restored"),
    [
        ({"verify": "cat state || echo none"}, {"restored": "as before"}),
        ({"verify": "cat state || echo none", "restore": "sleep 0.5; rm state &"}, {"restored": "as before"}),
        (
            {"verify": "cat state || echo none", "restore": "true"},
            {"restored": "another state", "before": "none\n", "after": "fq\n"},
        ),
        ({}, {"restored": "not compared"}),
        (
            {"verify": "cat state || echo none", "restore": "test -e again || ! touch again && rm state"},
            {"restored": "as before"},
        ),
    ],
)
def test_cells_record_how_their_deployment_left_the_hosts(
    run: Run, changed: dict[str, Any], restored: dict[str, str]
) -> None:
    """Case two restores later than its command ends, and the last one needs a second attempt."""
    cells = run(settle="1 s", **changed)
    for cell in cells:
        record = cell["provenance"]["settings"]["tuning"]
        assert {name: record[name] for name in ("restored", "before", "after") if name in record} == restored


def test_cells_record_that_hosts_were_not_restored(run: Run, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="restore"):
        run(restore="false", verify="cat state || echo none")
    found = study(tmp_path, setting(restore="false"), tuning="fq")
    records = [content.provenance["settings"]["tuning"] for _, content in current_contents(found) if content]
    assert [record["restored"] for record in records] == ["failed", "failed"]
    assert restoration_lines(found) == ["hosts after tuning: not restored, because restore failed"]


def test_hosts_are_restored_if_the_job_is_interrupted(run: Run) -> None:
    class Interrupted(Played):
        def measure(self, *about: Any) -> Any:
            os.kill(os.getpid(), signal.SIGTERM)
            return super().measure(*about)

    with pytest.raises(SystemExit):
        run(Interrupted([]))
    assert not Path("state").exists()


KILLED = """
import os, sys
from pathlib import Path
from tpcsweep.running.host_settings import in_force
from tpcsweep.sweeps.testbed_settings import HostSetting
how = HostSetting(values={"fq": sys.argv[1]}, restore="cat state; rm state; cat before", settle="0 s")
with in_force({"tuning": ("fq", how)}, Path("log"), print):
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(
    "command", ["echo fq >state", "echo fq >state; kill -9 $PPID; sleep 60; echo late >state"]
)
@pytest.mark.usefixtures("run")
def test_the_next_run_restores_what_a_killed_one_left(command: str) -> None:
    """In the second case its command still runs, and ends before the hosts are restored."""
    Path("before").touch()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, command], env=processes.full_environment(), check=False, timeout=50
    )
    assert done.returncode == -signal.SIGKILL
    assert Path("state").exists()
    Path("before").unlink()
    with pytest.raises(SettingError, match=r"restore: .*: exit code 1: cat: before: No such file.*reap"):
        host_settings.restore_left()
    Path("before").touch()
    Path("state").touch()
    assert host_settings.restore_left() == ["tuning (was fq): cat state; rm state; cat before"]
    assert not Path("state").exists()
    assert host_settings.restore_left() == []


def test_a_run_restores_nothing_of_a_living_job(run: Run) -> None:
    class Busy(Played):
        def measure(self, *about: Any) -> Any:
            assert host_settings.restore_left() == []
            return super().measure(*about)

    assert {cell["status"] for cell in run(Busy([]))} == {"ok"}


def test_a_plan_needs_the_value_of_a_setting_that_varies(tmp_path: Path) -> None:
    axes = {"tuning": ["stock", "fq"], "rtt": [5.0, 50.0], "streams": [1, 4], "repetition": [1]}
    file = tmp_path / "dataset.nc"
    folding.write(folding.fold(synthetic.write_sweep(tmp_path, axes), axes), file)
    asked = {"target": 0.5, "rtt": 5.0}
    check_question(file, asked | {"tuning": "fq"}, recommendations=False)
    for more, problem in (({}, "tuning: given nothing"), ({"tuning": "fw"}, "tuning: given 'fw'")):
        with pytest.raises(ConfigurationError, match=problem):
            check_question(file, asked | more, recommendations=False)
