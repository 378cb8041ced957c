# SPDX-License-Identifier: Apache-2.0
"""Files for users: the folder that `tpcsweep init` makes, and what measures a sweep every week."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from tpcsweep.testbeds.loading import studies

from tests.support.commands import tpcsweep
from tests.support.workflow import ROOT, finished

SHIPPED = ROOT / "workflow/tpcsweep/shipped"


def test_a_folder_is_like_a_checkout_and_an_old_one_stays(tmp_path: Path) -> None:
    folder = tmp_path / "sweeps"
    done = tpcsweep("init", folder)
    assert done.exit_code == 0, done.output
    links = {path.name: path.readlink() for path in ROOT.iterdir() if path.is_symlink()}
    assert links and {name: (folder / name).readlink() for name in links} == links
    assert {path.name for path in folder.iterdir()} == {"Snakefile", "config", "profiles", *links}
    for name in ("config", "profiles"):
        files = {file.relative_to(ROOT) for file in (ROOT / name).rglob("*") if file.is_file()}
        assert all((folder / file).read_bytes() == (ROOT / file).read_bytes() for file in files)
    found = studies({"sweep": "demo", "testbed": "netns"}, folder)
    assert list(found) == ["demo"]
    again = tpcsweep("init", folder)
    assert again.exit_code == 2
    assert "already contains Snakefile, config, profiles" in again.output


def test_every_link_leads_to_the_same_place_in_the_checkout() -> None:
    links = [path for path in SHIPPED.rglob("*") if path.is_symlink()]
    assert len(links) >= 8
    assert [link for link in links if link.resolve() != (ROOT / link.relative_to(SHIPPED)).resolve()] == []


WEEKLY = ROOT / "config/weekly"


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((ROOT / "config/kubernetes" / name).read_text()))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for file in WEEKLY.glob("tpcsweep*@.*"):
        # What it looks for is there in a checkout that is set up.
        (tmp_path / file.name).write_text(file.read_text().replace("/opt/tpcsweep", str(ROOT)))
    names = ("tpcsweep@demo", "tpcsweep-mesh@mesh")
    units = [str(tmp_path / f"{name}.{kind}") for name in names for kind in ("service", "timer")]
    said = finished(["systemd-analyze", "verify", *units]).stdout
    # It may have to say something of the machine's own units.
    assert not [line for line in said.splitlines() if "tpcsweep" in line]


def test_all_three_measure_the_same_way() -> None:
    service = (WEEKLY / "tpcsweep@.service").read_text().replace("%i", "demo").replace("\\\\", "\\")
    crontab = (WEEKLY / "crontab").read_text()
    [cron] = documents("weekly.yaml")
    [container] = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    looks = r"find results -regex .results/(\S+)/(\S+/\.\*). (-type f -mmin \S+ -delete)"
    texts = (service, crontab, container["args"][0])
    told = [re.search(looks, text) for text in texts]
    assert all(told)
    for study, text in zip(("demo", "demo", "nodes@kubernetes"), texts, strict=True):
        assert re.search(rf"(?s)snakemake .*tpcsweep history results/{study} --fail-on change", text)
    places, rest = zip(*((found[1], (found[2], found[3])) for found in told if found), strict=True)
    assert places == ("demo", "demo", "nodes@kubernetes") and len(set(rest)) == 1


PERIODS = {"every week": 7 * 24 * 60, "every day": 24 * 60, "twice a day": 12 * 60}


def ages(name: str) -> dict[str, tuple[str, int]]:
    """The schedule and the age of deleted cells in minutes, by the periods that a file names."""
    rows = re.findall(r"(?m)^#   (\w+ \w+ \w+|\w+ \w+) +(\S.*\S) +-mmin \+(\d+)", (WEEKLY / name).read_text())
    return {period: (schedule, int(minutes)) for period, schedule, minutes in rows}


def test_both_timers_name_the_same_ages_and_ship_with_that_of_their_schedule() -> None:
    cron, timer = ages("crontab"), ages("tpcsweep@.timer")
    assert [*cron] == [*timer] == [*PERIODS]
    assert [minutes for _, minutes in cron.values()] == [minutes for _, minutes in timer.values()]
    service = (WEEKLY / "tpcsweep@.service").read_text()
    (every, old), (calendar, _) = cron["every week"], timer["every week"]
    assert re.search(rf"(?m)^{re.escape(every)} root .*-mmin \+{old} ", (WEEKLY / "crontab").read_text())
    timer_text = (WEEKLY / "tpcsweep@.timer").read_text()
    assert f"\nOnCalendar={calendar.removeprefix('OnCalendar=')}\n" in timer_text
    # systemd ignores the failure of a command behind "-": before the first run find has no folder.
    assert re.search(rf"(?m)^ExecStartPre=-/usr/bin/find results .*-mmin \+{old} ", service)


@pytest.mark.parametrize("period", PERIODS)
def test_cells_of_the_run_before_go_and_those_of_an_interrupted_run_stay(tmp_path: Path, period: str) -> None:
    line = next(line for line in (WEEKLY / "crontab").read_text().splitlines() if "find results" in line)
    _, *parts, _, _ = line.split(" && ")  # without the checkout's folder, and snakemake and tpcsweep
    command = re.sub(r"-mmin \+\d+", f"-mmin +{ages('crontab')[period][1]}", " && ".join(parts))
    # Before the first run there are no results.
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    names = {
        "demo/cells/rtt=5/repetition=1.json": "old",
        "demo/staging/a.json": "old",
        "demo/cells/rtt=5/repetition=2.json": "new",
        **dict.fromkeys(("demo/history/a.nc", "demo/dataset.nc", "demos/cells/a.json"), "another's"),
    }
    # The run before may have taken four tenths of the period, the interrupted one a tenth.
    minutes = {kind: PERIODS[period] * (1 if kind == "new" else 6) // 10 for kind in names.values()}
    for name, kind in names.items():
        file = tmp_path / "results" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["touch", f"--date={minutes[kind]} minutes ago", file], check=True)
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    left = {str(path.relative_to(tmp_path / "results")) for path in tmp_path.rglob("*.*") if path.is_file()}
    assert left == {name for name, kind in names.items() if kind != "old"}


def test_the_pod_of_the_cronjob_is_that_of_the_job() -> None:
    [cron] = documents("weekly.yaml")
    [job] = documents("workflow.yaml")
    assert set(cron["spec"]) <= set(client.V1CronJobSpec.attribute_map.values())
    weekly, once = cron["spec"]["jobTemplate"]["spec"], job["spec"]
    (ours,), (theirs,) = (spec["template"]["spec"]["containers"] for spec in (weekly, once))
    assert ours.pop("command") == ["sh", "-c"]
    assert set(theirs.pop("args")[2:]) < set(ours.pop("args")[0].split())
    assert weekly == once
