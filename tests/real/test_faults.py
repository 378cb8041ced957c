# SPDX-License-Identifier: Apache-2.0
"""What a sweep does when something breaks in the middle of a cell: that cell says so, and the others are measured."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tpcsweep.data.cell_result import CellResult
from tpcsweep.data.flags import BROKEN
from tpcsweep.data.variables import NOT_MEASURED
from tpcsweep.deploying.xrootd import credentials
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.running import runner
from tpcsweep.testbeds.netns import ownership, testbed
from tpcsweep.testbeds.netns.namespace_servers import DeploymentError
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.leftovers import present
from tests.support.projects import study_of
from tests.support.sites import left, site_of
from tests.support.workflow import fill

Patch = pytest.MonkeyPatch
Fault = Callable[[NetnsSite, threading.Event], None]
"""What is done to a deployment; until the cell is over, where it has to go on."""
AFTER = 0.5  # seconds from when the first bytes of a cell arrive to what is done to it
WARM = 1.5  # seconds later: a silence in the first of them is cut as warm-up, and no interval has it
CELL = {"until": "files", "files": 12, "max_time": "10 min"}
"""96 MiB, that is four seconds of the path at least; and until all streams give up, however late that is noticed."""
SILENT = {"min_time": "4 s", "max_time": "4 s"}  # for what no transfer notices
BASE = {"rtt": "2 ms", "bandwidth": "200 Mbit/s", "file_size": "4 MiB", "streams": 2, "tool": "curl"}


@dataclass
class Sabotage:
    """A sweep of one deployment, run here, with something done to it in the middle of some of its cells."""

    folder: Path
    faults: Sequence[Fault | None]  # what is done in each cell, in the order in which they are measured
    cells: list[dict[str, Any]] = field(default_factory=list)
    deployments: list[str] = field(default_factory=list)  # of each cell, as the names of its namespaces begin
    left_out: list[str] = field(default_factory=list)  # why cells were not measured, of each
    partial: list[list[str]] = field(default_factory=list)  # the files that each has left to the next cell

    def run(self, settings: dict[str, Any] | None = None, how: dict[str, Any] = CELL, **given: Any) -> None:
        """Measure cells that differ in their repetition, unless parameters say otherwise."""
        axes = any(isinstance(value, list) for value in given.values())
        sweep = {
            "parameters": BASE | given,
            "measurement": how,
            "repetitions": 1 if axes else len(self.faults),
            "retry_share": 0,  # a retry would be another cell, with a fault of its own
        }
        testbed_file = self.folder / "testbed.yaml"
        testbed_file.write_text(yaml.safe_dump({"kind": "netns"} | (settings or {})))
        configuration = study_of(self.folder, str(testbed_file), **sweep)
        [deployment] = configuration.grid.deployments
        (self.folder / "logs").mkdir()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(testbed, "measure", self._measure)
            try:
                runner.run(configuration, deployment, self.folder / "logs")
            finally:
                self._nothing_stays()
        found = [json.loads(path.read_bytes()) for path in configuration.folder.rglob("cells/**/*.json")]
        measured = [cell for cell in found if cell["status"] != NOT_MEASURED]
        self.left_out = [cell["message"] for cell in found if cell["status"] == NOT_MEASURED]
        assert sorted(map(_figures, measured)) == sorted(map(_figures, self.cells))

    def _measure(self, site: NetnsSite, *rest: Any) -> CellResult:
        fault, over = self.faults[len(self.cells)], threading.Event()
        done = threading.Thread(target=_inflict, args=(fault or (lambda *_: None), site, over))
        done.start()
        result = _real_measure(site, *rest)
        over.set()
        done.join()
        self.cells.append(result.to_json())
        self.deployments.append(site.prefix)
        self.partial.append(left(site))
        return result

    def _nothing_stays(self) -> None:
        found = {name for names in present().values() for name in names}
        for prefix in self.deployments:
            assert not [name for name in found if prefix.removeprefix("tpc-") in name]
            assert not ownership.processes(prefix)

    def cell(self, number: int) -> dict[str, Any]:
        """A cell's result, when it is sure that it has left no file to the cell behind it."""
        assert BROKEN in self.cells[number]["flags"] or self.partial[number] == []
        return self.cells[number]

    def replaced(self, number: int) -> bool:
        """Whether the cell after this one was measured in another deployment."""
        return self.deployments[number] != self.deployments[number + 1]


_real_measure = testbed.measure


def _inflict(fault: Fault, site: NetnsSite, over: threading.Event) -> None:
    """Do it once transfers are under way, however long a busy machine took to start them."""
    while not _arriving(site):
        if over.wait(0.05):
            return
    time.sleep(AFTER)
    fault(site, over)


def _arriving(site: NetnsSite) -> bool:
    with contextlib.suppress(FileNotFoundError):  # one that has arrived is removed
        return any((site.sides["dst"].files / name).stat().st_size for name in left(site))
    return True


