# SPDX-License-Identifier: Apache-2.0
"""curl: one process for each transfer, which sends COPY with macaroons fetched once for each cell."""

import json
import os
import re
from pathlib import Path

from tpcsweep.common import processes
from tpcsweep.measuring.tools.tool import LONGEST, Credentials, Program, Transfer, copy_succeeded, first_line

RIGHTS = {"source": "DOWNLOAD,LIST", "destination": "UPLOAD,LIST"}
"""Activities that a COPY to a new file in an existing folder needs; overwriting would need DELETE or MANAGE."""

_STATUS = re.compile(r"^HTTP status (\d{3})$", re.MULTILINE)
"""The line that curl writes after the body of its last answer."""


def macaroon_request(role: str, credentials: Credentials) -> str:
    """Return the body of a request for a macaroon of the end `role`, "source" or "destination"."""
    validity = f"PT{credentials.macaroon_hours}H"
    return json.dumps({"caveats": [f"activity:{RIGHTS[role]}"], "validity": validity})


class Curl(Program):
    """`curl -X COPY`."""

    name = "curl"
    order = 1
    encryptions = ("tls", "none")
    authorizations = ("macaroons", "none")

    def prepare(self, transfer: Transfer, credentials: Credentials, folder: Path) -> None:
        """Fetch a macaroon from both ends if needed, and write the headers of all COPYs to a private file."""
        headers = ["Credential: none", "Overwrite: F"]
        if credentials.needed:
            folders = [url.rpartition("/")[0] + "/" for url in transfer.ends[::2]]
            active, passive = (
                credentials.token(role) or self._macaroon(role, url, credentials, folder)
                for role, url in zip(transfer.roles, folders, strict=True)
            )
            headers += [f"Authorization: Bearer {active}", f"TransferHeaderAuthorization: Bearer {passive}"]
        private = os.open(folder / "headers", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(private, "w") as file:
            file.write("\n".join(headers) + "\n")

    def _macaroon(self, role: str, url: str, credentials: Credentials, folder: Path) -> str:
        identity = ["--cert", str(credentials.certificate), "--key", str(credentials.key)]
        kind = ["-H", "Content-Type: application/macaroon-request"]
        request = ["-X", "POST", *kind, "-d", macaroon_request(role, credentials), "--max-time", "30"]
        command = [*self._curl(credentials), *identity, *request, url]
        done = processes.run(command, self.environment(credentials, folder))
        try:
            return str(json.loads(done.stdout)["macaroon"])
        except (ValueError, KeyError, TypeError):
            answer = (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"
            raise RuntimeError(f"{url} gave no macaroon: {answer[:300]}") from None

    def command(self, transfer: Transfer, credentials: Credentials, folder: Path) -> list[str]:
        """Return a COPY to the active end; macaroons come from a file, never from the command line."""
        streams = ["-H", f"X-Number-Of-Streams: {transfer.tcp_streams}"] if transfer.tcp_streams > 1 else []
        active, header, passive = transfer.ends
        other = f"{header}: {transfer.url_for_mover(passive)}"
        copy = ["-X", "COPY", "-H", other, "-H", f"@{folder / 'headers'}", *streams]
        # --location-trusted follows a redirector's 307 and sends the token there too, but never from https to http.
        # --no-buffer shows performance markers when they arrive.
        protocols = "=https" if active.startswith("https:") else "=http,https"
        trusted = ["--no-buffer", "--location-trusted", "--proto-redir", protocols]
        trusted += ["--write-out", "\nHTTP status %{http_code}\n"]
        return [*self._curl(credentials), *trusted, *copy, active]

    def _curl(self, credentials: Credentials) -> list[str]:
        return ["/usr/bin/curl", "--silent", "--show-error", "--cacert", str(credentials.authority)]

    def failure(self, returncode: int, output: str) -> str | None:
        found = _STATUS.search(output)
        status, body = (int(found[1]), output.replace(found[0], "")) if found else (0, output)
        result = re.search(r"^success:.*", body, re.MULTILINE)
        if returncode == 0 and copy_succeeded(status, result[0] if result else body.strip()):
            return None
        # The reason may have several lines, and curl's own message follows if the body does not end.
        reported = re.search(r"^failure:.*?(?=curl: \(|\Z)", body, re.MULTILINE | re.DOTALL)
        words = body if body.strip() else output.strip()
        reason = " ".join(reported[0].split())[:LONGEST] if reported else self.failure_reason(words)
        return f"exit code {returncode}: {reason}"

    def versions(self) -> dict[str, str]:
        return {"curl": first_line(["/usr/bin/curl", "--version"])}
