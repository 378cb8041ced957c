# SPDX-License-Identifier: Apache-2.0
"""The shipped sweep of host tuning on two servers in namespaces, with commands that change their kernels."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import xarray as xr
import yaml
from tpcsweep.testbeds.netns.site import NetnsSite

from tests.support.sites import site_of
from tests.support.workflow import ROOT, TPCSWEEP, Sweep, finished

SIZE = {"file_size": "512 KiB", "streams": [1, 2]}
SHAPED = "tc -n {source} qdisc replace dev tpc-eth root tbf burst 16kb latency 50ms rate"
SMALL = "sysctl -qw net.ipv4.tcp_rmem="
VALUES = {
    "baseline": f"{SHAPED} 20mbit",
    "network": f"{SHAPED} 60mbit && ip netns exec {{destination}} {SMALL}'4096 131072 4194304'",
    "storage": f"{SHAPED} 20mbit && ip -n {{source}} link set dev tpc-eth mtu 1400",
    "cap": f"{SHAPED} 8mbit",
}
VERIFY = (
    "tc -n {source} qdisc show dev tpc-eth && ip -n {source} link show dev tpc-eth | grep -o 'mtu [0-9]*'"
)
WINDOWS = {"small": "4096 32768 65536", "usual": "4096 131072 6291456"}
RESTORE = f"{SHAPED} 20mbit && ip -n {{source}} link set dev tpc-eth mtu {{mtu}}"


def tuned_hosts(site: NetnsSite, folder: Path) -> Path:
    """Write the shipped testbed with the servers of a site, and commands that change their kernels' settings."""
    content = yaml.safe_load((ROOT / "config/testbeds/host-tuning.yaml").read_text())
    [urls, *_] = site.pairs("redirector")
    [pair] = content["pairs"]
    for role, url in zip(("source", "destination"), urls, strict=True):
        pair[role]["urls"] = [url]
    secrets = site.servers.credentials
    content |= {"ca": str(secrets / "ca"), "credentials": {"proxy": str(secrets / "user.key")}}
    names = {"source": f"{site.prefix}-src1", "destination": f"{site.prefix}-dst1", "mtu": site_mtu(site)}
    content["hosts"] = {
        one: f"ip netns exec {names[role]}" for one, role in (("a1", "source"), ("b1", "destination"))
    }
    setting = content["settings"]["tuning"]
    assert setting["values"].keys() == VALUES.keys()
    setting["values"] = {value: command.format(**names) for value, command in VALUES.items()}
    setting |= {"verify": VERIFY.format(**names), "restore": RESTORE.format(**names), "settle": "0.1 s"}
    file = folder / "hosts.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def site_mtu(site: NetnsSite) -> str:
    shown = ["ip", "-j", "-n", f"{site.prefix}-src1", "link", "show", "dev", "tpc-eth"]
    return str(json.loads(subprocess.run(shown, check=True, capture_output=True).stdout)[0]["mtu"])


def shipped_sweep(folder: Path, **changed: Any) -> Sweep:
    content: Mapping[str, Any] = yaml.safe_load((ROOT / "config/sweeps/host-tuning.yaml").read_text())
    parameters = {**content["parameters"], **SIZE}
    return Sweep(folder, "host-tuning").define(**{**content, "parameters": parameters, **changed})


def test_the_shipped_sweep_finds_the_gain_of_tuned_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with site_of(tmp_path, ["curl"], streams=2, rtt=2, bandwidth=0.2, mtu=1500) as site:
        testbed = tuned_hosts(site, tmp_path)
        sweep = shipped_sweep(tmp_path, repetitions=3)
        results = tmp_path / "results/host-tuning@hosts"
        inside = ["ip", "netns", "exec", f"{site.prefix}-client"]
        wanted = [str(results / name) for name in ("dataset.nc", "figures/effects.png")]
        done = finished([*inside, *sweep.command(*wanted), f"testbed={testbed}"])
        assert done.returncode == 0, done.stdout
        assert site_mtu(site) == "1500"
    summary = xr.load_dataset(results / "dataset.nc")
    assert summary.attrs["order"] == "blocks"
    asked = ["effects", str(results), "--of", "tuning", "--reference", "baseline", "--json"]
    found = json.loads(finished([*TPCSWEEP, *asked]).stdout)
    rows = {
        row["value"]: row for row in found["effects"] if row["measure"] == "throughput" and not row["axis"]
    }
    # Three blocks on a busy machine may not decide a verdict, and have wide intervals. Requests take a part of each
    # file's time, so ratios are closer to one than those of the rates.
    assert 1 < rows["network"]["ratio"] < 3.3
    assert 0.35 < rows["cap"]["ratio"] < 1
    assert all(row["low"] <= row["ratio"] <= row["high"] for row in rows.values())
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts["network"] != "less"
    assert "gain" not in (verdicts["cap"], verdicts["storage"])
    assert (results / "figures/effects.csv").read_text().count("network") >= 1


def test_the_hosts_kernels_name_a_window_that_only_they_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path of 20 ms whose RTT and bandwidth nobody declares, and a destination with a small tcp_rmem."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with site_of(tmp_path, ["curl"], streams=1, rtt=20, bandwidth=0.05, mtu=1500) as site:
        testbed = tuned_hosts(site, tmp_path)
        content = yaml.safe_load(testbed.read_text())
        inside = f"ip netns exec {site.prefix}-dst1"
        commands = {value: f"{inside} {SMALL}'{rmem}'" for value, rmem in WINDOWS.items()}
        content["settings"]["tuning"] = {"values": commands, "restore": commands["usual"]}
        testbed.write_text(yaml.safe_dump(content))
        sweep = Sweep(tmp_path, "windows").define(
            parameters={"tuning": [*WINDOWS], "tool": "curl", "file_size": "4 MiB", "streams": 1},
            measurement={"until": "files", "files": 6, "max_time": "1 min"},
            retry_share=0,
        )
        results = tmp_path / "results/windows@hosts"
        client = ["ip", "netns", "exec", f"{site.prefix}-client"]
        wanted = [str(results / name) for name in ("dataset.nc", "index.html")]
        done = finished([*client, *sweep.command(*wanted), f"testbed={testbed}"])
        assert done.returncode == 0, done.stdout
        addresses = [urlsplit(url).hostname for url in site.pairs("redirector")[0]]
    files = {value: results / f"cells/tuning={value}/repetition=1.json" for value in WINDOWS}
    cells = {value: json.loads(file.read_bytes()) for value, file in files.items()}
    small, usual = (cells[value]["summary"] for value in WINDOWS)
    assert cells["small"]["limit"] == "window"
    assert small["host_rwnd_limited"] > 0.8
    assert small["share_window"] + small["share_not_visible"] > 0.9
    assert cells["usual"]["limit"] != "window"
    assert usual["share_window"] < 0.2
    for cell in cells.values():
        figures = cell["summary"]
        assert 18 < figures["host_rtt"] < 25, "that of the path"
        assert 0 <= figures["host_retransmitted"] < 0.5
        assert 0 < figures["host_connections"] < 2, "data connections alone"
        assert cell["provenance"]["receiving_hosts"] == ["b1"]
        assert cell["provenance"]["sending_hosts"] == ["a1"]
        recorded = json.dumps(cell["provenance"]["hosts"])
        assert not [address for address in addresses if address in recorded]
    page = " ".join((results / "index.html").read_text().split())
    assert "the receive window of b1 stopped senders" in page
    assert "Raise the third number of net.ipv4.tcp_rmem on b1 (now 64 KiB)" in page
    assert re.search(r"RTT (19|2\d) ms by the hosts", page)