def _figures(cell: dict[str, Any]) -> str:
    """What a measurement says, without what the run adds to it."""
    summary = cell["summary"] | {"attempts": None}
    return json.dumps([cell["status"], cell["message"], cell["flags"], summary], sort_keys=True)


def killed(node: str, program: str = "xrootd", number: signal.Signals = signal.SIGKILL) -> Fault:
    def fault(site: NetnsSite, _: threading.Event) -> None:
        folder = f"{site.prefix.removeprefix('tpc-')}/nodes/{node}"
        for process in psutil.process_iter(["cmdline"]):
            command = process.info["cmdline"] or [""]
            if program in Path(command[0]).name and any(folder in word for word in command):
                process.send_signal(number)

    return fault


def source_removed(site: NetnsSite, _: threading.Event) -> None:
    for path in site.sides["src"].files.glob("sparse.*"):
        path.unlink()


def path_cut(seconds: float, after: float = 0) -> Fault:
    def fault(site: NetnsSite, _: threading.Event) -> None:
        time.sleep(after)
        rule = ["ip", "-n", f"{site.prefix}-far", "rule"]
        subprocess.run([*rule, "add", "priority", "1", "blackhole"], check=True)
        if seconds < float("inf"):
            time.sleep(seconds)
            subprocess.run([*rule, "delete", "priority", "1"], check=True)

    return fault


def another_authority(site: NetnsSite, _: threading.Event) -> None:
    """The clients get certificates of an authority that has signed no server's."""
    ours = ownership.STATE / site.prefix.removeprefix("tpc-") / "credentials"
    other = ours.with_name("other")
    credentials.create_credentials(other, [], (0, 0))
    shutil.rmtree(ours / "ca")
    shutil.copytree(other / "ca", ours / "ca", symlinks=True)
    for name in ("ca.pem", "user.pem", "user.key"):
        (other / name).replace(ours / name)


def filled(site: NetnsSite, over: threading.Event) -> None:
    """Something else fills the memory of the destination: what the check before a sweep would refuse."""
    fill(site.sides["dst"].files.parent, over.is_set, left=1 << 20)


def went_well(cell: dict[str, Any]) -> bool:
    whole = cell["status"] == "ok" and not {BROKEN, "transfers_failed"} & set(cell["flags"])
    return whole and cell["summary"]["transfers"] > 0 and cell["summary"]["throughput"] > 0


@pytest.fixture(scope="module")
def one_a_side(tmp_path_factory: pytest.TempPathFactory) -> Sabotage:
    """Every second cell goes wrong."""
    crash, server, client = killed("dst1", number=signal.SIGSEGV), killed("src1"), killed("client", "python")
    faults = crash, server, client, path_cut(0.5, after=WARM), source_removed, filled, another_authority
    sabotage = Sabotage(tmp_path_factory.mktemp("one"), [each for fault in faults for each in (fault, None)])
    sabotage.run({"memory": "128 MiB"})
    return sabotage


def test_all_other_cells_are_measured(one_a_side: Sabotage) -> None:
    for number, fault in enumerate(one_a_side.faults):
        assert fault or went_well(one_a_side.cell(number)), one_a_side.cells[number]["message"]
    assert [number for number in range(13) if one_a_side.replaced(number)] == [0, 2, 4, 12]


@pytest.mark.parametrize(
    ("number", "message", "replaced"),
    [
        (0, "^dst1: xrootd was killed by SIGSEGV; its last words: ", True),
        (2, "^src1: xrootd was killed by SIGKILL; its last words: ", True),
        (4, "^client was killed by SIGKILL", True),
        (8, "no such file|status code 404", False),  # by XRootD 5.5.3, by 5.8.1
        (10, "exit code", False),
        (12, "certificate verify failed", True),
    ],
)
def test_a_cell_says_what_broke(one_a_side: Sabotage, number: int, message: str, replaced: bool) -> None:
    cell = one_a_side.cell(number)
    assert cell["status"] == "failed"
    assert re.search(message, cell["message"])
    assert (BROKEN in cell["flags"], one_a_side.replaced(number)) == (replaced, replaced)
    if number < 6:  # a process died
        assert any(cell["samples"]["goodput"])  # what was seen until then


def test_the_logs_of_a_broken_deployment_are_kept(one_a_side: Sabotage) -> None:
    logs = one_a_side.folder / "logs"
    assert {path.name for path in logs.glob("replacement-*")} == {f"replacement-{n}" for n in range(1, 5)}
    for folder in (logs, *logs.glob("replacement-*")):
        assert (folder / "xrootd.dst1.log").stat().st_size


def test_a_path_that_is_cut_and_restored(one_a_side: Sabotage) -> None:
    cell = one_a_side.cell(6)
    assert cell["status"] == "ok"
    arriving = [number for number, rate in enumerate(cell["samples"]["goodput"]) if rate]
    silent = set(range(arriving[0], arriving[-1])) - set(arriving)
    assert silent  # between what came before and what came after
    assert "wide_interval" in cell["flags"]
    assert not one_a_side.replaced(6)


