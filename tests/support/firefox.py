# SPDX-License-Identifier: Apache-2.0
"""Pages in Firefox, by Marionette, which is its own protocol for tests: a script's answer on an opened page."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.browser import DESKTOP, PATIENCE

FIREFOX = "/usr/bin/firefox-esr"
PREFERENCES = {"marionette.port": 0, "ui.prefersReducedMotion": 1, "network.proxy.type": 1}
"""Any free port, which Firefox writes into its profile; a proxy that does not exist: pages need no network."""


class Marionette:
    """A connection: requests are lists with a number, in JSON, after their length and a colon."""

    def __init__(self, port: int) -> None:
        self._stream = socket.create_connection(("127.0.0.1", port), PATIENCE / 1000).makefile("rwb")
        self._number = 0
        self._receive()

    def ask(self, command: str, **parameters: Any) -> Any:
        self._number += 1
        text = json.dumps([0, self._number, f"WebDriver:{command}", parameters]).encode()
        self._stream.write(b"%d:%s" % (len(text), text))
        self._stream.flush()
        _, _, error, result = self._receive()
        assert error is None, error
        return result

    def run(self, script: str) -> Any:
        """Return the result of the body of an asynchronous function."""
        body = f"const done = arguments[0]; (async () => {{ {script} }})().then(done, error => done(`${{error}}`));"
        return self.ask("ExecuteAsyncScript", script=body, args=[], sandbox=None)["value"]

    def _receive(self) -> Any:
        length = b"".join(iter(lambda: self._stream.read(1), b":"))
        return json.loads(self._stream.read(int(length)))


@contextlib.contextmanager
def in_firefox(wide: int = DESKTOP) -> Iterator[Marionette]:
    """Start a Firefox of its own, without a window and a network."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        lines = (
            f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()
        )
        Path(profile, "user.js").write_text("\n".join(lines))
        command = [
            FIREFOX,
            "--headless",
            "--marionette",
            "--no-remote",
            "--profile",
            profile,
            f"--width={wide}",
        ]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, start_new_session=True, **quiet) as firefox:
            try:
                file = Path(profile, "MarionetteActivePort")
                while not file.exists():
                    assert firefox.poll() is None, "Firefox has ended"
                    time.sleep(0.1)
                marionette = Marionette(int(file.read_text()))
                marionette.ask("NewSession", capabilities={"alwaysMatch": {"timeouts": {"script": PATIENCE}}})
                yield marionette
            finally:
                os.killpg(firefox.pid, signal.SIGKILL)
