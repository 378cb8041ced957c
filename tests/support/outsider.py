# SPDX-License-Identifier: Apache-2.0
"""An outsider, who opens a page, tries whatever is on it, and notes all that looks broken."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from playwright.sync_api import Locator
from tpcsweep.data.opening import load
from tpcsweep.sweeps.sweep import REPETITION

from tests.support.browser import Visit, visiting

EYES = Path(__file__).with_suffix(".js").read_text()
CELLS = "#picture a"
CLICKED = 5  # cells in each view that the mouse points at and clicks; a script chooses every cell
KEYS = ["ArrowRight", "ArrowUp", "Enter", "Escape", "End", "ArrowDown", " ", "Escape", "Home"]
VALUES = "options => options.map(option => option.value)"
TARGETS, RTTS = ["0.001", "0.3", "99", ""], ["0", "20", "5000", ""]
"""Questions to the planner: throughputs in Gbit/s and RTTs in ms."""


def broken(page: Path, wide: int, dataset: Path | None = None) -> list[str]:
    """Return what looks broken on a page after all its controls were tried, in a window of a width.

    With the dataset of a sweep's page the chart of each of its cells has to have a line if there are samples.
    """
    with visiting(page, wide) as visit:
        outsider = Outsider(visit)
        outsider.look("opening")
        outsider.try_views()
        if dataset is not None:
            outsider.open_cells(sampled(dataset))
        outsider.press_keys()
        for name in ("summary:visible", ".findings button"):
            for control in visit.page.locator(name).all():
                control.click()
                outsider.look(f"clicking {name}")
        outsider.ask_planner()
        outsider.try_selects()
        return list(dict.fromkeys(outsider.faults))


def sampled(dataset: Path) -> xr.DataArray:
    """Which cells have samples, by the axes of the page."""
    goodput = load(dataset, "samples")["goodput"]
    return goodput.notnull().any("time").transpose(*load(dataset)["throughput"].dims)


class Outsider:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.page = visit.page
        self.faults: list[str] = []
        visit.run(EYES)

    def look(self, after: str) -> None:
        found = [*self.visit.run("outsider.slips(document.body)"), *self.visit.errors]
        self.visit.errors.clear()
        wider = self.visit.run("document.scrollingElement.scrollWidth - innerWidth")
        found += [f"{wider} px wider than the screen"] * (wider > 0)
        self.faults += [f"after {after}: {fault}" for fault in found]

    def try_views(self) -> None:
        for view in self.page.locator("#choices input").all():
            view.check()
            self.look(f"choosing the view {view.get_attribute('value')}")
            self.point_at_some(self.page.locator(CELLS).all())

    def point_at_some(self, cells: Sequence[Locator]) -> None:
        assert cells, "a picture without cells"
        for place in {round(share * (len(cells) - 1)) for share in np.linspace(0, 1, CLICKED)}:
            cells[place].hover(force=True)
            self.look("pointing at a cell")
            cells[place].click(force=True)
            self.look("clicking a cell")

    def open_cells(self, sampled: xr.DataArray) -> None:
        seen = self.visit.run("outsider.cells()")
        assert seen, "a sweep's page without cells"
        for one in seen:
            place = np.unravel_index(one["cell"], sampled.shape)
            at = dict(zip(sampled.dims, place, strict=True)) | {REPETITION: one["repetition"]}
            is_drawn = one["drawn"] is True and not one["without"]
            is_absent = one["drawn"] is None and one["without"]
            if not (is_drawn if sampled[at] else is_absent):
                self.faults.append(f"chart of cell {one}")
            self.faults += [f"cell {one['cell']}: {slip}" for slip in one["slips"]]
        self.look("opening every cell")

    def press_keys(self) -> None:
        first = self.page.locator(f"{CELLS}[tabindex='0']")
        if first.count():
            first.first.focus()
            for key in KEYS:
                self.page.keyboard.press(key)
                self.look(f"pressing {key}")

    def ask_planner(self) -> None:
        form = self.page.locator("#plan")
        if not form.count():
            return
        field = form.locator("[name=rtt]")
        rtts = [] if field.get_attribute("type") == "hidden" else RTTS  # hidden where no RTT is declared
        for target, rtt in itertools.product(TARGETS, rtts or [""]):
            form.locator("[name=target]").fill(target)
            if rtts:
                field.fill(rtt)
            for other in form.locator("select").all():
                other.select_option(index=len(target) % other.locator("option").count())
            if not self.page.locator("#planned").inner_text():
                self.faults.append(f"no answer for {target!r} at {rtt!r}")
            self.look(f"asking for {target!r} at {rtt!r}")

    def try_selects(self) -> None:
        """Put every axis on every place, and filter by every axis, limit and flag."""
        for form in ("#choices", "#filters"):
            names = [each.get_attribute("name") for each in self.page.locator(f"{form} select").all()]
            for name in names:
                box = self.page.locator(f'{form} select[name="{name}"]')
                usual = box.input_value()
                values = box.locator("option").evaluate_all(VALUES)
                for value in (*values[:2], usual):
                    box.select_option(value)
                    self.look(f"choosing {value!r} as {name}")
        for head in self.page.locator("#table th button").all():
            head.click()
            self.look("sorting")