def test_two_origins_a_side(tmp_path: Path) -> None:
    """One that is left would go on alone, and be taken for two."""
    faults = [killed("dst2"), None, killed("dstm"), None, killed("srcm", "cmsd"), source_removed, None]
    sabotage = Sabotage(tmp_path, faults)
    sabotage.run(origins=2)
    for number, who in {0: "dst2: xrootd", 2: "dstm: xrootd", 4: "srcm: cmsd"}.items():
        cell = sabotage.cell(number)
        assert cell["status"] == "failed"
        assert cell["message"].startswith(f"{who} was killed by SIGKILL")
        assert sabotage.replaced(number)
    assert all(went_well(sabotage.cell(number)) for number in (1, 3, 6))
    assert not sabotage.replaced(5)  # all are found to be whole


def test_a_server_and_a_path_that_answer_no_more(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr("tpcsweep.testbeds.netns.site.SETTLE_SECONDS", 5.0)
    monkeypatch.setattr("tpcsweep.testbeds.netns.namespace_servers.ANSWER_SECONDS", 5.0)
    faults = [killed("dst1", number=signal.SIGSTOP), None, path_cut(float("inf")), None]
    sabotage = Sabotage(tmp_path, faults)
    sabotage.run(how=SILENT)
    for number in (0, 2):
        assert sabotage.cell(number)["status"] == "failed"
        assert sabotage.replaced(number)
        assert went_well(sabotage.cell(number + 1))
    # It has connections that do not end, or is asked next.
    hung = "dst1: (still busy with transfers|waited for an answer to GET)"
    assert re.match(hung, sabotage.cells[0]["message"])
    # A server that waits for the path may be noticed before the path is asked.
    assert re.match("the path is down|(src1|dst1): still busy", sabotage.cells[2]["message"])


def test_a_token_that_expires_in_a_cell(tmp_path: Path, monkeypatch: Patch) -> None:
    """Curl's is fetched once for a cell; gfal-copy gets its own for each transfer."""
    configuration = xrootd.configuration

    def expiring(*given: Any, **more: Any) -> str:
        text, count = re.subn(r"(macaroons\.maxduration) \d+", r"\1 4", configuration(*given, **more))
        assert count == 1
        return text

    monkeypatch.setattr(xrootd, "configuration", expiring)
    sabotage = Sabotage(tmp_path, [None, None])
    sabotage.run(how=CELL | {"files": 20}, tool=["curl", "gfal-copy"])
    failed, well = sorted(sabotage.cells, key=went_well)
    assert failed["status"] == "failed"
    assert failed["summary"]["transfers"] > 0
    assert re.search("permission denied|status code 403", failed["message"])
    assert went_well(well)
    assert len(set(sabotage.deployments)) == 1


def test_a_hundred_streams_on_a_tenth_of_a_core(tmp_path: Path) -> None:
    """Servers are left with requests that they have not read: none of them is carried out in the next cell."""
    sabotage = Sabotage(tmp_path, [None, None, None])
    sabotage.run(how=SILENT, cores=0.1, streams=[100, 99, 1], file_size="1 MiB")
    for number, cell in enumerate(sabotage.cells):
        assert sabotage.cell(number)["status"] == "ok", cell["message"]
        assert BROKEN not in cell["flags"]
    assert len(set(sabotage.deployments)) == 1


def test_a_signal_while_a_broken_deployment_goes_ends_the_job(tmp_path: Path, monkeypatch: Patch) -> None:
    def interrupted(*given: Any, **named: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        teardown(*given, **named)

    teardown = ownership.teardown
    monkeypatch.setattr(ownership, "teardown", interrupted)
    sabotage = Sabotage(tmp_path, [killed("dst1"), None])
    with pytest.raises(SystemExit) as ended:
        sabotage.run()
    assert ended.value.code == 128 + signal.SIGTERM
    assert len(sabotage.cells) == 1


def test_a_server_with_a_wrong_certificate_does_not_come_up(tmp_path: Path, monkeypatch: Patch) -> None:
    create = credentials.create_credentials
    wrong = lambda folder, _, *rest: create(folder, ["192.0.2.1"], *rest)  # noqa: E731
    monkeypatch.setattr(credentials, "create_credentials", wrong)
    with pytest.raises(DeploymentError, match="certificate verify failed"), site_of(tmp_path):
        pass  # not after the time that servers have to start, which has another message


def test_deployments_that_break_again_and_again_leave_cells_out(tmp_path: Path) -> None:
    sabotage = Sabotage(tmp_path, [killed("dst1")] * 4)
    sabotage.run()
    assert len(sabotage.cells) == 3
    [why] = sabotage.left_out
    assert re.match("3 deployments in a row broke .* dst1: xrootd was killed by SIGKILL", why)
