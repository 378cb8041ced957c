# SPDX-License-Identifier: Apache-2.0
"""Pages as a person sees and uses them: in Chromium, without a network."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Page, sync_playwright

PATIENCE = 600_000  # ms; a machine may be busy
PHONE, DESKTOP = 390, 1400  # px
SETTLED = "new Promise(done => requestAnimationFrame(() => setTimeout(() => setTimeout(done))))"
"""Ends when the frame is drawn and whatever scripts put off until then is done."""
OPENED = """
async () => {
  const drawn = () => new Promise(done => setTimeout(done, 200));
  while (!app) await drawn();
  const view = new ToggleViewManager(app), seen = [];
  for (const [path, result] of Object.entries(results)) {
    view.handleSelectedResult(path);
    await drawn();
    app.showResultInfo(path);
    await drawn();
    const image = document.querySelector("img[src='" + result.data_uri + "']");
    seen.push({
      path: path,
      beside: document.querySelector("#app").textContent,
      width: image ? image.naturalWidth : 0,
      page: document.querySelector("iframe[src='" + result.data_uri + "']") !== null,
      table: path.endsWith(".csv") ? await (await fetch(result.data_uri)).text() : "",
    });
  }
  return seen;
}
"""
"""Opens every result of a report, as a person does by its row in the menu."""


@dataclass
class Visit:
    """An open page, and the errors that the browser has reported about it."""

    page: Page
    errors: list[str] = field(default_factory=list)

    def run(self, script: str, argument: Any = None) -> Any:
        """Return the result of a function, or of an expression, once the page is drawn."""
        self.page.evaluate(SETTLED)
        return self.page.evaluate(script, argument)

    def console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "assert"):
            self.errors.append(f"console: {message.text}")


@contextlib.contextmanager
def visiting(page: Path, wide: int = DESKTOP, *, dark: bool = False, link: str = "") -> Iterator[Visit]:
    """Open a page in a Chromium of its own, in a window of a width; visits end before the next one begins."""
    with sync_playwright() as playwright, contextlib.ExitStack() as stack:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", timeout=PATIENCE)
        stack.callback(browser.close)
        opened = browser.new_page(
            viewport={"width": wide, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            has_touch=wide == PHONE,
            offline=True,
        )
        opened.set_default_timeout(PATIENCE)
        visit = Visit(opened)
        opened.on("console", visit.console)
        opened.on("pageerror", lambda error: visit.errors.append(f"exception: {error}"))
        opened.on("requestfailed", lambda asked: visit.errors.append(f"not loaded: {asked.url[:200]}"))
        opened.goto(page.resolve().as_uri() + link)
        opened.evaluate(SETTLED)
        yield visit


def widths(page: Path) -> list[int]:
    """How wide each image of a page is, in pixels of its own; 0 of one that cannot be shown."""
    with visiting(page) as visit:
        shown: list[int] = visit.run("[...document.images].map(image => image.naturalWidth)")
        return shown


def opened(report: Visit) -> dict[str, Any]:
    """Open each result of a report, and return by the names of their files what was seen.

    `beside`: the text that stands there; `width` of its picture, 0 without one; `page`: whether it is shown as one;
    `table`: its text.
    """
    return {Path(result["path"]).name: result for result in report.run(OPENED)}
