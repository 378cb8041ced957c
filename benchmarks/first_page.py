# SPDX-License-Identifier: Apache-2.0
"""Size and painting time in Chromium of the page of 10⁴ cells: python -m benchmarks.first_page."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect
from tpcsweep.pages.content import page_content
from tpcsweep.templates import render

from tests.support.browser import CHROMIUM
from tests.support.large import large

RUNS = 5
_VIRTUAL = "--virtual-time-budget"
PAINTED = """
new Promise(done => {
  const told = () => {
    const [first] = performance.getEntriesByName("first-contentful-paint");
    const cells = document.querySelectorAll(".map td[data-x]").length;
    if (first && cells) done(JSON.stringify([first.startTime, performance.now(), cells])); else setTimeout(told, 20);
  };
  told();
})
"""


async def main() -> None:
    """Print the page's size, the time to make it, and the times of several visits."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = large(folder)
        begun = time.perf_counter()
        text = render("page", **page_content(*data))
        print(f"made in {time.perf_counter() - begun:.1f} s, {len(text.encode()) / 1e6:.1f} MB")
        (folder / "index.html").write_text(text)
        times = [await visit(folder / "index.html", folder / f"profile{run}") for run in range(RUNS)]
    first, whole = (statistics.median(time) for time in zip(*times, strict=True))
    print(
        f"first contentful paint {first:.0f} ms, the map of 10⁴ cells by {whole:.0f} ms (medians of {RUNS})"
    )


async def visit(file: Path, profile: Path) -> tuple[float, float]:
    """Open a page in a separate Chromium; return ms to its first paint and until its map was visible."""
    flags = [flag for flag in CHROMIUM if not flag.startswith(_VIRTUAL)]
    asked = [
        *flags,
        f"--user-data-dir={profile}",
        "--remote-debugging-port=0",
        "--window-size=1280,900",
        "about:blank",
    ]
    with subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            port = profile / "DevToolsActivePort"
            while not port.exists() or not port.read_text().strip():
                await asyncio.sleep(0.05)
            listed = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port.read_text().split()[0]}/json")
            target = next(one for one in json.loads(listed.body) if one["type"] == "page")
            socket = await websocket_connect(target["webSocketDebuggerUrl"], max_message_size=2**26)
            numbers = count(1)
            await ask(socket, next(numbers), "Page.navigate", url=file.as_uri())
            await asyncio.sleep(0.5)
            found = await ask(
                socket,
                next(numbers),
                "Runtime.evaluate",
                expression=PAINTED,
                awaitPromise=True,
                returnByValue=True,
            )
            first, whole, cells = json.loads(found["result"]["value"])
            assert cells == 10_000
            return first, whole
        finally:
            browser.terminate()


async def ask(socket: WebSocketClientConnection, number: int, method: str, **params: Any) -> dict[str, Any]:
    """Return Chromium's answer."""
    await socket.write_message(json.dumps({"id": number, "method": method, "params": params}))
    while True:
        told = json.loads(str(await socket.read_message()))
        if told.get("id") == number:
            result: dict[str, Any] = told["result"]
            return result


if __name__ == "__main__":
    asyncio.run(main())
