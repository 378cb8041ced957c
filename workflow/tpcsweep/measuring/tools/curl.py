# SPDX-License-Identifier: Apache-2.0
"""curl: one process for each transfer, which sends COPY with macaroons fetched once for each cell."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tpcsweep.common import processes
from tpcsweep.measuring.tools.http_tpc import (
    MACAROON_TYPE,
    Progress,
    common_headers,
    copy_succeeded,
    end_headers,
    macaroon_request,
    parse_macaroon,
    wish,
)
from tpcsweep.measuring.tools.tool import Credentials, Program, Transfer, first_line, shortened

_STATUS = re.compile(r"^HTTP status (\d{3})(?: retry-after \[(.*)\] date \[(.*)\])?$", re.MULTILINE)
"""The line that curl writes after the body of its last answer, before 7.84 without the headers."""


class Curl(Program):
    """`curl -X COPY`."""

    name = "curl"
    order = 1
    encryptions = ("tls", "none")
    authorizations = ("macaroons", "none")

    def prepare(self, transfer: Transfer, credentials: Credentials, folder: Path) -> None:
        """Fetch a macaroon from both ends if needed, and write the headers of all COPYs to a private file."""
        tokens: list[str] = []
        if credentials.needed:
            folders = [url.rpartition("/")[0] + "/" for url in transfer.ends[::2]]
            tokens = [
                credentials.token(role) or self._macaroon(role, url, credentials, folder)
                for role, url in zip(transfer.roles, folders, strict=True)
            ]
        private = os.open(folder / "headers", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(private, "w") as file:
            file.writelines(f"{line}\n" for line in _lines(common_headers(*tokens)))

    def _macaroon(self, role: str, url: str, credentials: Credentials, folder: Path) -> str:
        identity = ["--cert", str(credentials.certificate), "--key", str(credentials.key)]
        body = macaroon_request(role, credentials).decode()
        request = ["-X", "POST", "-H", *_lines(MACAROON_TYPE), "-d", body, "--max-time", "30"]
        command = [*self._curl(credentials), *identity, *request, url]
        done = processes.run(command, self.environment(credentials, folder))
        try:
            return parse_macaroon(done.stdout)
        except ValueError:
            answer = (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"
            raise RuntimeError(f"{url} gave no macaroon: {answer[:300]}") from None

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """Return a COPY to the active end; macaroons come from a file, never from the command line."""
        active = transfer.ends[0]
        sent = [*_lines(end_headers(transfer)), f"@{folder / 'headers'}"]
        copy = ["-X", "COPY", *(word for line in sent for word in ("-H", line))]
        # --location-trusted follows a redirector's 307 and sends the token there too, but never from https to http.
        # --no-buffer shows performance markers when they arrive.
        protocols = "=https" if active.startswith("https:") else "=http,https"
        trusted = ["--no-buffer", "--location-trusted", "--proto-redir", protocols]
        headers = "retry-after [%header{retry-after}] date [%header{date}]"
        trusted += ["--write-out", f"\nHTTP status %{{http_code}} {headers}\n"]
        return [*self._curl(credentials), *trusted, *copy, active]

    def _curl(self, credentials: Credentials) -> list[str]:
        return ["/usr/bin/curl", "--silent", "--show-error", "--cacert", str(credentials.authority)]

    def failure(self, returncode: int, output: str) -> str | None:
        found = _STATUS.search(output)
        status, text = (int(found[1]), output.replace(found[0], "")) if found else (0, output)
        body, _, _ = text.partition("curl: (")  # curl's own message follows if the body does not end
        progress = Progress(body.encode())
        result = progress.last.decode()
        if returncode == 0 and copy_succeeded(status, result):
            return None
        reason = (
            shortened(result) if progress.failed else self.failure_reason(text if text.strip() else output)
        )
        if found and status >= 400:
            reason = f"HTTP {status}{wish(status, found[2] or '', found[3] or '')}: {reason}"
        return f"exit code {returncode}: {reason}"

    def versions(self) -> dict[str, str]:
        return {"curl": first_line(["/usr/bin/curl", "--version"])}


def _lines(headers: Mapping[str, str]) -> list[str]:
    return [f"{name}: {value}" for name, value in headers.items()]
