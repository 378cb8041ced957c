"""Pages as a person sees them: in Chromium, without a network."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bs4 import BeautifulSoup

CHROMIUM = [
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
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


def browse(page: Path, folder: Path, *arguments: str) -> str:
    """What Chromium prints of a page."""
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [*CHROMIUM, profile, *arguments, page.resolve().as_uri()],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return done.stdout


def elements(page: Path, folder: Path, script: str = MEASURED) -> BeautifulSoup:
    """The elements of a page once it has been shown, and a script of ours has run at its end."""
    copy = folder / f"with-script-{page.name}"
    copy.write_text(f"{page.read_text()}<script>{script}</script>")
    return BeautifulSoup(browse(copy, folder, "--dump-dom"), "html.parser")


def widths(page: Path, folder: Path) -> list[int]:
    """How wide each image of a page is, in pixels of its own; 0 of one that cannot be shown."""
    return [int(str(image["shown"])) for image in elements(page, folder).find_all("img")]
