# SPDX-License-Identifier: Apache-2.0
"""Pages as a person sees them: in Chromium, without a network."""

import json
import subprocess
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup

CHROMIUM = [
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Whatever the page asks of a network fails at once.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:9",
    "--virtual-time-budget=20000",
]
MEASURED = """
addEventListener("load", () => {
  for (const image of document.images) image.setAttribute("shown", image.naturalWidth);
});
"""

OPENED = """
addEventListener("load", async () => {
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
  document.body.insertAdjacentHTML("beforeend", "<pre id=seen></pre>");
  document.querySelector("#seen").textContent = JSON.stringify(seen);
});
"""
"""Opens every result of a report, as a person does by its row in the menu."""


def browse(page: Path, folder: Path, *arguments: str) -> str:
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [*CHROMIUM, profile, *arguments, page.resolve().as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


def elements(page: Path, folder: Path, script: str = MEASURED) -> BeautifulSoup:
    """The elements of a page once it has been shown, and a script of ours has run at its end."""
    copy = folder / f"with-script-{page.name}"
    copy.write_text(f"{page.read_text()}<script>{script}</script>")
    return BeautifulSoup(browse(copy, folder, "--dump-dom"), "html.parser")


def widths(page: Path, folder: Path) -> list[int]:
    """How wide each image of a page is, in pixels of its own; 0 of one that cannot be shown."""
    return [int(str(image["shown"])) for image in elements(page, folder).find_all("img")]


def opened(report: Path, folder: Path) -> dict[str, Any]:
    """Open each result of a report, and return by the names of their files what was seen.

    `beside`: the text that stands there; `width` of its picture, 0 without one; `page`: whether it is shown as one;
    `table`: its text.
    """
    [told] = elements(report, folder, OPENED).select("#seen")
    return {Path(result["path"]).name: result for result in json.loads(told.get_text())}


FRAMED = """
addEventListener("load", () => {
  const frame = document.createElement("iframe");
  frame.style = "width: WIDEpx; height: 800px; border: 0";
  frame.addEventListener("load", () => setTimeout(() => {
    const seen = document.body.appendChild(document.createElement("pre"));
    seen.id = "seen";
    seen.textContent = JSON.stringify((SCRIPT)(frame.contentDocument, frame.contentWindow));
  }, 1000));
  frame.srcdoc = document.getElementById("framed").textContent.replaceAll("<|/script", "</" + "script");
  document.body.append(frame);
});
"""
"""Shows a page as wide as a phone, which a window of Chromium's cannot be."""


def framed(page: Path, folder: Path, wide: int, script: str, *arguments: str) -> Any:
    """What a function of a page's document and window gives, which is so many pixels wide."""
    text = page.read_text().replace("</script", "<|/script")
    copy = folder / f"framed-{page.name}"
    around = FRAMED.replace("WIDE", str(wide)).replace("SCRIPT", script)
    copy.write_text(
        f'<!doctype html><body><script type="text/plain" id="framed">{text}</script><script>{around}</script>'
    )
    [told] = BeautifulSoup(browse(copy, folder, "--dump-dom", *arguments), "html.parser").select("#seen")
    return json.loads(told.get_text())
