# SPDX-License-Identifier: Apache-2.0
"""The open questions: the arithmetic's laws, sweeps next to it, and the notebook."""

import itertools
import math
from pathlib import Path

import arithmetic
import explanations
import joint
import numpy as np
import observed
import pandas as pd
import pytest
import uml
import xarray as xr
from arithmetic import ABOUT_1, Setup, rtt_exponent
from tpcsweep.data.labels import MASKS
from tpcsweep.pages.figures import panels

from tests.support.notebooks import executed, sketched
from tests.support.pictures import hues, pixels
from tests.support.synthetic import bare
from tests.support.workflow import ROOT


def test_the_arithmetic_gives_what_was_worked_out_by_hand() -> None:
    # limit × packet × 8 / delay: 1000 × 9000 B × 8 / 0.12 s, and so on
    assert Setup(120, 9000, offloads=False).cap(500) == pytest.approx((0.6, 0.6))
    assert Setup(120, 1500, offloads=False).cap(1) == pytest.approx((0.1, 0.1))
    # two segments of 8948 bytes with 52 of headers
    assert Setup(120, 9000).cap(500) == pytest.approx((1.19653, 1.19653), rel=1e-4)
    assert Setup(120, 9000).cap(1).high == pytest.approx(4.369, rel=1e-3)
    assert Setup(120, 9000).crossover == pytest.approx((9.77, 16.28), rel=1e-3)
    # A super-packet has its headers once.
    for offloads, share in ((True, 2896 / 2948), (False, 1448 / 1500)):
        setup = Setup(120, 1500, offloads=offloads)
        assert setup.goodput(500).high / setup.cap(500).high == pytest.approx(share)
    # Rates that go with 1/RTT alone are flat where another limit is below both.
    near, far = (Setup(delay, 9000).cap(500) for delay in (10, 100))
    assert rtt_exponent(near, far, (10, 100)) == pytest.approx((-1, -1))
    assert rtt_exponent(near, far, (10, 100), 0.1) == pytest.approx((0, 0))


def test_the_published_rate_is_among_what_netems_limit_leaves_and_not_with_every_set_up() -> None:
    found = arithmetic.first()
    assert len(found) == 16
    assert (found["least"] <= found["most"]).all()
    likely = found.query("MTU == 9000 and offloads == 'on' and delay == 'one side' and interfaces == 1")
    assert likely["about 1 Gbit/s"].all()
    small = found.query("MTU == 1500 and offloads == 'off'")
    assert not small["about 1 Gbit/s"].any()
    assert (small["most"] < ABOUT_1.low).all()
    found = arithmetic.second(50, (1.0, 1e6))
    assert (found[found["other limit"] == 1.0]["most"] > -1).all()
    assert found[(found["other limit"] == 1e6) & (found["offloads"] == "off")]["1/RTT"].all()


def dataset(kind: str = "netns") -> xr.Dataset:
    """A sweep with and without a limit, in which what the limit leaves is had."""
    axes = {"rtt": [40.0, 120.0], "streams": [8, 64], "queue_limit": [1000.0, math.inf], "repetition": [1]}
    throughput = np.full((2, 2, 2, 1), 0.5)
    for (i, rtt), (j, streams) in itertools.product(enumerate(axes["rtt"]), enumerate(axes["streams"])):
        throughput[i, j, 0, 0] = min(0.5, Setup(rtt / 2, 1500).goodput(streams).low)
    fixed = {"mtu": 1500, "bandwidth": 0.5, "loss": 0.0, "tcp_buffer": 2**26, "tcp_streams": 1}
    about = {"sweep": "netem-limit", "testbed": kind, "testbed_kind": kind}
    return bare(throughput, 0.02 * throughput, axes).assign_coords(fixed).assign_attrs(about)


def seen_of(ds: xr.Dataset, folder: Path) -> pd.DataFrame:
    ds.to_netcdf(folder / "dataset.nc")
    return observed.read(folder / "none.json", [folder / "dataset.nc", folder / "none.nc"])


def test_a_sweeps_trusted_cells_stand_beside_the_arithmetic(tmp_path: Path) -> None:
    ds = dataset()
    ds["flags"][0, 0, 0, 0] = MASKS["machine_saturated"]
    ds["flags"][1, 1, 1, 0] = MASKS["wide_interval"]
    seen = seen_of(ds, tmp_path)
    assert not seen["simulated"].any()
    assert set(seen["explanation"]) == {"queue_limit", "none"}
    left_out = seen[~seen["trusted"].astype(bool)]
    assert left_out[["rtt", "streams", "limit"]].to_numpy().tolist() == [[40, 8, 1000]]
    limited = explanations.limits(seen_of(dataset(), tmp_path))
    assert len(limited) == 4 and limited["inside"].all() and (limited["most"] <= 0.5).all()
    assert (limited["delay"] == limited["rtt"] / 2).all()
    simulated = seen_of(dataset("simulation"), tmp_path)
    assert explanations.table(simulated)["seen"][0].startswith("SIMULATED, ")


def test_a_missing_user_mode_linux_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(uml.UmlError, match="Debian package user-mode-linux"):
        uml.run("true", tmp_path)


def test_the_notebook_runs_with_own_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real tests run it with those that ship."""
    some, usual = [*joint.setups()][:1], joint.table
    monkeypatch.setattr(joint, "setups", lambda: some)
    monkeypatch.setattr(joint, "table", lambda published, draws: usual(published, draws // 50))
    monkeypatch.setattr(panels, "save", sketched)
    results = tmp_path / "results"
    monkeypatch.setattr(observed, "SHIPPED", tmp_path / "none")
    (results / "netem-limit").mkdir(parents=True)
    dataset().to_netcdf(results / "netem-limit/dataset.nc")
    (tmp_path / "studies/open_questions").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "studies/open_questions")
    executed(ROOT / "studies/open_questions/open_questions.ipynb")
    folder = observed.own_experiments(results).parent
    table = pd.read_csv(folder / "explanations.csv")
    assert table["seen"].str.startswith("not measured").sum() == len(table) - 1
    assert hues(pixels(folder / "against_arithmetic.png")) > 0
